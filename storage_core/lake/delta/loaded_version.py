"""One version of a Delta table, loaded: its files, and what it notes of its shards.

One thread at a time.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from deltalake import DeltaTable

from storage_core.lake.app_id import LakeStream
from storage_core.lake.delta.commits import commit_id_of, is_same_commit, naming
from storage_core.lake.delta.shard_notes import ShardNote, ShardNotes, newest_notes
from storage_core.lake.delta.state import file_sizes
from storage_core.lake.image_names import is_image_path, shard_directory

# So many commits are looked through for a note, which the newest has nearly always.
_LOOKED_THROUGH: Final = 10


class LoadedVersion:
    """A version of a table, which may become a later one."""

    def __init__(self, delta: DeltaTable, stream: LakeStream) -> None:
        """Read what the newest commits note.

        Args:
            delta: The table.
            stream: Whose it is.
        """
        self.delta = delta
        self._stream = stream
        self._sizes: dict[str, int] | None = None
        self._by_directory: dict[str, dict[str, int]] = {}
        self._foreign: list[str] = []
        commits: list[dict[str, Any]] = []
        notes: ShardNotes | None = None
        for count in (1, _LOOKED_THROUGH):
            if notes is None:
                commits = delta.history(count)
                notes = newest_notes(commits)
        self.notes = notes or ShardNotes()
        self._newest: Mapping[str, Any] = commits[0] if commits else {}
        # The one that it follows, where that was not seen again since the newest one was made.
        self._before: Mapping[str, Any] | None = None

    @property
    def sizes(self) -> dict[str, int]:
        """The path of each file, and how many bytes it has."""
        if self._sizes is None:
            self._sizes = file_sizes(self.delta)
            by_directory: dict[str, dict[str, int]] = {}
            for path, size in self._sizes.items():
                directory = path[: path.find("/") + 1]
                by_directory.setdefault(directory, {})[path] = size
            self._by_directory = by_directory
            self._foreign = sorted(path for path in self._sizes if not is_image_path(path))
        return self._sizes

    def sizes_of(self, shard: int | None) -> dict[str, int]:
        """Return the path of each file of a shard, and how many bytes it has; None: of all."""
        sizes = self.sizes
        return sizes if shard is None else self._by_directory.get(shard_directory(shard), {})

    @property
    def foreign_files(self) -> list[str]:
        """The paths of files that another program wrote, wherever they lie, in order."""
        return self._foreign if self.sizes else []

    def note(self, shard: int) -> ShardNote:
        """Return up to where a shard is published, and by whom."""
        note = self.notes.of(shard)
        if note is None:
            note = ShardNote(
                self.delta.transaction_version(self._stream.app_id(shard)),
                self.delta.transaction_version(self._stream.owner_app_id(shard)),
            )
            self.notes = self.notes.then({shard: note})
        return note

    def commit_ids(self) -> tuple[str, str] | None:
        """Return the ids of the newest commit and of the one before it; None if one has none."""
        before = self._before
        if before is None:
            newest = self.delta.history(2)
            # Of a table whose log is a checkpoint alone there are none.
            if len(newest) < 2 or not is_same_commit(self._newest, newest[0]):  # noqa: PLR2004
                return None
            before = newest[1]
        ids = commit_id_of(self._newest), commit_id_of(before)
        return None if ids[0] is None or ids[1] is None else (ids[0], ids[1])

    def is_newest(self) -> bool:
        """Tell whether the store has this version as the newest, and not another's of its place."""
        newest = self._newest_commits()
        return _are_same(self.delta.history(len(newest))[: len(newest)], newest)

    def advance(self) -> bool:
        """Load what was committed since.

        Returns:
            Whether there is a later version of the same table. If not, load it anew: another one
            may lie there.
        """
        loaded = self.delta.version()
        self.delta.update_incremental()
        return self._advance_from(loaded)

    def advance_to(self, notes: ShardNotes, commit_id: str) -> bool:
        """Load the next version, which a commit of ours has made, and what was committed since.

        Its file was created where there was none, so nothing is read of it but what it changes.
        What it follows is looked at when it is asked again whether this is the newest version.

        Args:
            notes: What the commit notes.
            commit_id: The id that it has.

        Returns:
            As `advance` does.
        """
        loaded = self.delta.version()
        self.delta.update_incremental()
        if self.delta.version() != loaded + 1:
            return self._advance_from(loaded)
        self._sizes, self._before, self._newest = None, self._newest, naming(commit_id)
        self.notes = notes
        return True

    def _advance_from(self, loaded: int) -> bool:
        """Read what the commits behind a version note, which are loaded."""
        newer = self.delta.version() - loaded
        if not newer:
            return False
        newest = self._newest_commits()
        commits = self.delta.history(newer + len(newest))
        if not _are_same(commits[newer:], newest):
            return False
        self._sizes, self._newest, self._before = None, commits[0], None
        self.notes = newest_notes(commits[:newer]) or self.notes
        return True

    def _newest_commits(self) -> list[Mapping[str, Any]]:
        """Return the newest commit, and the one that it follows where that is to be seen again."""
        return [self._newest] if self._before is None else [self._newest, self._before]


def _are_same(commits: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether commits are others of the same versions."""
    return len(commits) == len(others) and all(map(is_same_commit, others, commits))

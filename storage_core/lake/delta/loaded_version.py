"""One version of a Delta table, loaded: its files, and what it notes of its shards.

One thread at a time.
"""

from collections.abc import Mapping
from typing import Any, Final

from deltalake import DeltaTable

from storage_core.lake.app_id import LakeStream
from storage_core.lake.delta.shard_notes import ShardNote, ShardNotes, newest_notes
from storage_core.lake.delta.state import file_sizes
from storage_core.lake.image_names import shard_directory

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
        commits: list[dict[str, Any]] = []
        notes: ShardNotes | None = None
        for count in (1, _LOOKED_THROUGH):
            if notes is None:
                commits = delta.history(count)
                notes = newest_notes(commits)
        self.notes = notes or ShardNotes()
        self._newest: Mapping[str, Any] = commits[0] if commits else {}

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
        return self._sizes

    def shard_sizes(self, shard: int) -> dict[str, int]:
        """Return the path of each file of a shard, and how many bytes it has."""
        return self._by_directory.get(shard_directory(shard), {}) if self.sizes else {}

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

    def is_there(self) -> bool:
        """Tell whether the store has this version still, and not another's of its number."""
        return self.delta.history(1)[:1] == [self._newest]

    def advance(self) -> bool:
        """Load what was committed since.

        Returns:
            Whether there is a later version of the same table. If not, load it anew: another one
            may lie there.
        """
        loaded = self.delta.version()
        self.delta.update_incremental()
        if self.delta.version() == loaded:
            return False
        *newer, same = self.delta.history(self.delta.version() - loaded + 1)
        if same != self._newest or not newer:
            return False
        self._sizes, self._newest = None, newer[0]
        self.notes = newest_notes(newer) or self.notes
        return True

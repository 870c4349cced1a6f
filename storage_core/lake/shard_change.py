"""What a commit changes of one shard: files added and removed, and the address published then.

Pure, but for the names of Delta's actions: what follows from a state of the shard's files, and
which state comes of it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from deltalake import Transaction
from deltalake.transaction import AddAction, RemoveAction

from storage_core.errors import CorruptionError, InvalidRequestError
from storage_core.lake.app_id import LakeStream
from storage_core.lake.delta.shard_notes import ShardNote
from storage_core.lake.image_names import SHARD, shard_directory


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file that a commit adds.

    Attributes:
        path: Its path below the table.
        size: Its bytes.
        rows: Its rows.
        stats: Delta's statistics, as JSON.
        is_new: Whether its rows were in no file before; who streams the table reads these alone.
    """

    path: str
    size: int
    rows: int
    stats: str
    is_new: bool


@dataclass(frozen=True, slots=True)
class ShardFiles:
    """What a version of the table has of a shard.

    Attributes:
        table_id: The random id of the table.
        published: Up to which address it is published; None if it never was.
        sizes: Its files, and how many bytes each has.
        owner: The number of the log that publishes it; None where the table names none.
    """

    table_id: str
    published: int | None
    sizes: Mapping[str, int]
    owner: int | None = None


@dataclass(frozen=True, slots=True)
class ShardChange:
    """What one commit changes.

    Attributes:
        shard: The shard.
        adds: Files that were uploaded.
        removes: Paths of files whose rows are in those that are added, or have expired.
        end: The exclusive end of the addresses that are published then.
        owner: The number of the log that publishes the shard then; None: as it is.
    """

    shard: int
    adds: Sequence[TableFile]
    removes: Sequence[str]
    end: int
    owner: int | None = None

    def refuse_senseless(self, before: ShardFiles) -> None:
        """Refuse what no caller asks for who compared with this state of the shard.

        Raises:
            InvalidRequestError: It does not follow from the state.
        """
        directory = shard_directory(self.shard)
        unknown = [path for path in self.removes if path not in before.sizes]
        misplaced = [
            file.path
            for file in self.adds
            if not file.path.startswith(directory) or file.path in before.sizes
        ]
        falls = before.published is not None and self.end < before.published
        if unknown or misplaced or falls:
            message = (
                f"the commit does not follow from what was loaded: published {before.published} to "
                f"{self.end}, unknown files {unknown}, misplaced files {misplaced}"
            )
            raise InvalidRequestError(message, shard=self.shard)

    def after(self, before: ShardFiles) -> ShardFiles:
        """Return what the commit makes of a state of the shard."""
        sizes = {path: size for path, size in before.sizes.items() if path not in self.removes}
        sizes |= {file.path: file.size for file in self.adds}
        owner = before.owner if self.owner is None else self.owner
        return ShardFiles(before.table_id, self.end, sizes, owner)

    def note(self, before: ShardFiles) -> ShardNote:
        """Return what is noted of the shard then (delta/shard_notes.py)."""
        return ShardNote(self.end, self.after(before).owner)

    def transactions(self, stream: LakeStream, owner: int | None) -> list[Transaction]:
        """Return Delta's `txn` actions: up to where the shard is published, and by whom.

        Args:
            stream: The stream as its table names it.
            owner: The owner that the loaded version names.
        """
        done = [Transaction(stream.app_id(self.shard), self.end)]
        if self.owner is not None:
            done.append(Transaction(stream.owner_app_id(self.shard), self.owner))
            if self.owner != owner:
                done.append(Transaction(stream.owned_app_id(self.shard, self.owner), 1))
        return done

    def refuse_lost(
        self, sizes: Mapping[str, int], stored: Callable[[str], int | None], stream: LakeStream
    ) -> None:
        """Refuse a store that has lost a file which was committed.

        Args:
            sizes: The shard's files that the table names now; somebody may have replaced some.
            stored: Says how many bytes the store has of a file; None if it has none.
            stream: The stream as its table names it.

        Raises:
            CorruptionError: It has another number of bytes, or no file.
        """
        for path in (file.path for file in self.adds if file.path in sizes):
            size = stored(path)
            if size != sizes[path]:
                have = "no file" if size is None else f"{size} of {sizes[path]} bytes of it"
                message = (
                    f"{path} was uploaded and committed, and the store has {have}; "
                    "`shardlog lake check` says what the table lacks"
                )
                raise CorruptionError(message, stream=stream.name, shard=self.shard)

    def actions(self, before: ShardFiles, now_ms: int) -> list[AddAction | RemoveAction]:
        """Return Delta's actions.

        Rows that expired are no change either to who streams the table: none is read again.

        Args:
            before: What the loaded version has of the shard.
            now_ms: The time.
        """
        values: dict[str, str | None] = {SHARD: str(self.shard)}
        adds = [
            AddAction(file.path, file.size, values, now_ms, file.is_new, file.stats)
            for file in self.adds
        ]
        removes = [
            RemoveAction(
                path,
                data_change=False,
                deletion_timestamp=now_ms,
                size=before.sizes[path],
                partition_values=values,
            )
            for path in self.removes
        ]
        return [*adds, *removes]

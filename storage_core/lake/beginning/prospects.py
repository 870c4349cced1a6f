"""What a shard would begin with from its table, beside how far the log goes that lies here.

Asked before a log is put aside that may have rows which nobody else has. It needs no more of that
log than its marker, so that it may be damaged otherwise.
"""

from collections.abc import Collection
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from storage_core.catalog.owners import shard_progress
from storage_core.format.shard_state import AddressRange
from storage_core.lake.beginning.positions import origin_table
from storage_core.lake.maintenance.foreign_files import refuse_foreign_files
from storage_core.lake.target import LakeTarget


@dataclass(frozen=True, slots=True)
class BeginProspect:
    """What a shard would begin with.

    Attributes:
        shard: The shard's number.
        published: The exclusive end of its rows in the table; None where that has none.
        has_log: Whether a log of it lies here, which would be archived.
        committed: The exclusive end of that log's rows; None where its marker cannot be read.
    """

    shard: int
    published: int | None
    has_log: bool
    committed: int | None

    @property
    def beyond(self) -> AddressRange | None:
        """The addresses that the log has, or may have, and the table lacks; None if it has none.

        Where nobody knows how far the log goes, the range is empty.
        """
        start = self.published or 0
        if not self.has_log or (self.committed is not None and self.committed <= start):
            return None
        return AddressRange(start, start if self.committed is None else self.committed)


def begin_prospects(
    root: str | PathLike[str],
    name: str,
    shards: Collection[int],
    target: LakeTarget | None = None,
) -> tuple[BeginProspect, ...]:
    """Return what shards would begin with from the table of their stream; nothing is changed.

    Args:
        root: The directory that holds the streams.
        name: The stream, whose shards are the partitions of an origin.
        shards: The shards, whether this root has them or not.
        target: Where the table is, as the stream's option `lake` says; if None by that option.

    Raises:
        InvalidRequestError: There is no such stream, or it has no lake, or no origin; or another
            program wrote the table.
        ForeignDataError: What lies there is another stream's table, or none of shardlog.
        UnavailableError: The store does not answer.
    """
    _, _, table = origin_table(root, name, target)
    if table is not None:
        refuse_foreign_files(table)
    logs = shard_progress(Path(root), name)
    return tuple(
        BeginProspect(
            shard,
            None if table is None else table.published(shard),
            shard in logs,
            logs[shard].committed if shard in logs else None,
        )
        for shard in sorted(set(shards))
    )

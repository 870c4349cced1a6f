"""What a log must know to go on behind a table's rows: from the heads runs beside the table.

Where runs are missing, as in a table that an older shardlog published, heads are made of the rows
of the files; what else runs tell is not known then.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core.errors import CorruptionError
from storage_core.format.keys import INT64_MIN, NULL_KEY_NUMBER
from storage_core.format.shard_state import AddressRange
from storage_core.lake.heads.run_heads import CollectedHeads
from storage_core.lake.heads.run_notes import RunNotes, RunSettings
from storage_core.lake.heads.runs import ShardHeadsRead
from storage_core.parts.snapshot import Part
from storage_core.platform.arrow import one_array

_KEY: Final = "key"
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LogHeads:
    """The heads of a log that begins, and the numbers of its keys.

    Attributes:
        keys: An array of those that have a number, by number; empty where rows belong to ids.
        ids: The secondaries, or the numbers of keys, that have a head, ascending.
        values: For each the largest primary, its address, and the last normal row's address.
    """

    keys: Any
    ids: Int32s
    values: Int64s

    @property
    def most(self) -> int:
        """A primary that no head is above."""
        return int(self.values[:, 0].max()) if len(self.values) else INT64_MIN


def notes_told(read: ShardHeadsRead, settings: RunSettings) -> RunNotes:
    """Return what runs say of a shard; where there is none, that nothing is known.

    Args:
        read: What runs say.
        settings: Those of the stream, which are taken for those of its table then.
    """
    return read.notes or RunNotes(settings, (), INT64_MIN, 0)


def ranges_within(ranges: Sequence[AddressRange], start: int, end: int) -> tuple[AddressRange, ...]:
    """Return what ranges have of some addresses."""
    return tuple(
        AddressRange(max(some.start, start), min(some.end, end))
        for some in ranges
        if some.overlaps(start, end)
    )


def heads_with_files(read: ShardHeadsRead, parts: Sequence[Part], *, has_keys: bool) -> pa.Table:
    """Return the heads of runs, and where some are missing those of the rows of parts.

    Raises:
        CorruptionError: A part is damaged, or its file is gone.
        UnavailableError: One cannot be read now.
    """
    collected = CollectedHeads(has_keys=has_keys)
    if read.notes is not None:
        collected.add(read.heads)
    for missing in read.missing:
        for part in parts:
            if missing.overlaps(part.entry.first, part.entry.last + 1):
                _add_part(collected, part, missing)
    return collected.all()


def _add_part(collected: CollectedHeads, part: Part, addresses: AddressRange) -> None:
    try:
        collected.add_part(part, addresses)
    except FileNotFoundError as error:
        message = "the file of a part is gone from the lake"
        raise CorruptionError(
            message, shard=part.shard, start=part.entry.first, end=part.entry.last + 1
        ) from error


def log_heads(heads: pa.Table, floor: int, *, has_keys: bool) -> LogHeads:
    """Return heads as a log keeps them; without those whose rows have all expired."""
    columns: list[Any] = [heads.column(name).to_numpy() for name in ("primary", "address", "last")]
    values = np.stack(columns, axis=1).astype(np.int64).reshape(-1, 3)
    keys = pa.array([], pa.binary())
    if has_keys:
        of_heads: Any = one_array(heads.column(_KEY))
        has_key = of_heads.is_valid().to_numpy(zero_copy_only=False)
        keys = of_heads.drop_null()
        ids = np.where(has_key, np.cumsum(has_key) - 1, NULL_KEY_NUMBER).astype(np.int32)
    else:
        ids = heads.column("secondary").to_numpy().astype(np.int32)
    lives = (values[:, 1] >= 0) & (values[:, 0] >= floor)
    order = np.argsort(ids[lives], kind="stable")
    return LogHeads(keys, ids[lives][order], values[lives][order])

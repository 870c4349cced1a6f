"""Lost ranges and gaps of a shard that is open for writing.

A lost range was acknowledged and is gone: reads that touch it raise. Given up by name it
becomes a gap, and reads pass over it. What the source no longer had when its turn came was
never here: it is told, and reads find nothing there. All live under `m`.

Each change is a pair: what to write, and the state that holds once it is written.
"""

from dataclasses import replace

from storage_core.engine.key_value import Batch
from storage_core.errors import InvalidRequestError
from storage_core.format.shard_state import (
    AddressRange,
    ShardState,
    encode_range_end,
    gap_key,
    lost_key,
)


def knows_loss(state: ShardState, block: AddressRange) -> bool:
    """Tell whether a range is known to be lost or given up."""
    recorded = (*state.lost, *state.gaps)
    return any(lost.start <= block.start and block.end <= lost.end for lost in recorded)


def note_loss(state: ShardState, block: AddressRange) -> tuple[Batch, ShardState]:
    """Record a block that cannot be read as a lost range."""
    batch = Batch()
    batch.put(lost_key(block.start), encode_range_end(block.end, "unreadable"))
    return batch, replace(state, lost=tuple(sorted([*state.lost, block])))


def accepted_loss(state: ShardState, start: int, end: int, shard: int) -> tuple[Batch, ShardState]:
    """Make gaps of the lost ranges in [start, end).

    Raises:
        InvalidRequestError: There is no lost range in [start, end), or only part of one.
    """
    touched = [lost for lost in state.lost if lost.overlaps(start, end)]
    if not touched or any(lost.start < start or end < lost.end for lost in touched):
        lost_ranges = [(lost.start, lost.end) for lost in state.lost]
        message = f"[{start}, {end}) must hold whole lost ranges; lost are {lost_ranges}"
        raise InvalidRequestError(message, shard=shard)
    batch = Batch()
    for lost in touched:
        batch.delete(lost_key(lost.start))
        batch.put(gap_key(lost.start), encode_range_end(lost.end, "given up"))
    remaining = tuple(lost for lost in state.lost if lost not in touched)
    return batch, replace(state, lost=remaining, gaps=tuple(sorted([*state.gaps, *touched])))

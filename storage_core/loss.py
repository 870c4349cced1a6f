"""Lost ranges and gaps of a shard that is open for writing.

A lost range was acknowledged and is gone: reads that touch it raise. Given up by name it
becomes a gap, and reads pass over it. What the source no longer had when its turn came was
never here: it is told, and reads find nothing there. All live under `m`.
"""

from storage_core.errors import InvalidRequestError
from storage_core.rocks import Batch
from storage_core.shard_state import AddressRange, encode_range_end, gap_key, lost_key

_Ranges = tuple[AddressRange, ...]


class LossLedger:
    """What is lost and what was given up. Changed under the shard's append lock only."""

    def __init__(self, lost: _Ranges, gaps: _Ranges, passed: _Ranges = ()) -> None:
        """Start from what recovery found."""
        self.lost = lost
        self.gaps = gaps
        self.passed = passed

    def covers(self, found: AddressRange) -> bool:
        """Tell whether a range is known to be lost or given up."""
        known = (*self.lost, *self.gaps)
        return any(one.start <= found.start and found.end <= one.end for one in known)

    def note(self, found: AddressRange) -> tuple[Batch, _Ranges]:
        """Return what to write and what is lost afterwards."""
        batch = Batch()
        batch.put(lost_key(found.start), encode_range_end(found.end, "unreadable"))
        return batch, tuple(sorted([*self.lost, found]))

    def give_up(self, start: int, end: int, shard: int) -> tuple[Batch, _Ranges, _Ranges]:
        """Return what to write, what is lost and what is a gap once ranges are given up.

        Raises:
            InvalidRequestError: There is no lost range in [start, end), or only part of one.
        """
        touched = [lost for lost in self.lost if lost.overlaps(start, end)]
        if not touched or any(lost.start < start or end < lost.end for lost in touched):
            known = [(lost.start, lost.end) for lost in self.lost]
            message = f"[{start}, {end}) must hold whole lost ranges; lost are {known}"
            raise InvalidRequestError(message, shard=shard)
        batch = Batch()
        for lost in touched:
            batch.delete(lost_key(lost.start))
            batch.put(gap_key(lost.start), encode_range_end(lost.end, "given up"))
        kept = tuple(lost for lost in self.lost if lost not in touched)
        return batch, kept, tuple(sorted([*self.gaps, *touched]))

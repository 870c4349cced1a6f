"""Lost ranges and gaps of a shard that is open for writing.

A lost range was acknowledged and is gone: reads that touch it raise. Given up by name it
becomes a gap, and reads pass over it. Both live under `m`.
"""

from storage_core.errors import InvalidRequestError
from storage_core.rocks import Batch
from storage_core.shard_state import AddressRange, encode_range_end, gap_key, lost_key

_Ranges = tuple[AddressRange, ...]


class LossLedger:
    """What is lost and what was given up. Changed under the shard's append lock only."""

    def __init__(self, lost: _Ranges, gaps: _Ranges) -> None:
        """Start from what recovery found."""
        self.lost = lost
        self.gaps = gaps

    def covers(self, found: AddressRange) -> bool:
        """Tell whether a range is known to be lost."""
        return any(lost.start <= found.start and found.end <= lost.end for lost in self.lost)

    def note(self, found: AddressRange, why: str) -> tuple[Batch, _Ranges]:
        """Return what to write and what is lost afterwards."""
        batch = Batch()
        batch.put(lost_key(found.start), encode_range_end(found.end, why))
        return batch, tuple(sorted([*self.lost, found]))

    def give_up(self, start: int, end: int, shard: int) -> tuple[Batch, _Ranges, _Ranges]:
        """Return what to write, what is lost and what is a gap once a range is given up.

        Raises:
            InvalidRequestError: The range is not wholly lost.
        """
        covering = [lost for lost in self.lost if lost.start <= start and end <= lost.end]
        if start >= end or not covering:
            known = [(lost.start, lost.end) for lost in self.lost]
            message = f"addresses [{start}, {end}) are not a lost range; lost are {known}"
            raise InvalidRequestError(message, shard=shard)
        lost = covering[0]
        rest = (AddressRange(lost.start, start), AddressRange(end, lost.end))
        left = [part for part in rest if part.start < part.end]
        batch = Batch()
        batch.delete(lost_key(lost.start))
        for part in left:
            batch.put(lost_key(part.start), encode_range_end(part.end))
        batch.put(gap_key(start), encode_range_end(end, "accepted"))
        kept = [known for known in self.lost if known != lost]
        gaps = (*self.gaps, AddressRange(start, end))
        return batch, tuple(sorted([*kept, *left])), tuple(sorted(gaps))

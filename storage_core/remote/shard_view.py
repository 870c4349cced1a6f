"""What is known of one shard at one moment, where several roots have pieces of its log."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from storage_core.errors import LostRangeError, ShardlogError, UnavailableError
from storage_core.format.shard_state import AddressRange
from storage_core.protocol.documents import ShardExtent
from storage_core.remote.coverage import AWAY, Coverage, Piece, begun, covered, floor_of, owner_of


@dataclass(frozen=True)
class ShardView:
    """A shard, as the roots that answer have it.

    Attributes:
        stream: The stream's name.
        number: The shard's.
        pieces: What each root has of it, of those that answer.
        reached: How far it was known to be committed before.
        born: Where it began when it was last known what everybody had of it; 0 if it never was.
        away: What roots had of it that do not answer now, by their addresses.
        others: Addresses that do not answer, of which nobody knows what they have of it.
    """

    stream: str
    number: int
    pieces: tuple[Piece, ...]
    reached: int
    born: int
    away: Mapping[str, ShardExtent]
    others: tuple[str, ...]

    @cached_property
    def end(self) -> int:
        """The exclusive end of what is known to be committed."""
        # A worker may have made shards that it never got: those say nothing of the log.
        return max((self.reached, *(piece.extent.committed for piece in begun(self.pieces))))

    @cached_property
    def owner(self) -> Piece | None:
        """The piece whose root writes the shard now; None while none of those that answer does."""
        return owner_of(self.pieces)

    @cached_property
    def floor(self) -> int:
        """The least primary that has not expired."""
        return floor_of(self.pieces)

    @cached_property
    def whole(self) -> Coverage:
        """Who has what of all that is committed."""
        away = [Piece(AWAY, extent) for extent in self.away.values()]
        whole = covered([*self.pieces, *away], self.end)
        born = min(self.born, whole.born)
        if not self._silent or born >= whole.bottom:
            return whole
        # One of the silent may have what is below, also got since it answered last.
        below = AddressRange(born, whole.bottom)
        return replace(whole, born=born, lacking=(below, *whole.lacking))

    def committed(self) -> int:
        """Return the exclusive end of the rows that reads return.

        Raises:
            UnavailableError: Nobody of those that answer writes the shard, and one that does not
                answer may.
        """
        if self.owner is None and self._silent:
            message = (
                f"none of the servers that answer owns the shard, and {self._silent} may: not to "
                "be had"
            )
            raise UnavailableError(message, stream=self.stream, shard=self.number)
        return self.end

    def end_of(self, end_address: int | None) -> int:
        """Return the exclusive end of what a request can be answered.

        Raises:
            UnavailableError: It is not known.
        """
        if end_address is not None and end_address <= self.end:
            return end_address
        return self.committed()

    def require(self, start: int, end: int, *, is_replay: bool) -> None:
        """Refuse a range of which some is not to be had.

        Raises:
            UnavailableError: Servers that do not answer have it, or may.
            LostRangeError: None has it, or, of a replay, has it any more.
        """
        coverage = self.whole
        for lacking in coverage.lacking:
            if lacking.overlaps(start, end):
                raise self._lacking(max(start, lacking.start), min(end, lacking.end))
        for expired in coverage.expired if is_replay else ():
            if expired.overlaps(start, end):
                first, last = max(start, expired.start), min(end, expired.end)
                message = "the rows have expired"
                raise LostRangeError(message, **self._place(first, last))

    def gone(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return what of a range no root has: expired, or lost between two owners.

        Raises:
            UnavailableError: Servers that do not answer may have it.
        """
        coverage = self.whole
        ranges: list[AddressRange] = []
        for lacking in coverage.lacking:
            if lacking.overlaps(start, end):
                error = self._lacking(lacking.start, lacking.end)
                if isinstance(error, UnavailableError):
                    raise error
                ranges.append(lacking)
        ranges += [expired for expired in coverage.expired if expired.overlaps(start, end)]
        return [(max(start, one.start), min(end, one.end)) for one in ranges]

    @property
    def _silent(self) -> str:
        return ", ".join([*self.away, *self.others])

    def _lacking(self, start: int, end: int) -> ShardlogError:
        reached = max((piece.extent.committed for piece in self.pieces), default=0)
        place = self._place(start, end)
        # Also one that did not reach there when it answered last: it may have gone on since.
        having = [text for text, last in self.away.items() if last.start < end]
        if having or self.others:
            named = ", ".join(having or self.others)
            message = f"of the servers that answer none has the rows; {named}: not to be had"
            return UnavailableError(message, **place)
        if end > reached:
            message = f"the log was known to reach {end}, and none of the servers has it so far"
            return UnavailableError(message, **place)
        message = "no root has the rows between where one copy ends and the next begins"
        return LostRangeError(message, **place)

    def _place(self, start: int, end: int) -> dict[str, Any]:
        return {"stream": self.stream, "shard": self.number, "start": start, "end": end}

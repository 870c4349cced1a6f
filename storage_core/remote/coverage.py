"""Which root has which addresses of a shard, where several roots have pieces of its log.

An address is the place in the partition, so two copies of one address are the same record, and a
log may lie in pieces: one root has it up to where another took over. The root whose worker holds
the shard is asked for all that it has, and others for what is below.

    a  |=========|            born 0, committed 90
    b         |~~~~|======>   born 80, rows below 120 expired, held
       0      80   120

What a root had that does not answer is known from when it answered last; nobody else is short of it
in silence. Pure functions and values.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from storage_core.format.keys import INT64_MIN
from storage_core.format.shard_state import AddressRange
from storage_core.protocol.documents import ShardExtent

AWAY: Final = -1


@dataclass(frozen=True, slots=True)
class Piece:
    """What one root has of a shard.

    Attributes:
        root: Which root; AWAY for one that does not answer.
        extent: What lies there.
    """

    root: int
    extent: ShardExtent

    @property
    def has_rows(self) -> bool:
        """Whether rows came to it."""
        return self.extent.committed > self.extent.born

    @property
    def has_begun(self) -> bool:
        """Whether rows came to it, or may at any time."""
        return self.extent.holder is not None or self.has_rows


@dataclass(frozen=True, slots=True)
class Segment:
    """Addresses that one root is asked for."""

    root: int
    start: int
    end: int

    def within(self, start: int, end: int) -> "Segment | None":
        """Return what of it lies in a range."""
        first, last = max(start, self.start), min(end, self.end)
        return Segment(self.root, first, last) if first < last else None


@dataclass(frozen=True)
class Coverage:
    """Who has which addresses of a shard.

    Attributes:
        born: The first address of the log.
        end: The exclusive end that was asked for.
        segments: Who is asked for what, in order.
        expired: What all that had it have let expire, between segments or below them.
        lacking: What none has that answers, and was never told to have expired.
    """

    born: int
    end: int
    segments: tuple[Segment, ...]
    expired: tuple[AddressRange, ...]
    lacking: tuple[AddressRange, ...]

    @cached_property
    def start(self) -> int:
        """The first address that any root has, or will have; also one that does not answer."""
        starts = [segment.start for segment in self.segments]
        return min([*starts, *(one.start for one in self.lacking)], default=self.end)

    @cached_property
    def bottom(self) -> int:
        """The first address of which anything is known; nobody ever told of one below it."""
        starts = [segment.start for segment in self.segments]
        starts += [one.start for one in (*self.expired, *self.lacking)]
        return min(starts, default=self.end)


def owner_of(pieces: Sequence[Piece]) -> Piece | None:
    """Return the piece that a worker holds; of several, as beside a frozen one, the longest."""
    held = [piece for piece in pieces if piece.extent.holder is not None]
    return max(held, key=_by_end, default=None)


def begun(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces that rows came to or may come to; all, if none is such."""
    return [piece for piece in pieces if piece.has_begun] or list(pieces)


def floor_of(pieces: Sequence[Piece]) -> int:
    """Return the least primary that has not expired anywhere."""
    return max((piece.extent.floor for piece in pieces), default=INT64_MIN)


def covered(pieces: Sequence[Piece], end: int) -> Coverage:
    """Return who is asked for which addresses below an end.

    Args:
        pieces: What each root has; had, if it does not answer.
        end: The exclusive end.
    """
    own = begun(pieces)
    here = [piece for piece in own if piece.root != AWAY]
    first = owner_of(here) or max(here, key=_by_end, default=None)
    segments: list[Segment] = []
    expired: list[AddressRange] = []
    lacking: list[AddressRange] = []
    cursor = end
    while True:
        having = [one for one in own if one.extent.start < cursor <= one.extent.committed]
        if having:
            chosen = first if first in having else min(having, key=_by_start)
            assert chosen is not None
            bottom = chosen.extent.start
            if chosen.root == AWAY:
                # As far as none of those that answer has them, too.
                bottom = max(bottom, _end_below(here, cursor) or 0)
                lacking.append(AddressRange(bottom, cursor))
            else:
                segments.append(Segment(chosen.root, bottom, cursor))
            cursor = bottom
            continue
        once = _expired_below(own, cursor)
        below = _end_below(own, cursor)
        bottom = once if below is None else max(once, below)
        if bottom < cursor:
            expired.append(AddressRange(bottom, cursor))
        if below is None:
            break
        if below < bottom:
            lacking.append(AddressRange(below, bottom))
        cursor = below
    born = min((piece.extent.born for piece in own), default=end)
    return Coverage(
        min(born, end), end, tuple(segments[::-1]), tuple(expired[::-1]), tuple(lacking[::-1])
    )


def _expired_below(pieces: Sequence[Piece], cursor: int) -> int:
    """Return down to where the log below an address was there once, by those that had it."""
    having_had = [
        piece.extent.born
        for piece in pieces
        if piece.extent.born < cursor <= max(piece.extent.start, piece.extent.committed)
    ]
    return min(having_had, default=cursor)


def _end_below(pieces: Sequence[Piece], cursor: int) -> int | None:
    """Return the end of the next rows below an address, of roots that do not reach it."""
    ends = [
        piece.extent.committed
        for piece in pieces
        if piece.extent.start < piece.extent.committed < cursor
    ]
    return max(ends, default=None)


def _by_end(piece: Piece) -> Any:  # noqa: ANN401 - to be compared
    return piece.extent.committed, -piece.root


def _by_start(piece: Piece) -> Any:  # noqa: ANN401 - as above
    return piece.root == AWAY, piece.extent.start, piece.root

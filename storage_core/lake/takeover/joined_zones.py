"""The zones of a log that begins from its table: one for all rows of neighbouring parts.

No block is there, and none was ever written here. So a zone stands for as many as parts have
addresses in common, as one of trimmed neighbours does (format/joined_zone.py); it does not say
which ids it has. What it counts is exact, since whoever rebuilds its rows compares them with it:
of parts in order by their footers, of rows out of order by the rows themselves.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storage_core.format.keys import INT64_MAX, INT64_MIN
from storage_core.format.record import State
from storage_core.format.zone import Zone, expired_zone
from storage_core.lake.takeover.table_parts import TablePart

_BYTES_MAX: Final = 2**32 - 1
Int64s = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class OutOfOrderRows:
    """What zones and windows need of the rows that came out of order, by address.

    Attributes:
        address: Where each is.
        primary: Its primary.
        state: What it was when it came.
        payload_bytes: How large its payload is.
        is_tombstone: Whether it has none.
        committed_at_ms: When it was committed.
    """

    address: Int64s
    primary: Int64s
    state: npt.NDArray[np.uint8]
    payload_bytes: Int64s
    is_tombstone: Mask
    committed_at_ms: Int64s

    @classmethod
    def of(cls, pieces: Sequence["OutOfOrderRows"]) -> "OutOfOrderRows":
        """Return several as one."""
        nothing = np.empty(0, np.int64)
        if not pieces:
            return cls(nothing, nothing, nothing.astype(np.uint8), nothing, nothing > 0, nothing)
        columns = [
            np.concatenate([getattr(piece, name) for piece in pieces])
            for name in cls.__dataclass_fields__
        ]
        order = np.argsort(columns[0])
        return cls(*(column[order] for column in columns))

    def between(self, first: int, last: int) -> "OutOfOrderRows":
        """Return the rows of a closed range of addresses."""
        begin, end = np.searchsorted(self.address, [first, last + 1]).tolist()
        return OutOfOrderRows(
            *(getattr(self, name)[begin:end] for name in self.__dataclass_fields__)
        )


@dataclass(slots=True)
class _Cell:
    """Parts in order with addresses in common."""

    first: int
    last: int
    parts: list[TablePart]


def zones_of(parts: Iterable[TablePart], out_of_order: OutOfOrderRows, begin: int) -> list[Zone]:
    """Return the zones of all rows of a log, by address.

    Args:
        parts: Those in order; those out of order do not count.
        out_of_order: The rows of these.
        begin: Where the log begins.
    """
    zones: list[Zone] = []
    reached = begin
    for cell in _with_gaps(_cells(parts), out_of_order):
        zones.append(_zone_of(cell, out_of_order.between(cell.first, cell.last), reached))
        reached = cell.last + 1
    return zones


def with_expired(zones: Sequence[Zone]) -> Iterator[Zone]:
    """Yield zones, and between them such as stand for rows that have expired.

    Nobody knows whether an address between two files ever had a row. Where rows have expired a head
    may name one that is not there any more; whoever asks for it is told so by such a zone.
    """
    for zone in zones:
        if zone.first > zone.previous_end:
            yield expired_zone(zone.previous_end, zone.previous_end, zone.first - 1, 0)
            zone.previous_end = zone.first
        yield zone


def _cells(parts: Iterable[TablePart]) -> Iterator[_Cell]:
    cell: _Cell | None = None
    in_order = (part for part in parts if not part.is_out_of_order)
    for part in sorted(in_order, key=lambda part: (part.entry.first, part.entry.last)):
        if cell is not None and part.entry.first <= cell.last:
            cell.last = max(cell.last, part.entry.last)
            cell.parts.append(part)
            continue
        if cell is not None:
            yield cell
        cell = _Cell(part.entry.first, part.entry.last, [part])
    if cell is not None:
        yield cell


def _with_gaps(cells: Iterable[_Cell], out_of_order: OutOfOrderRows) -> Iterator[_Cell]:
    """Yield cells, and between them such as have rows out of order alone."""
    reached = -1
    for cell in cells:
        yield from _gap(out_of_order.between(reached + 1, cell.first - 1))
        yield cell
        reached = cell.last
    yield from _gap(out_of_order.between(reached + 1, INT64_MAX - 1))


def _gap(rows: OutOfOrderRows) -> Iterator[_Cell]:
    if len(rows.address):
        yield _Cell(int(rows.address[0]), int(rows.address[-1]), [])


def _zone_of(cell: _Cell, rows: OutOfOrderRows, previous_end: int) -> Zone:
    states = rows.state
    is_normal, is_copied = states == State.NORMAL, (states == State.LATE) | (states == State.AHEAD)
    primaries = [part.facts.between("primary") for part in cell.parts]
    normal = _span(rows.primary[is_normal], primaries)
    times = (part.facts.committed_at_ms for part in cell.parts)
    committed = [time for time in times if time is not None]
    committed += [int(rows.committed_at_ms.max())] if len(rows.address) else []
    size = sum(part.facts.decoded_bytes for part in cell.parts)
    return Zone(
        previous_end,
        cell.first,
        cell.last,
        *normal,
        *_span(rows.primary[is_copied], ()),
        committed_at_ms=max(committed, default=0),
        checksum=0,
        block_bytes=min(_BYTES_MAX, size + int(rows.payload_bytes.sum())),
        count=sum(part.entry.rows for part in cell.parts) + len(rows.address),
        late=int(np.count_nonzero(states == State.LATE)),
        ahead=int(np.count_nonzero(states == State.AHEAD)),
        expired=int(np.count_nonzero(states == State.EXPIRED)),
        tombstones=sum(part.facts.tombstones for part in cell.parts)
        + int(np.count_nonzero(rows.is_tombstone)),
        sections=b"",
    )


def _span(primaries: Int64s, others: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the least and the largest primary; of none the least is above the largest."""
    least = [int(primaries.min())] if len(primaries) else []
    most = [int(primaries.max())] if len(primaries) else []
    least += [low for low, _ in others]
    most += [high for _, high in others]
    return min(least, default=INT64_MAX), max(most, default=INT64_MIN)

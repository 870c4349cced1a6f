"""The zones of a log that begins from its table: one for all rows of neighbouring parts.

No block is there, and none was ever written here. So a zone stands for as many as parts have
addresses in common, as one of trimmed neighbours does (format/joined_zone.py); it does not say
which ids it has. What it counts is exact, since whoever reads its rows compares them with it: of
parts in order by their footers, of rows out of order by the rows themselves.

Parts of several value schemas are merged each by itself, so that those of one reach over those of
another, and all of a log may hang together. Where that is too many rows for one zone, which expires
as one and of which a scan looks through all, it is cut where a part begins, or between rows out of
order; of parts that reach over a cut the addresses are read.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storage_core.format.keys import INT64_MAX
from storage_core.format.zone import Zone, expired_zone, primary_spans, state_counts
from storage_core.lake.beginning.table_parts import TablePart

ROWS_MAX: Final = 1_000_000
_BYTES_MAX: Final = 2**32 - 1
# A zone has no more of its rows too many than one run of rows out of order.
_RUNS_A_ZONE: Final = 8
Int64s = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
AddressesOf = Callable[[TablePart], Int64s]


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


@dataclass(frozen=True, slots=True)
class _Share:
    """A part, or the rows that it has of a range of addresses."""

    part: TablePart
    rows: int
    tombstones: int

    @classmethod
    def of(cls, part: TablePart) -> "_Share":
        return cls(part, part.entry.rows, part.facts.tombstones)

    @property
    def bytes(self) -> int:
        return self.part.facts.decoded_bytes * self.rows // max(1, self.part.entry.rows)


@dataclass(slots=True)
class _Cell:
    """What parts in order have of a range of addresses."""

    first: int
    last: int
    shares: list[_Share]

    @property
    def rows(self) -> int:
        return sum(share.rows for share in self.shares)


def zones_of(
    parts: Iterable[TablePart],
    out_of_order: OutOfOrderRows,
    begin: int,
    addresses_of: AddressesOf,
    rows_max: int = ROWS_MAX,
) -> list[Zone]:
    """Return the zones of all rows of a log, by address.

    Args:
        parts: Those in order; those out of order do not count.
        out_of_order: The rows of these.
        begin: Where the log begins.
        addresses_of: Returns the addresses of the rows of a part.
        rows_max: From how many rows on parts with addresses in common are cut.
    """
    zones: list[Zone] = []
    reached = begin
    for cell in _with_gaps(_cells(parts), out_of_order):
        rows = out_of_order.between(cell.first, cell.last)
        for some in _cut(cell, rows.address, addresses_of, rows_max):
            zones.append(_zone_of(some, rows.between(some.first, some.last), reached))
            reached = some.last + 1
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
            cell.shares.append(_Share.of(part))
            continue
        if cell is not None:
            yield cell
        cell = _Cell(part.entry.first, part.entry.last, [_Share.of(part)])
    if cell is not None:
        yield cell


def _cut(
    cell: _Cell, out_of_order: Int64s, addresses_of: AddressesOf, rows_max: int
) -> Iterator[_Cell]:
    """Yield a cell, in several where it has very many rows."""
    begins: list[int] = []
    waiting = 0
    for first, rows in _runs_of(cell, out_of_order, max(1, rows_max // _RUNS_A_ZONE)):
        if waiting >= rows_max and first > (begins or [cell.first])[-1]:
            begins.append(first)
            waiting = 0
        waiting += rows
    if not begins:
        yield cell
        return
    ends = [begin - 1 for begin in begins]
    pieces = [
        _Cell(first, last, [])
        for first, last in zip([cell.first, *begins], [*ends, cell.last], strict=True)
    ]
    for share in cell.shares:
        _share_out(share.part, pieces, addresses_of)
    yield from (piece for piece in pieces if piece.shares or _lie_in(out_of_order, piece))


def _runs_of(cell: _Cell, out_of_order: Int64s, run_rows: int) -> list[tuple[int, int]]:
    """Return where a cell can be cut, and how many rows lie from there to the next such place."""
    runs = [(share.part.entry.first, share.rows) for share in cell.shares]
    count = len(out_of_order)
    runs += [
        (int(out_of_order[begin]), min(run_rows, count - begin))
        for begin in range(0, count, run_rows)
    ]
    return sorted(runs)


def _lie_in(addresses: Int64s, piece: _Cell) -> bool:
    begin, end = np.searchsorted(addresses, [piece.first, piece.last + 1]).tolist()
    return bool(begin < end)


def _share_out(part: TablePart, pieces: Sequence[_Cell], addresses_of: AddressesOf) -> None:
    """Let pieces of a cell have the rows that a part has of their addresses."""
    entry = part.entry
    touched = [piece for piece in pieces if piece.first <= entry.last and entry.first <= piece.last]
    if len(touched) == 1:
        touched[0].shares.append(_Share.of(part))
        return
    ends = np.array([piece.last for piece in touched])
    below = np.searchsorted(np.sort(addresses_of(part)), ends, side="right")
    # Which of them lack a payload nobody asks.
    left = part.facts.tombstones
    for piece, rows in zip(touched, np.diff(below, prepend=0).tolist(), strict=True):
        if rows:
            piece.shares.append(_Share(part, rows, min(left, rows)))
            left -= min(left, rows)


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
    parts = [share.part for share in cell.shares]
    spans = primary_spans(rows.primary, rows.state)
    primaries = [part.facts.between("primary") for part in parts]
    late, ahead, expired = state_counts(rows.state)
    times = (part.facts.committed_at_ms for part in parts)
    committed = [time for time in times if time is not None]
    committed += [int(rows.committed_at_ms.max())] if len(rows.address) else []
    size = sum(share.bytes for share in cell.shares)
    return Zone(
        previous_end,
        cell.first,
        cell.last,
        min([spans[0], *(low for low, _ in primaries)]),
        max([spans[1], *(high for _, high in primaries)]),
        *spans[2:],
        committed_at_ms=max(committed, default=0),
        checksum=0,
        block_bytes=min(_BYTES_MAX, size + int(rows.payload_bytes.sum())),
        count=cell.rows + len(rows.address),
        late=late,
        ahead=ahead,
        expired=expired,
        tombstones=sum(share.tombstones for share in cell.shares)
        + int(np.count_nonzero(rows.is_tombstone)),
        sections=b"",
    )

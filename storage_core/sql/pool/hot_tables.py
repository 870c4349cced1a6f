"""The hot rows of a shard as typed tables, each row decoded once.

    tables = HotTables(typed)
    tables.of(start, end, read)        the rows from start to before end; only new ones are read

Rows are kept in pieces by address, and a piece is sorted by key (or id) as part_rows.py sorts it,
so that the rows of one are found by bisection. Pieces that grew small are merged, so that there are
few. Rows below `start` are dropped: parts have them. One thread at a time.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from storage_core.platform.arrow import one_array

# So many addresses are decoded at once, and at most so many rows merged.
PIECE_ROWS_MAX: Final = 65_536
_untyped: Any = pa
_compute: Any = pc
# Yields the stored rows of a range of addresses.
Read = Callable[[int, int], Iterable[pa.RecordBatch]]
# Makes typed tables of stored rows, each sorted.
Typed = Callable[[list[pa.RecordBatch]], list[pa.Table]]


@dataclass(frozen=True, slots=True)
class _Piece:
    """The rows of a range of addresses."""

    start: int
    end: int
    stored: tuple[pa.RecordBatch, ...]
    tables: tuple[pa.Table, ...]

    @property
    def rows(self) -> int:
        return sum(table.num_rows for table in self.tables)

    @property
    def cache_bytes(self) -> int:
        return sum(table.nbytes for table in self.tables) + sum(b.nbytes for b in self.stored)


class HotTables:
    """The hot rows of a shard as typed tables.

    Attributes:
        searched: How many rows were read for a few keys alone, none of which is kept.
    """

    def __init__(self, typed: Typed) -> None:
        """Begin without rows.

        Args:
            typed: Makes tables of stored rows.
        """
        self._typed = typed
        self._pieces: list[_Piece] = []
        self.searched = 0

    @property
    def rows(self) -> int:
        """How many rows are kept."""
        return sum(piece.rows for piece in self._pieces)

    @property
    def cache_bytes(self) -> int:
        """About how many bytes they take."""
        return sum(piece.cache_bytes for piece in self._pieces)

    def missing(self, start: int, end: int) -> int:
        """Return how many addresses of a range would be read."""
        decoded_end = (
            self._pieces[-1].end if self._pieces and self._pieces[0].start <= start else start
        )
        return max(end - max(decoded_end, start), 0)

    def of(self, start: int, end: int, read: Read) -> list[pa.Table]:
        """Return the rows of a range of addresses.

        Args:
            start: The first address that no part has.
            end: The exclusive end.
            read: Yields stored rows.
        """
        self.searched = 0
        self._pieces = [piece for piece in self._pieces if piece.end > start]
        if self._pieces and self._pieces[0].start > start:
            # Rows that a part had are hot again.
            self._pieces.clear()
        decoded_end = self._pieces[-1].end if self._pieces else start
        for first in range(decoded_end, end, PIECE_ROWS_MAX):
            self._add(first, min(first + PIECE_ROWS_MAX, end), read)
        return [
            within
            for piece in self._pieces
            for table in piece.tables
            if (within := _within(table, piece, start, end)).num_rows
        ]

    def _add(self, first: int, end: int, read: Read) -> None:
        stored = tuple(batch for batch in read(first, end) if batch.num_rows)
        piece = _Piece(first, end, stored, tuple(self._typed(list(stored))))
        while self._pieces and _are_merged(self._pieces[-1], piece):
            before = self._pieces.pop()
            together = (*before.stored, *piece.stored)
            tables = tuple(self._typed(list(together)))
            piece = _Piece(before.start, piece.end, together, tables)
        if piece.rows * 2 > PIECE_ROWS_MAX:
            # It is not merged again.
            piece = _Piece(piece.start, piece.end, (), piece.tables)
        self._pieces.append(piece)


def _are_merged(before: _Piece, piece: _Piece) -> bool:
    """Tell whether two pieces become one, so that each row is merged a few times only."""
    together = before.rows + piece.rows
    is_whole = before.rows == 0 or bool(before.stored)
    return is_whole and together <= PIECE_ROWS_MAX and before.rows <= 2 * piece.rows


def _within(table: pa.Table, piece: _Piece, start: int, end: int) -> pa.Table:
    """Return the rows of a range of addresses."""
    if piece.start >= start and piece.end <= end:
        return table
    addresses: Any = table.column("address")
    is_within = _compute.and_(
        _compute.greater_equal(addresses, start), _compute.less(addresses, end)
    )
    return table.filter(is_within)


def rows_of(table: pa.Table, column: str, owners: Sequence[bytes | int]) -> Iterator[pa.Table]:
    """Yield the rows of some keys or ids.

    Args:
        table: A sorted table.
        column: `key` or `secondary`.
        owners: The keys or ids.
    """
    sorted_by: Any = one_array(table.column(column))
    # Rows without a key come first.
    values = _Values(sorted_by)
    for owner in dict.fromkeys(owners):
        first = bisect_left(values, owner, sorted_by.null_count)
        end = bisect_right(values, owner, first)
        if first < end:
            yield table.slice(first, end - first)


class _Values:
    """A column as a sequence of values."""

    def __init__(self, column: Any) -> None:  # noqa: ANN401 - an array
        self._column = column

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401 - a value
        return self._column[index].as_py()


def united(tables: Iterable[pa.Table]) -> list[pa.Table]:
    """Return tables with each schema once."""
    by_schema: dict[pa.Schema, list[pa.Table]] = {}
    for table in tables:
        by_schema.setdefault(table.schema, []).append(table)
    return [_untyped.concat_tables(alike) for alike in by_schema.values()]

"""Bytes of many values side by side: pieces, of which each value has one of every column.

A piece is a column of bytes, or bytes that all values have. The pieces of a value stand one behind
the other; Arrow puts them together in one pass, whatever their number. A null in a piece is no
bytes.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Column = Any
Numbers = npt.NDArray[np.integer[Any]]
Mask = npt.NDArray[np.bool_]
Piece = Column | bytes

_untyped: Any = pa  # the stubs lack what is made from buffers
_compute: Any = pc
_NOTHING: Final = _untyped.scalar(b"", pa.binary())
# A view of at most 12 bytes holds them itself; a number takes 10.
_VIEW: Final = np.dtype([("size", "<i4"), ("low", "<u8"), ("high", "<u4")])
_ONE_BYTE: Final = np.uint64(0x80)
_LOW_BITS: Final = 56
_SEVENS: Final = 7 * np.arange(1, 10, dtype=np.uint64)
# The marks of bytes that another follows, in the first eight and behind them, by size.
_LOW_MARKS: Final = np.array(
    [0x8080808080808080 & ((1 << 8 * max(0, size - 1)) - 1) for size in range(11)], np.uint64
)
_HIGH_MARKS: Final = np.array([0x80 if size == 10 else 0 for size in range(11)], np.uint64)  # noqa: PLR2004 - the longest


def joined(pieces: Iterable[Piece], count: int) -> Column:
    """Return the bytes of so many values, none of them null."""
    merged = _merged(pieces)
    columns = [each for each in merged if not isinstance(each, bytes)]
    if not columns:
        only = cast("bytes", merged[0]) if merged else b""
        return _untyped.repeat(_untyped.scalar(only, pa.binary()), count)
    if len(merged) == 1:
        return _compute.fill_null(columns[0], b"") if columns[0].null_count else columns[0]
    arguments = [
        _untyped.scalar(each, pa.binary()) if isinstance(each, bytes) else each for each in merged
    ]
    return _compute.binary_join_element_wise(
        *arguments, _NOTHING, null_handling="replace", null_replacement=b""
    )


def _merged(pieces: Iterable[Piece]) -> list[Piece]:
    """Return pieces of which no two that all values have stand together."""
    merged: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, bytes) and merged and isinstance(merged[-1], bytes):
            merged[-1] += piece
        elif not isinstance(piece, bytes) or piece:
            merged.append(piece)
    return merged


def whole_numbers(numbers: npt.NDArray[np.integer[Any]], there: Mask | None = None) -> Column:
    """Return numbers as Avro writes them, zigzag, seven bits a byte.

    Args:
        numbers: Of 64 bits at most.
        there: Which of them are; the others have no bytes. All if None.
    """
    wide = numbers.astype(np.int64, copy=False)
    bits = (wide << 1).view(np.uint64)
    bits ^= (wide >> 63).view(np.uint64)
    if there is not None:
        bits[~there] = 0
    most = bits.max(initial=0)
    if most < _ONE_BYTE:
        data = bits.astype(np.uint8)
        return of_width(data, 1) if there is None else of_edges(_edges(there), data[there])
    sizes = np.ones(len(bits), np.int32)
    for shift in _SEVENS[: (int(most).bit_length() - 1) // 7]:
        sizes += (bits >> shift) != 0
    views = np.zeros(len(bits), _VIEW)
    views["low"] = _spread(bits)
    views["low"] |= _LOW_MARKS.take(sizes)
    if int(most).bit_length() > _LOW_BITS:
        high = bits >> np.uint64(_LOW_BITS)
        # The tenth byte is the last bit alone.
        views["high"] = (high & np.uint64(0x7F)) | _HIGH_MARKS.take(sizes) | (high >> 7 << 8)
    if there is not None:
        sizes *= there
    views["size"] = sizes
    return _of_views(views)


def _spread(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the lower 56 bits, seven in each byte."""
    spread = bits & np.uint64((1 << _LOW_BITS) - 1)
    for mask, shift in (
        (0x00FFFFFFF0000000, 4),
        (0x0FFFC0000FFFC000, 2),
        (0x3F803F803F803F80, 1),
    ):
        upper = spread & np.uint64(mask)
        spread ^= upper
        spread |= upper << np.uint64(shift)
    return spread


def _of_views(views: npt.NDArray[Any]) -> Column:
    """Return what short views hold, one behind the other."""
    made = _untyped.Array.from_buffers(
        pa.binary_view(), len(views), [None, _untyped.py_buffer(views)]
    )
    return made.cast(pa.binary())


def of_width(data: npt.NDArray[Any], width: int) -> Column:
    """Return values of one width, which lie one behind the other."""
    count = data.nbytes // width if width else len(data)
    return of_edges(np.arange(count + 1, dtype=np.int32) * np.int32(width), data)


def of_edges(edges: npt.NDArray[np.int32], data: npt.NDArray[Any]) -> Column:
    """Return values that lie one behind the other, each from one edge to the next."""
    buffers = [None, _untyped.py_buffer(edges), _untyped.py_buffer(np.ascontiguousarray(data))]
    return _untyped.Array.from_buffers(pa.binary(), len(edges) - 1, buffers)


def edges_of(column: Column) -> npt.NDArray[np.int32]:
    """Return where each value of a binary or string column, a list or a map begins and ends."""
    if not len(column):
        return np.zeros(1, np.int32)
    return np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, column.offset * 4)


def cut(column: Column, edges: npt.NDArray[np.int32]) -> Column:
    """Return a column's values by stretches: what stands between two edges becomes one."""
    places = edges_of(column).take(edges)
    buffers = [None, _untyped.py_buffer(places), column.buffers()[2]]
    return _untyped.Array.from_buffers(pa.binary(), len(edges) - 1, buffers)


def spread_out(column: Column, places: Numbers, count: int) -> Column:
    """Return a column's values at some of so many places, and nulls at the others."""
    where = np.full(count, -1, np.int64)
    where[places] = np.arange(len(places))
    return column.take(_untyped.array(where, mask=where < 0))


def where_valid(column: Column) -> Mask | None:
    """Return which values are not null; None where all are."""
    if not column.null_count:
        return None
    valid: Mask = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _edges(there: Mask) -> npt.NDArray[np.int32]:
    edges = np.zeros(len(there) + 1, np.int32)
    np.cumsum(there, out=edges[1:], dtype=np.int32)
    return edges


def trimmed(digits: npt.NDArray[np.uint8], sizes: npt.NDArray[np.integer[Any]]) -> Column:
    """Return the last bytes of each line, so many of each."""
    edges = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=edges[1:], dtype=np.int32)
    width = digits.shape[1]
    return of_edges(edges, digits[np.arange(width) >= width - sizes[:, None]])


Pieces = Sequence[Piece]

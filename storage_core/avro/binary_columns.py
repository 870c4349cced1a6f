"""Binary columns: fragments of encoded values, joined row by row.

A fragment is a binary column, or bytes that are the same for all rows. The encoding of a row is its
value in each fragment, concatenated; Arrow does that in one pass. A null has no bytes.
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
Fragment = Column | bytes

_untyped: Any = pa  # the stubs lack what is made from buffers
_compute: Any = pc
_NOTHING: Final = _untyped.scalar(b"", pa.binary())
# A view of at most 12 bytes holds them itself; a number takes 10.
_VIEW: Final = np.dtype([("size", "<i4"), ("low", "<u8"), ("high", "<u4")])
_ONE_BYTE: Final = np.uint64(0x80)
_LOW_BITS: Final = 56
_SEVENS: Final = 7 * np.arange(1, 10, dtype=np.uint64)
# The continuation bits of a varint by its size: of the first eight bytes, and of those after.
_LOW_MARKS: Final = np.array(
    [0x8080808080808080 & ((1 << 8 * max(0, size - 1)) - 1) for size in range(11)], np.uint64
)
_HIGH_MARKS: Final = np.array([0x80 if size == 10 else 0 for size in range(11)], np.uint64)  # noqa: PLR2004 - the longest


def concatenate(fragments: Iterable[Fragment], count: int) -> Column:
    """Return the fragments of each of `count` rows, concatenated; no row is null."""
    merged = _merge_constants(fragments)
    columns = [fragment for fragment in merged if not isinstance(fragment, bytes)]
    if not columns:
        only = cast("bytes", merged[0]) if merged else b""
        return _untyped.repeat(_untyped.scalar(only, pa.binary()), count)
    if len(merged) == 1:
        return _compute.fill_null(columns[0], b"") if columns[0].null_count else columns[0]
    arguments = [
        _untyped.scalar(fragment, pa.binary()) if isinstance(fragment, bytes) else fragment
        for fragment in merged
    ]
    return _compute.binary_join_element_wise(
        *arguments, _NOTHING, null_handling="replace", null_replacement=b""
    )


def _merge_constants(fragments: Iterable[Fragment]) -> list[Fragment]:
    """Return fragments with neighbouring constants merged."""
    merged: list[Fragment] = []
    for fragment in fragments:
        if isinstance(fragment, bytes) and merged and isinstance(merged[-1], bytes):
            merged[-1] += fragment
        elif not isinstance(fragment, bytes) or fragment:
            merged.append(fragment)
    return merged


def varints(numbers: npt.NDArray[np.integer[Any]], valid: Mask | None = None) -> Column:
    """Return integers as zigzag varints, as Avro encodes int and long.

    Args:
        numbers: Of 64 bits at most.
        valid: Which of them are encoded; the others have no bytes. All if None.
    """
    signed = numbers.astype(np.int64, copy=False)
    bits = (signed << 1).view(np.uint64)
    bits ^= (signed >> 63).view(np.uint64)
    if valid is not None:
        bits[~valid] = 0
    most = bits.max(initial=0)
    if most < _ONE_BYTE:
        data = bits.astype(np.uint8)
        return (
            fixed_width(data, 1) if valid is None else from_offsets(_offsets_of(valid), data[valid])
        )
    sizes = np.ones(len(bits), np.int32)
    for shift in _SEVENS[: (int(most).bit_length() - 1) // 7]:
        sizes += (bits >> shift) != 0
    views = np.zeros(len(bits), _VIEW)
    views["low"] = _spread_bits(bits)
    views["low"] |= _LOW_MARKS.take(sizes)
    if int(most).bit_length() > _LOW_BITS:
        high = bits >> np.uint64(_LOW_BITS)
        # The tenth byte is the last bit alone.
        views["high"] = (high & np.uint64(0x7F)) | _HIGH_MARKS.take(sizes) | (high >> 7 << 8)
    if valid is not None:
        sizes *= valid
    views["size"] = sizes
    return _from_views(views)


def _spread_bits(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the lower 56 bits, seven to a byte."""
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


def _from_views(views: npt.NDArray[Any]) -> Column:
    """Return the values of short binary views as a binary column."""
    column = _untyped.Array.from_buffers(
        pa.binary_view(), len(views), [None, _untyped.py_buffer(views)]
    )
    return column.cast(pa.binary())


def fixed_width(data: npt.NDArray[Any], width: int) -> Column:
    """Return values of a fixed width as a binary column."""
    count = data.nbytes // width if width else len(data)
    return from_offsets(np.arange(count + 1, dtype=np.int32) * np.int32(width), data)


def from_offsets(offsets: npt.NDArray[np.int32], data: npt.NDArray[Any]) -> Column:
    """Return a binary column of offsets and data."""
    buffers = [None, _untyped.py_buffer(offsets), _untyped.py_buffer(np.ascontiguousarray(data))]
    return _untyped.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def value_offsets(column: Column) -> npt.NDArray[np.int32]:
    """Return the offsets of a binary, string, list or map column."""
    if not len(column):
        return np.zeros(1, np.int32)
    return np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, column.offset * 4)


def regroup(column: Column, offsets: npt.NDArray[np.int32]) -> Column:
    """Return the values between each two offsets, concatenated."""
    positions = value_offsets(column).take(offsets)
    buffers = [None, _untyped.py_buffer(positions), column.buffers()[2]]
    return _untyped.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def validity(column: Column) -> Mask | None:
    """Return which values are not null; None if all are."""
    if not column.null_count:
        return None
    valid: Mask = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _offsets_of(valid: Mask) -> npt.NDArray[np.int32]:
    offsets = np.zeros(len(valid) + 1, np.int32)
    np.cumsum(valid, out=offsets[1:], dtype=np.int32)
    return offsets


def last_bytes(digits: npt.NDArray[np.uint8], sizes: npt.NDArray[np.integer[Any]]) -> Column:
    """Return the last bytes of each row of a matrix, as many as its size."""
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:], dtype=np.int32)
    width = digits.shape[1]
    return from_offsets(offsets, digits[np.arange(width) >= width - sizes[:, None]])


Fragments = Sequence[Fragment]

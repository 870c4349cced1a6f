"""The bytes of values without parts, a column at a time; a null has none."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage_core.avro.avro_types import NULL, Enum, Fixed, Primitive
from storage_core.avro.fitting import Leaf, fitted, numbers_of
from storage_core.avro.pieces import (
    Column,
    Mask,
    Pieces,
    edges_of,
    of_width,
    trimmed,
    where_valid,
    whole_numbers,
)
from storage_core.avro.row_place import RowPlace

_compute: Any = pc
_untyped: Any = pa
_NEGATIVE: Final = 0x80


def leaf_pieces(what: Leaf, given: Column, place: RowPlace) -> Pieces:
    """Return the bytes of a column's values.

    Raises:
        InvalidRequestError: One does not fit.
    """
    if what == NULL:
        return []
    column = fitted(what, given, place)
    valid = where_valid(column)
    if isinstance(what, Enum):
        return [_symbols(what, column, place, valid)]
    if what.decimal is not None:
        return _decimals(what, column, valid)
    return [column] if isinstance(what, Fixed) else _primitives(what, column, valid)


def _primitives(what: Primitive, column: Column, there: Mask | None) -> Pieces:
    if what.kind in ("bytes", "string"):
        raw = column.cast(pa.binary())
        return [whole_numbers(np.diff(edges_of(raw)), there), raw]
    if what.kind in ("int", "long"):
        return [whole_numbers(numbers_of(column), there)]
    numbers = numbers_of(column.cast(pa.uint8()) if what.kind == "boolean" else column)
    if there is None:
        return [of_width(numbers, numbers.dtype.itemsize)]
    return [_some_of_width(numbers, there)]


def _some_of_width(numbers: npt.NDArray[Any], there: Mask) -> Column:
    raw = np.ascontiguousarray(numbers).view(np.uint8).reshape(len(numbers), -1)
    return trimmed(raw, there * np.int32(raw.shape[1]))


def _symbols(what: Enum, column: Column, place: RowPlace, there: Mask | None) -> Column:
    indices = _compute.index_in(column, value_set=_untyped.array(what.symbols, pa.string()))
    if indices.null_count > column.null_count:
        is_wrong = _compute.and_(indices.is_null(), column.is_valid())
        row = int(is_wrong.to_numpy(zero_copy_only=False).argmax())
        symbols = ", ".join(what.symbols)
        place.refuse(row, f"is {column[row].as_py()!r}, and enum {what.name} has {symbols}")
    return whole_numbers(numbers_of(indices), there)


def _decimals(what: Primitive | Fixed, column: Column, there: Mask | None) -> Pieces:
    """Return unscaled numbers, the highest byte first: all of a fixed, else no more than need be.

    As many as tell the sign, as Java's BigInteger has them.
    """
    width = column.type.bit_width // 8
    lowest_first = np.frombuffer(
        column.buffers()[1] or b"", np.uint8, len(column) * width, column.offset * width
    ).reshape(-1, width)
    digits = lowest_first[:, ::-1]
    signs = np.where(digits[:, 0] >= _NEGATIVE, 0xFF, 0).astype(np.uint8)
    if isinstance(what, Fixed):
        short = max(0, what.size - width)
        padded = np.concatenate((np.repeat(signs[:, None], short, axis=1), digits), axis=1)
        sizes = np.full(len(digits), what.size, np.int32)
        return [trimmed(padded, sizes if there is None else sizes * there)]
    is_sign = digits == signs[:, None]
    # Where the first byte that says something stands; the last one always does.
    is_sign[:, -1] = False
    first = is_sign.argmin(axis=1)
    begins = np.take_along_axis(digits, first[:, None], axis=1)[:, 0]
    sizes = (width - first + ((begins ^ signs) >= _NEGATIVE)).astype(np.int32)
    if there is not None:
        sizes *= there
    return [whole_numbers(sizes, there), trimmed(digits, sizes)]

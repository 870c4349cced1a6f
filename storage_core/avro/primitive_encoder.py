"""Columns as an Avro type without parts takes them: what may stand for it, and nothing lost.

    Avro                   Arrow
    boolean                boolean
    int, long              whole numbers that fit
    float, double          numbers that are the same in it
    bytes, string          binary or text, that of a string UTF-8
    fixed                  binary of its size
    enum                   text, one of the symbols
    date                   date                             whole numbers too: in
    time-*                 time of a day                    the type's own unit
    timestamp-*            timestamp with a zone
    local-timestamp-*      timestamp without one
    decimal                decimals and whole numbers that it holds; text, where it has more digits
                           than most programs' decimals, 38

Values are refused by their rows, types even where there is no row.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage_core.avro.avro_types import NULL, Enum, Fixed, Primitive, arrow_type
from storage_core.avro.binary_columns import (
    Column,
    Mask,
    Pieces,
    edges_of,
    of_width,
    trimmed,
    where_valid,
    whole_numbers,
)
from storage_core.avro.row_path import RowPlace

Leaf = Primitive | Fixed | Enum
Kind = Any  # a data type; the stubs know none by what it is found to be
_types: Any = pa.types  # the stubs lack views
_compute: Any = pc
_untyped: Any = pa
_A_DAY: Final = {"time-millis": 86_400_000, "time-micros": 86_400_000_000}
_SHOWN_MAX: Final = 60
# What holds any whole number at any scale that a decimal can have here, nearly.
_WIDE_DIGITS: Final = 76
_DIGITS_OF_MANY_MAX: Final = 38


def _is_text(kind: Kind) -> bool:
    return bool(
        _types.is_string(kind) or _types.is_large_string(kind) or _types.is_string_view(kind)
    )


def _is_raw(kind: Kind) -> bool:
    return bool(
        _types.is_binary(kind)
        or _types.is_large_binary(kind)
        or _types.is_fixed_size_binary(kind)
        or _types.is_binary_view(kind)
    )


def _is_bytes(kind: Kind) -> bool:
    return _is_text(kind) or _is_raw(kind)


def _is_number(kind: Kind) -> bool:
    return bool(_types.is_integer(kind) or _types.is_floating(kind))


def _or_whole(is_own: Callable[[Kind], bool]) -> Callable[[Kind], bool]:
    return lambda kind: bool(is_own(kind) or _types.is_integer(kind))


_TAKEN: Final[dict[str, Callable[[Kind], bool]]] = {
    "null": _types.is_null,
    "boolean": _types.is_boolean,
    "int": _types.is_integer,
    "long": _types.is_integer,
    "float": _is_number,
    "double": _is_number,
    "bytes": _is_bytes,
    "string": _is_bytes,
}
_TAKEN_BY_LOGICAL: Final[dict[str, Callable[[Kind], bool]]] = {
    "date": _or_whole(_types.is_date),
    "time": _or_whole(_types.is_time),
    "timestamp": _or_whole(lambda kind: _types.is_timestamp(kind) and kind.tz is not None),
    "local": _or_whole(lambda kind: _types.is_timestamp(kind) and kind.tz is None),
}


def takes(what: Leaf, kind: Kind) -> bool:
    """Tell whether a column of a type may stand for an Avro type."""
    if _types.is_dictionary(kind):
        kind = kind.value_type
    if _types.is_null(kind):
        return True
    if isinstance(what, Enum):
        return _is_text(kind)
    if what.decimal is not None:
        is_number = _types.is_decimal(kind) or _types.is_integer(kind)
        is_beyond = what.decimal.precision > _DIGITS_OF_MANY_MAX
        return bool(is_number or (is_beyond and _is_text(kind)))
    if isinstance(what, Fixed):
        return _is_raw(kind)
    logical = (what.logical or "").partition("-")[0]
    return _TAKEN_BY_LOGICAL.get(logical, _TAKEN[what.kind])(kind)


def leaf_name(what: Leaf) -> str:
    """Return a type's name as people know it."""
    if isinstance(what, Enum):
        return f"enum {what.name}"
    if what.decimal is not None:
        return f"decimal({what.decimal.precision}, {what.decimal.scale})"
    if isinstance(what, Fixed):
        return f"fixed {what.name} of {what.size} bytes"
    return what.logical or what.kind


def fitted(what: Leaf, given: Column, place: RowPlace) -> Column:
    """Return a column in the Arrow type that shows an Avro type; of a fixed it is binary.

    Raises:
        InvalidRequestError: The column is of another type, or a value would not be the same.
    """
    kind = given.type
    if not takes(what, kind):
        place.refuse_all(f"is {kind}, and the schema has {leaf_name(what)} there")
    if _types.is_dictionary(kind):
        given = given.dictionary_decode()
    wanted = _wanted(what)
    if given.type == wanted:
        values = given
    else:
        values = _each(what, given, place, lambda column: _cast(column, wanted))
    if wanted == pa.string():
        _each(what, values, place, _checked_text)
    _refuse_values(what, values, given, place)
    return values


def _wanted(what: Leaf) -> Kind:
    if isinstance(what, Fixed) and what.decimal is None:
        return pa.binary()
    return pa.string() if isinstance(what, Enum) else arrow_type(what)


def _cast(column: Column, wanted: Kind) -> Column:
    kind = column.type
    if _types.is_integer(kind) and not _types.is_integer(wanted):
        if _types.is_decimal(wanted):
            wide = _compute.cast(column, _untyped.decimal128(38, 0))
            column = _compute.cast(wide, _untyped.decimal256(_WIDE_DIGITS, wanted.scale))
        elif not _types.is_floating(wanted):
            column = _compute.cast(column, pa.int32() if wanted.bit_width == 32 else pa.int64())  # noqa: PLR2004 - bits
    elif _types.is_fixed_size_binary(kind) or _types.is_binary_view(kind):
        column = _compute.cast(column, pa.binary())
    return _compute.cast(column, wanted)


def _checked_text(column: Column) -> Column:
    column.validate(full=True)
    return column


def _each(what: Leaf, given: Column, place: RowPlace, step: Callable[[Column], Column]) -> Column:
    """Return what a step makes of a column; name the first value that it fails on."""
    try:
        return step(given)
    except pa.ArrowInvalid as error:
        reason = str(error).splitlines()[0]
        if not len(given):
            place.refuse_all(f"is no {leaf_name(what)}: {reason}")
        row = _first_failing(given, step)
        place.refuse(row, f"is {_shown(given, row)}, and no {leaf_name(what)}: {reason}")


def _first_failing(given: Column, step: Callable[[Column], Column]) -> int:
    """Return the first value that a step fails on, which fails on one of them."""
    fine, wrong = 0, len(given)
    while wrong - fine > 1:
        middle = (fine + wrong) // 2
        try:
            step(given.slice(fine, middle - fine))
            fine = middle
        except pa.ArrowInvalid:
            wrong = middle
    return fine


def _refuse_values(what: Leaf, found: Column, given: Column, place: RowPlace) -> None:
    wrong: npt.NDArray[np.bool_] | None = None
    if isinstance(what, Fixed) and what.decimal is None:
        wrong = np.diff(edges_of(found)) != what.size
    elif isinstance(what, Primitive) and what.kind == "float" and found.type != given.type:
        again = found.cast(pa.float64()).to_numpy(zero_copy_only=False)
        before = _compute.cast(given, pa.float64()).to_numpy(zero_copy_only=False)
        wrong = (again != before) & ~np.isnan(before)
    elif isinstance(what, Primitive) and what.logical in _A_DAY:
        numbers = numbers_of(found)
        wrong = (numbers < 0) | (numbers >= _A_DAY[what.logical])
    if wrong is None:
        return
    if found.null_count:
        wrong &= found.is_valid().to_numpy(zero_copy_only=False)
    if wrong.any():
        row = int(wrong.argmax())
        place.refuse(row, f"is {_shown(given, row)}, which is no {leaf_name(what)}")


def numbers_of(column: Column) -> npt.NDArray[Any]:
    """Return the numbers that a column of numbers, dates or times is kept as."""
    wide = column.type.bit_width // 8
    letter = "f" if _types.is_floating(column.type) else "i"
    kind = np.dtype(f"<{letter}{wide}")
    buffer = column.buffers()[1]
    if buffer is None:
        return np.zeros(len(column), kind)
    return np.frombuffer(buffer, kind, len(column), column.offset * wide)


def _shown(given: Column, at: int) -> str:
    try:
        text = repr(given[at].as_py())
    except (ValueError, OverflowError, UnicodeDecodeError):
        # No Python value can be it: a text that is none, a moment beyond its years.
        return "what cannot be shown"
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


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

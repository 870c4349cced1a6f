r"""Scalar Avro types: columns cast to their Arrow type without loss, and encoded.

    Avro                   Arrow
    boolean                boolean
    int, long              integers in range
    float, double          numbers that it represents exactly
    bytes, string          binary or string; of a string UTF-8
    fixed                  binary of its size
    enum                   string, one of the symbols
    date                   date                      \
    time-*                 time of day                | or integers in the unit of the
    timestamp-*            timestamp with a zone      | logical type
    local-timestamp-*      timestamp without a zone  /
    decimal                decimals and integers that it represents exactly; strings, where its
                           precision is above 38

A value that does not fit is refused with its row, a type even in an empty column.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage_core.avro.avro_types import NULL, TIMES_OF_DAY, Enum, Fixed, Primitive, arrow_type
from storage_core.avro.binary_columns import (
    Column,
    Fragments,
    Mask,
    fixed_width,
    last_bytes,
    validity,
    value_offsets,
    varints,
)
from storage_core.avro.row_path import RowPath

Scalar = Primitive | Fixed | Enum
DataType = Any  # the stubs do not narrow a type by `pa.types`
_types: Any = pa.types  # the stubs lack views
_compute: Any = pc
_untyped: Any = pa
_SHOWN_MAX: Final = 60
# Holds nearly any integer at any scale that a decimal can have.
_WIDE_DIGITS: Final = 76
# Most programs have no decimal of more digits.
_COMMON_DIGITS_MAX: Final = 38
_SIGN_BIT: Final = 0x80


def _is_text(data_type: DataType) -> bool:
    return bool(
        _types.is_string(data_type)
        or _types.is_large_string(data_type)
        or _types.is_string_view(data_type)
    )


def _is_binary(data_type: DataType) -> bool:
    return bool(
        _types.is_binary(data_type)
        or _types.is_large_binary(data_type)
        or _types.is_fixed_size_binary(data_type)
        or _types.is_binary_view(data_type)
    )


def _is_bytes(data_type: DataType) -> bool:
    return _is_text(data_type) or _is_binary(data_type)


def _is_number(data_type: DataType) -> bool:
    return bool(_types.is_integer(data_type) or _types.is_floating(data_type))


def _or_integer(accepts: Callable[[DataType], bool]) -> Callable[[DataType], bool]:
    return lambda data_type: bool(accepts(data_type) or _types.is_integer(data_type))


_ACCEPTED: Final[dict[str, Callable[[DataType], bool]]] = {
    "null": _types.is_null,
    "boolean": _types.is_boolean,
    "int": _types.is_integer,
    "long": _types.is_integer,
    "float": _is_number,
    "double": _is_number,
    "bytes": _is_bytes,
    "string": _is_bytes,
}
_ACCEPTED_BY_LOGICAL: Final[dict[str, Callable[[DataType], bool]]] = {
    "date": _or_integer(_types.is_date),
    "time": _or_integer(_types.is_time),
    "timestamp": _or_integer(
        lambda data_type: _types.is_timestamp(data_type) and data_type.tz is not None
    ),
    "local": _or_integer(lambda data_type: _types.is_timestamp(data_type) and data_type.tz is None),
}


def can_cast(avro_type: Scalar, data_type: DataType) -> bool:
    """Tell whether values of an Arrow type may be cast to a scalar Avro type."""
    if _types.is_dictionary(data_type):
        data_type = data_type.value_type
    if _types.is_null(data_type):
        return True
    if isinstance(avro_type, Enum):
        return _is_text(data_type)
    if avro_type.decimal is not None:
        is_number = _types.is_decimal(data_type) or _types.is_integer(data_type)
        is_wide = avro_type.decimal.precision > _COMMON_DIGITS_MAX
        return bool(is_number or (is_wide and _is_text(data_type)))
    if isinstance(avro_type, Fixed):
        return _is_binary(data_type)
    logical = (avro_type.logical or "").partition("-")[0]
    return _ACCEPTED_BY_LOGICAL.get(logical, _ACCEPTED[avro_type.kind])(data_type)


def scalar_name(avro_type: Scalar) -> str:
    """Return the name of a type for messages."""
    if isinstance(avro_type, Enum):
        return f"enum {avro_type.name}"
    if avro_type.decimal is not None:
        return f"decimal({avro_type.decimal.precision}, {avro_type.decimal.scale})"
    if isinstance(avro_type, Fixed):
        return f"fixed {avro_type.name} of {avro_type.size} bytes"
    return avro_type.logical or avro_type.kind


def cast_exactly(avro_type: Scalar, column: Column, path: RowPath) -> Column:
    """Return a column cast to the Arrow type of an Avro type, a fixed to binary.

    Raises:
        InvalidRequestError: The column has another type, or a value would change.
    """
    data_type = column.type
    if not can_cast(avro_type, data_type):
        path.refuse_all(f"is {data_type}, and the schema has {scalar_name(avro_type)} there")
    if _types.is_dictionary(data_type):
        column = column.dictionary_decode()
    target = _target(avro_type)
    if column.type == target:
        values = column
    else:
        values = _cast_or_refuse(avro_type, column, path, lambda column: _cast(column, target))
    if target == pa.string():
        _cast_or_refuse(avro_type, values, path, _validated)
    _refuse_values(avro_type, values, column, path)
    return values


def _target(avro_type: Scalar) -> DataType:
    if isinstance(avro_type, Fixed) and avro_type.decimal is None:
        return pa.binary()
    return pa.string() if isinstance(avro_type, Enum) else arrow_type(avro_type)


def _cast(column: Column, target: DataType) -> Column:
    data_type = column.type
    if _types.is_integer(data_type) and not _types.is_integer(target):
        if _types.is_decimal(target):
            width = _compute.cast(column, _untyped.decimal128(38, 0))
            column = _compute.cast(width, _untyped.decimal256(_WIDE_DIGITS, target.scale))
        elif not _types.is_floating(target):
            column = _compute.cast(column, pa.int32() if target.bit_width == 32 else pa.int64())  # noqa: PLR2004 - bits
    elif _types.is_fixed_size_binary(data_type) or _types.is_binary_view(data_type):
        column = _compute.cast(column, pa.binary())
    return _compute.cast(column, target)


def _validated(column: Column) -> Column:
    column.validate(full=True)
    return column


def _cast_or_refuse(
    avro_type: Scalar, column: Column, path: RowPath, step: Callable[[Column], Column]
) -> Column:
    """Return the result of a step; refuse the first value that it fails on."""
    try:
        return step(column)
    except pa.ArrowInvalid as error:
        reason = str(error).splitlines()[0]
        if not len(column):
            path.refuse_all(f"is not {scalar_name(avro_type)}: {reason}")
        row = _first_failing(column, step)
        path.refuse(row, f"is {_quoted(column, row)}, not {scalar_name(avro_type)}: {reason}")


def _first_failing(column: Column, step: Callable[[Column], Column]) -> int:
    """Return the index of the first value that a step fails on; there is one."""
    fine, wrong = 0, len(column)
    while wrong - fine > 1:
        middle = (fine + wrong) // 2
        try:
            step(column.slice(fine, middle - fine))
            fine = middle
        except pa.ArrowInvalid:
            wrong = middle
    return fine


def _refuse_values(avro_type: Scalar, values: Column, column: Column, path: RowPath) -> None:
    wrong: npt.NDArray[np.bool_] | None = None
    if isinstance(avro_type, Fixed) and avro_type.decimal is None:
        wrong = np.diff(value_offsets(values)) != avro_type.size
    elif (
        isinstance(avro_type, Primitive)
        and avro_type.kind == "float"
        and values.type != column.type
    ):
        again = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
        before = _compute.cast(column, pa.float64()).to_numpy(zero_copy_only=False)
        wrong = (again != before) & ~np.isnan(before)
    elif isinstance(avro_type, Primitive) and avro_type.logical in TIMES_OF_DAY:
        numbers = storage_numbers(values)
        wrong = (numbers < 0) | (numbers >= TIMES_OF_DAY[avro_type.logical])
    if wrong is None:
        return
    if values.null_count:
        wrong &= values.is_valid().to_numpy(zero_copy_only=False)
    if wrong.any():
        row = int(wrong.argmax())
        path.refuse(row, f"is {_quoted(column, row)}, not {scalar_name(avro_type)}")


def storage_numbers(column: Column) -> npt.NDArray[Any]:
    """Return the storage integers or floats of a column of numbers, dates or times."""
    width = column.type.bit_width // 8
    code = "f" if _types.is_floating(column.type) else "i"
    dtype = np.dtype(f"<{code}{width}")
    buffer = column.buffers()[1]
    if buffer is None:
        return np.zeros(len(column), dtype)
    return np.frombuffer(buffer, dtype, len(column), column.offset * width)


def _quoted(column: Column, index: int) -> str:
    try:
        text = repr(column[index].as_py())
    except (ValueError, OverflowError, UnicodeDecodeError):
        # Python has no such value: a string that is not UTF-8, a time beyond the year 9999.
        return "a value that cannot be shown"
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


def encode_scalar(avro_type: Scalar, column: Column, path: RowPath) -> Fragments:
    """Return the encoded values of a column.

    Raises:
        InvalidRequestError: A value does not fit.
    """
    if avro_type == NULL:
        return []
    column = cast_exactly(avro_type, column, path)
    valid = validity(column)
    if isinstance(avro_type, Enum):
        return [_symbols(avro_type, column, path, valid)]
    if avro_type.decimal is not None:
        return _decimals(avro_type, column, valid)
    return [column] if isinstance(avro_type, Fixed) else _primitives(avro_type, column, valid)


def _primitives(avro_type: Primitive, column: Column, valid: Mask | None) -> Fragments:
    if avro_type.kind in ("bytes", "string"):
        raw = column.cast(pa.binary())
        return [varints(np.diff(value_offsets(raw)), valid), raw]
    if avro_type.kind in ("int", "long"):
        return [varints(storage_numbers(column), valid)]
    numbers = storage_numbers(column.cast(pa.uint8()) if avro_type.kind == "boolean" else column)
    if valid is None:
        return [fixed_width(numbers, numbers.dtype.itemsize)]
    return [_valid_fixed_width(numbers, valid)]


def _valid_fixed_width(numbers: npt.NDArray[Any], valid: Mask) -> Column:
    raw = np.ascontiguousarray(numbers).view(np.uint8).reshape(len(numbers), -1)
    return last_bytes(raw, valid * np.int32(raw.shape[1]))


def _symbols(avro_type: Enum, column: Column, path: RowPath, valid: Mask | None) -> Column:
    indices = _compute.index_in(column, value_set=_untyped.array(avro_type.symbols, pa.string()))
    if indices.null_count > column.null_count:
        is_wrong = _compute.and_(indices.is_null(), column.is_valid())
        row = int(is_wrong.to_numpy(zero_copy_only=False).argmax())
        symbols = ", ".join(avro_type.symbols)
        path.refuse(row, f"is {column[row].as_py()!r}, and enum {avro_type.name} has {symbols}")
    return varints(storage_numbers(indices), valid)


def _decimals(avro_type: Primitive | Fixed, column: Column, valid: Mask | None) -> Fragments:
    """Return big-endian unscaled integers: as wide as a fixed, else as short as keeps the sign."""
    width = column.type.bit_width // 8
    little_endian = np.frombuffer(
        column.buffers()[1] or b"", np.uint8, len(column) * width, column.offset * width
    ).reshape(-1, width)
    digits = little_endian[:, ::-1]
    signs = np.where(digits[:, 0] >= _SIGN_BIT, 0xFF, 0).astype(np.uint8)
    if isinstance(avro_type, Fixed):
        padding = max(0, avro_type.size - width)
        padded = np.concatenate((np.repeat(signs[:, None], padding, axis=1), digits), axis=1)
        sizes = np.full(len(digits), avro_type.size, np.int32)
        return [last_bytes(padded, sizes if valid is None else sizes * valid)]
    is_sign = digits == signs[:, None]
    # The first significant byte; the last byte always is.
    is_sign[:, -1] = False
    first = is_sign.argmin(axis=1)
    first_bytes = np.take_along_axis(digits, first[:, None], axis=1)[:, 0]
    sizes = (width - first + ((first_bytes ^ signs) >= _SIGN_BIT)).astype(np.int32)
    if valid is not None:
        sizes *= valid
    return [varints(sizes, valid), last_bytes(digits, sizes)]

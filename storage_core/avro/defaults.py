"""Defaults of fields: from JSON in a schema to values for Arrow."""

import decimal
import struct
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from storage_core.avro.avro_types import (
    NULL,
    Array,
    AvroType,
    Decimal,
    Enum,
    Field,
    Fixed,
    Map,
    Primitive,
    Union,
    arrow_type,
    members,
    widened,
)
from storage_core.errors import InvalidRequestError

_untyped: Any = pa  # the stubs lack arrays of any value
_SHOWN_MAX: Final = 60
# Arrow's errors are ValueErrors.
_UNFIT: Final = (
    TypeError,
    ValueError,
    AttributeError,
    KeyError,
    OverflowError,
    RecursionError,
    struct.error,
)


def default_value(avro_type: AvroType, value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a default as a value for Arrow.

    Raises:
        InvalidRequestError: It does not fit its type.
    """
    try:
        default = _value(avro_type, value)
        if default is not None:
            # A body may not have them either: a time outside of a day, too many digits.
            _untyped.array([default], arrow_type(avro_type)).validate(full=True)
    except InvalidRequestError:
        raise
    except _UNFIT as error:
        quoted = repr(value)
        quoted = quoted if len(quoted) <= _SHOWN_MAX else f"{quoted[:_SHOWN_MAX]}…"
        message = f"the default {quoted} does not fit its type: {error}"
        raise InvalidRequestError(message) from error
    return default


def _value(avro_type: AvroType, value: Any) -> Any:  # noqa: ANN401, PLR0911 - JSON, one way a type
    if isinstance(avro_type, Union):
        return _of_union(avro_type, value)
    if isinstance(avro_type, Primitive):
        return _primitive(avro_type, value)
    if isinstance(avro_type, Fixed):
        if len(value) != avro_type.size:
            message = f"expected {avro_type.size} bytes, got {len(value)}"
            raise ValueError(message)
        return _raw(value, avro_type.decimal)
    if isinstance(avro_type, Enum):
        if value not in avro_type.symbols:
            message = "it is not a symbol"
            raise ValueError(message)
        return value
    if isinstance(avro_type, Array):
        return [_value(avro_type.items, item) for item in value]
    if isinstance(avro_type, Map):
        return [(name, _value(avro_type.values, item)) for name, item in value.items()]
    return {field.name: _of_field(field, value) for field in avro_type.fields}


def _of_field(field: Field, value: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    if field.name in value:
        return _value(field.type, value[field.name])
    if not field.has_default:
        message = f"field {field.name} is missing"
        raise ValueError(message)
    return _value(field.type, field.default)


def _of_union(avro_type: Union, value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a default by the first branch that it fits."""
    if value is None and NULL in avro_type.branches:
        return None
    others = members(avro_type)
    for index, member in enumerate(others):
        try:
            default = _value(member, value)
        except _UNFIT:
            continue
        return default if len(others) == 1 or widened(avro_type) else {f"member{index}": default}
    message = "it fits no branch"
    raise ValueError(message)


def _primitive(avro_type: Primitive, value: Any) -> Any:  # noqa: ANN401 - JSON
    if avro_type.kind == "bytes":
        return _raw(value, avro_type.decimal)
    fits = {
        "null": value is None,
        "boolean": isinstance(value, bool),
        "int": _is_integer(value, 32),
        "long": _is_integer(value, 64),
        "float": isinstance(value, int | float) and not isinstance(value, bool),
        "double": isinstance(value, int | float) and not isinstance(value, bool),
        "string": isinstance(value, str),
    }
    if not fits[avro_type.kind]:
        message = f"it is not of type {avro_type.kind}"
        raise ValueError(message)
    if avro_type.kind in ("float", "double"):
        # Raises if it is too large and would be infinite.
        struct.pack("<f" if avro_type.kind == "float" else "<d", value)
        return float(value)
    return value


def _raw(value: str, kind: Decimal | None) -> bytes | decimal.Decimal:
    """Return bytes, written in JSON as characters of these code points, or their decimal."""
    raw = value.encode("latin-1")
    if kind is None:
        return raw
    if not raw:
        message = "a decimal without bytes"
        raise ValueError(message)
    unscaled = int.from_bytes(raw, "big", signed=True)
    return decimal.Decimal(unscaled).scaleb(-kind.scale, decimal.Context(prec=100))


def _is_integer(value: object, bits: int) -> bool:
    return type(value) is int and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)

"""What a field's default in a schema is as a value that Arrow takes."""

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
# Arrow's own are ValueErrors.
_UNFIT: Final = (
    TypeError,
    ValueError,
    AttributeError,
    KeyError,
    OverflowError,
    RecursionError,
    struct.error,
)


def default_value(what: AvroType, given: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a default as Arrow takes it.

    Raises:
        InvalidRequestError: It does not fit its type.
    """
    try:
        value = _value(what, given)
        if value is not None:
            # What no body may hold either: a time that is none of a day, too many digits.
            _untyped.array([value], arrow_type(what)).validate(full=True)
    except InvalidRequestError:
        raise
    except _UNFIT as error:
        quoted = repr(given)
        quoted = quoted if len(quoted) <= _SHOWN_MAX else f"{quoted[:_SHOWN_MAX]}…"
        message = f"the default {quoted} does not fit its type: {error}"
        raise InvalidRequestError(message) from error
    return value


def _value(what: AvroType, given: Any) -> Any:  # noqa: ANN401, PLR0911 - JSON, one way a type
    if isinstance(what, Union):
        return _of_union(what, given)
    if isinstance(what, Primitive):
        return _primitive(what, given)
    if isinstance(what, Fixed):
        if len(given) != what.size:
            message = f"it is {len(given)} bytes, and no {what.size}"
            raise ValueError(message)
        return _raw(given, what.decimal)
    if isinstance(what, Enum):
        if given not in what.symbols:
            message = "it is none of the symbols"
            raise ValueError(message)
        return given
    if isinstance(what, Array):
        return [_value(what.items, each) for each in given]
    if isinstance(what, Map):
        return [(name, _value(what.values, each)) for name, each in given.items()]
    return {each.name: _of_field(each, given) for each in what.fields}


def _of_field(field: Field, given: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    if field.name in given:
        return _value(field.type, given[field.name])
    if not field.has_default:
        message = f"field {field.name} is missing"
        raise ValueError(message)
    return _value(field.type, field.default)


def _of_union(what: Union, given: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a default of the first branch that takes it."""
    if given is None and NULL in what.branches:
        return None
    others = members(what)
    for index, member in enumerate(others):
        try:
            value = _value(member, given)
        except _UNFIT:
            continue
        return value if len(others) == 1 or widened(what) else {f"member{index}": value}
    message = "it is of no branch"
    raise ValueError(message)


def _primitive(what: Primitive, given: Any) -> Any:  # noqa: ANN401 - JSON
    if what.kind == "bytes":
        return _raw(given, what.decimal)
    fits = {
        "null": given is None,
        "boolean": isinstance(given, bool),
        "int": _is_integer(given, 32),
        "long": _is_integer(given, 64),
        "float": isinstance(given, int | float) and not isinstance(given, bool),
        "double": isinstance(given, int | float) and not isinstance(given, bool),
        "string": isinstance(given, str),
    }
    if not fits[what.kind]:
        message = f"it is no {what.kind}"
        raise ValueError(message)
    if what.kind in ("float", "double"):
        # Refused where it is too large, and would be infinite.
        struct.pack("<f" if what.kind == "float" else "<d", given)
        return float(given)
    return given


def _raw(given: str, kind: Decimal | None) -> bytes | decimal.Decimal:
    """Return bytes, which JSON has as characters of the same numbers; or the number they are."""
    raw = given.encode("latin-1")
    if kind is None:
        return raw
    if not raw:
        message = "a decimal of no byte"
        raise ValueError(message)
    unscaled = int.from_bytes(raw, "big", signed=True)
    return decimal.Decimal(unscaled).scaleb(-kind.scale, decimal.Context(prec=100))


def _is_integer(given: object, bits: int) -> bool:
    return type(given) is int and -(2 ** (bits - 1)) <= given < 2 ** (bits - 1)

"""What a field's default in a schema is as a value that Arrow takes."""

import decimal
from collections.abc import Mapping
from typing import Any

from storage_core.errors import InvalidRequestError
from storage_core.fields.avro_types import (
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
    members,
    widened,
)


def default_value(what: AvroType, given: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a default as Arrow takes it.

    Raises:
        InvalidRequestError: It does not fit its type.
    """
    try:
        return _value(what, given)
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        message = f"the default {given!r} does not fit its type: {error}"
        raise InvalidRequestError(message) from error


def _value(what: AvroType, given: Any) -> Any:  # noqa: ANN401, PLR0911 - JSON, one way a type
    if isinstance(what, Union):
        return _of_union(what, given)
    if isinstance(what, Primitive):
        return _primitive(what, given)
    if isinstance(what, Fixed):
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
    for at, each in enumerate(others):
        try:
            value = _value(each, given)
        except (TypeError, ValueError, AttributeError, KeyError):
            continue
        return value if len(others) == 1 or widened(what) else {f"member{at}": value}
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
    return given


def _raw(given: str, kind: Decimal | None) -> bytes | decimal.Decimal:
    """Return bytes, which JSON has as characters of the same numbers; or the number they are."""
    raw = given.encode("latin-1")
    if kind is None:
        return raw
    unscaled = int.from_bytes(raw, "big", signed=True)
    return decimal.Decimal(unscaled).scaleb(-kind.scale, decimal.Context(prec=100))


def _is_integer(given: object, bits: int) -> bool:
    return type(given) is int and -(2 ** (bits - 1)) <= given < 2 ** (bits - 1)

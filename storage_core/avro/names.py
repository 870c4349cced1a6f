"""Names of fields: which Avro allows, and how a field is called beside columns of the log's own.

A field has its own name as a column. Where the log has a column of that name, `value_` stands
before it, and so before a field that is called `value_` and such a name: the field `shard` is
`value_shard`, and the field `value_shard` is `value_value_shard`. So no two names become one.
"""

import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from storage_core.avro.schema_text import NAMED
from storage_core.errors import InvalidRequestError

PREFIX: Final = "value_"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RULE: Final = "a name is letters of ASCII, digits and _, and begins with no digit"


def column_beside(field: str, own: AbstractSet[str]) -> str:
    """Return what a field is called beside columns of these names, which are in small letters."""
    return PREFIX + field if _bare(field) in own else field


def field_beside(column: str, own: AbstractSet[str]) -> str:
    """Return the field that `column_beside` was given."""
    return column.removeprefix(PREFIX) if _bare(column) in own else column


def free_name(name: str, taken: set[str], mark: str = "_") -> str:
    """Return a name that none of some has in any case, with a number behind if need be; take it.

    Args:
        name: As it should be.
        taken: The names there are, in small letters.
        mark: What stands before a number.
    """
    free, count = name, 1
    while free.lower() in taken:
        count += 1
        free = f"{name}{mark}{count}"
    taken.add(free.lower())
    return free


def _bare(name: str) -> str:
    bare = name.lower()
    while bare.startswith(PREFIX):
        bare = bare.removeprefix(PREFIX)
    return bare


def is_valid_name(name: str) -> bool:
    """Tell whether Avro allows a name of a field."""
    return _NAME.fullmatch(name) is not None


def check_names(schema: Any) -> None:  # noqa: ANN401 - JSON
    """Refuse names that Avro forbids, at any depth of a schema that stands alone.

    Names of types, of fields and of an enum's symbols; and fields of one record, or symbols of one
    enum, that have the same name. What is no text is left to who reads the whole.

    Raises:
        InvalidRequestError: The message has the first.
    """
    if isinstance(schema, list):
        for field in schema:
            check_names(field)
    elif isinstance(schema, Mapping) and schema.get("type") in NAMED:
        kind, full = schema["type"], str(schema.get("name", ""))
        for name in full.split("."):
            _check_name(name, f"{kind} {full!r}")
        _check_each(_texts(schema.get("symbols")), f"symbol {{!r}} of {full}")
        fields = [field for field in _items(schema.get("fields")) if isinstance(field, Mapping)]
        _check_each(_texts([field.get("name") for field in fields]), f"field {{!r}} of {full}")
        check_names([field.get("type") for field in fields])
    elif isinstance(schema, Mapping):
        check_names([schema.get(inside) for inside in ("type", "items", "values")])


def _items(given: object) -> list[Any]:
    return given if isinstance(given, list) else []


def _texts(given: object) -> list[str]:
    return [one for one in _items(given) if isinstance(one, str)]


def _check_each(names: Iterable[str], what: str) -> None:
    met: set[str] = set()
    for name in names:
        _check_name(name, what.format(name))
        if name in met:
            message = f"this is no Avro schema: {what.format(name)} is there twice"
            raise InvalidRequestError(message)
        met.add(name)


def _check_name(name: str, what: str) -> None:
    if not is_valid_name(name):
        message = f"this is no Avro schema: {what}: {_RULE}"
        raise InvalidRequestError(message)

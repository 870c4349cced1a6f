"""Names of fields: which Avro allows, and the column name of a field beside the log's own columns.

A field's column has its name. If the log has a column of that name, it gets the prefix `value_`,
and so does a field that is called `value_` and such a name: field `shard` is column `value_shard`,
field `value_shard` is `value_value_shard`. So no two fields share a column.
"""

import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from storage_core.avro.schema_text import NAMED
from storage_core.errors import InvalidRequestError

PREFIX: Final = "value_"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RULE: Final = "a name has ASCII letters, digits and _, and does not start with a digit"


def column_beside(field: str, own: AbstractSet[str]) -> str:
    """Return the column name of a field beside columns of these lowercase names."""
    return PREFIX + field if _bare(field) in own else field


def field_beside(column: str, own: AbstractSet[str]) -> str:
    """Return the field of a column name: the inverse of `column_beside`."""
    return column.removeprefix(PREFIX) if _bare(column) in own else column


def free_name(name: str, taken: set[str], separator: str = "_") -> str:
    """Return a name that is free in any case, with a number if need be, and add it to `taken`.

    Args:
        name: The preferred name.
        taken: The names in use, in lowercase.
        separator: Written before a number.
    """
    free, count = name, 1
    while free.lower() in taken:
        count += 1
        free = f"{name}{separator}{count}"
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
    """Refuse invalid names of types, fields and symbols, at any depth, and repeated ones.

    Values that are not strings are left to the parser.

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


def _items(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(value: object) -> list[str]:
    return [item for item in _items(value) if isinstance(item, str)]


def _check_each(names: Iterable[str], label: str) -> None:
    names_seen: set[str] = set()
    for name in names:
        _check_name(name, label.format(name))
        if name in names_seen:
            message = f"not an Avro schema: {label.format(name)} is repeated"
            raise InvalidRequestError(message)
        names_seen.add(name)


def _check_name(name: str, label: str) -> None:
    if not is_valid_name(name):
        message = f"not an Avro schema: {label}: {_RULE}"
        raise InvalidRequestError(message)

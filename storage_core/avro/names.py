"""Names of fields: which Avro allows, and the column name of a field beside the log's own columns.

A field's column has its name. If the log has a column of that name, it gets the prefix `value_`,
and so does a field that is called `value_` and such a name: field `shard` is column `value_shard`,
field `value_shard` is `value_value_shard`. So no two fields share a column.
"""

import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

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


def check_names(names: Iterable[str], label: str) -> None:
    """Refuse names that Avro forbids, and repeated ones.

    Args:
        names: Of the parts of a type's full name, of fields or of symbols.
        label: What they are, with `{}` for a name.

    Raises:
        InvalidRequestError: The message has the first.
    """
    checked: set[str] = set()
    for name in names:
        problem = _RULE if not is_valid_name(name) else "it is repeated" if name in checked else ""
        if problem:
            message = f"not an Avro schema: {label.format(repr(name))}: {problem}"
            raise InvalidRequestError(message)
        checked.add(name)

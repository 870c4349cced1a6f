"""Conditions on fields, as WHERE has them.

A field that is null satisfies no comparison. `NOT` turns an answer around, and `!=` is NOT of `=`,
so both take rows whose field is null.
"""

from dataclasses import dataclass
from typing import Literal

Operator = Literal["=", "!=", "<", "<=", ">", ">="]
Value = int | float | str | bool


@dataclass(frozen=True, slots=True)
class Field:
    """A field, as it was written: `status`, or in a sequence `order_created.status`."""

    name: str
    event_type: str | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A field beside a value; a bare boolean field is `= true`."""

    field: Field
    operator: Operator
    value: Value


@dataclass(frozen=True, slots=True)
class InList:
    """`field IN (a, b, …)`."""

    field: Field
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Like:
    r"""`field LIKE "pattern"`: % is any text, _ one character, \% and \_ are themselves."""

    field: Field
    pattern: str


@dataclass(frozen=True, slots=True)
class IsNull:
    """`field IS NULL`; `IS NOT NULL` is NOT of it."""

    field: Field


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite."""

    term: "Expression"


@dataclass(frozen=True, slots=True)
class And:
    """All of them."""

    terms: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one."""

    terms: tuple["Expression", ...]


Expression = Comparison | InList | Like | IsNull | Not | And | Or

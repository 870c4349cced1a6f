"""Literals as the type of a field has them: points of it, exact or beside.

`amount < 1.5` is asked of integers as `amount <= 1`, and `day < "2026-01-02T12:00"` of dates as
`day <= "2026-01-02"`. So all comparisons are exact, and columns are compared as they are stored.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from typed_events.errors import CommandError
from typed_events.language.expressions import Operator, Value
from typed_events.language.times import DAY_US, day_text, micros_of
from typed_events.query.operands import Kind, Operand, literal
from typed_events.types.values import is_uuid

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
UNITS_PER_SECOND: Final[Mapping[str, int]] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_NO_ORDER: Final = ("=", "!=")
_MAKERS: Final[Mapping[str, str]] = {
    "timestamp": "make_timestamptz",
    "local_timestamp": "make_timestamp",
}
# What values are in JSON, as DuckDB calls it; others are texts.
_LISTED: Final[Mapping[str, str]] = {
    "int": "BIGINT",
    "float": "DOUBLE",
    "bool": "BOOLEAN",
    "time": "BIGINT",
    "timestamp": "BIGINT",
    "local_timestamp": "BIGINT",
    "date": "DATE",
}


@dataclass(frozen=True, slots=True)
class Point:
    """A value of a field's type beside a literal.

    Attributes:
        sql: The value; None where all values lie on one side of the literal.
        beside: 0 if it is the literal; below 0 if it is the largest value that is smaller; above 0
            if it is the smallest that is larger.
        value: The value as JSON has it; a timestamp in microseconds.
    """

    sql: str | None
    beside: int = 0
    value: Value | None = None


def compared(value: str, operator: Operator, point: Point) -> str:
    """Return a comparison of a value that is not null; a constant as `TRUE` or `FALSE`."""
    if operator in _NO_ORDER:
        return "FALSE" if point.beside or point.sql is None else f"{value} = {point.sql}"
    if point.sql is None:
        is_below = point.beside < 0
        return "TRUE" if is_below == (operator in ("<", "<=")) else "FALSE"
    if point.beside < 0:
        operator = "<=" if operator in ("<", "<=") else ">"
    elif point.beside > 0:
        operator = "<" if operator in ("<", "<=") else ">="
    return f"{value} {operator} {point.sql}"


def point_of(operand: Operand, value: Value) -> Point:
    """Return a literal as a point of a field's type.

    Raises:
        CommandError: It is no literal for the field.
    """
    kind = operand.kind
    if kind in ("int", "float") and _is_number(value):
        return _integer(value) if kind == "int" else _double(value)
    if kind == "bool" and isinstance(value, bool):
        return Point("TRUE" if value else "FALSE", value=value)
    if kind in ("string", "context", "type", "position") and isinstance(value, str):
        return Point(literal(value), value=value)
    if kind == "uuid" and isinstance(value, str) and is_uuid(value):
        return Point(literal(value.lower()), value=value.lower())
    if kind in ("timestamp", "local_timestamp", "date", "time") and not isinstance(value, bool):
        return _of_time(operand, micros_of(value))
    raise CommandError(_mismatch(operand, value))


def listed(kind: Kind, values: Sequence[Value | None]) -> str:
    """Return many values of a kind as a query of one column: they are read as JSON."""
    text = literal(json.dumps(values))
    value = f"unnest(from_json({text}, '[\"{_LISTED.get(kind, 'VARCHAR')}\"]'))"
    return f"SELECT {_MAKERS[kind]}({value})" if kind in _MAKERS else f"SELECT {value}"


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _integer(value: Value) -> Point:
    assert isinstance(value, int | float)
    if isinstance(value, float) and not math.isfinite(value):
        return Point(None, -1 if value > 0 else 1)
    floor = math.floor(value)
    if floor > INT64_MAX:
        return Point(None, -1)
    if value < INT64_MIN:
        return Point(None, 1)
    return Point(f"({floor})::BIGINT", 0 if floor == value else -1, floor)


def _double(value: Value) -> Point:
    assert isinstance(value, int | float)
    try:
        nearest = float(value)
    except OverflowError:
        return Point(None, -1 if value > 0 else 1)
    return Point(f"({nearest!r})::DOUBLE", (nearest > value) - (nearest < value), nearest)


def _of_time(operand: Operand, time_us: int) -> Point:
    if operand.kind == "time":
        primary, rest = divmod(time_us * UNITS_PER_SECOND[operand.side.unit], 10**6)
        if not INT64_MIN <= primary <= INT64_MAX:
            return Point(None, -1 if primary > 0 else 1)
        return Point(f"({primary})::BIGINT", -1 if rest else 0, primary)
    if operand.kind == "date":
        days, rest = divmod(time_us, DAY_US)
        return Point(f"DATE '{day_text(days)}'", -1 if rest else 0, day_text(days))
    return Point(f"{_MAKERS[operand.kind]}({time_us})", value=time_us)


_WRITTEN: Final[Mapping[str, tuple[str, str]]] = {
    "int": ("an int", "a number, as 5"),
    "float": ("a float", "a number, as 1.5"),
    "bool": ("a bool", "true or false"),
    "string": ("a string", 'a text, as "paid"'),
    "uuid": ("a uuid", 'a UUID, as "67e55044-10b1-426f-9247-bb680e5fe0c8"'),
    "context": ("a string", 'a text, as "customer-7"'),
    "type": ("a string", "a text"),
    "position": ("a position", 'a text, as "0:41"'),
    "timestamp": ("a timestamp", 'a time, as "2026-11-25T08:00:00Z"'),
    "local_timestamp": ("a timestamp", 'a time, as "2026-11-25T08:00:00Z"'),
    "time": ("a timestamp", 'a time, as "2026-11-25T08:00:00Z"'),
    "date": ("a date", 'a day, as "2026-11-25"'),
}


def _mismatch(operand: Operand, value: Value) -> str:
    if operand.kind not in _WRITTEN:
        return f"{operand.name} is {operand.type}, which is not compared; only IS NULL fits it"
    type_name, form = _WRITTEN[operand.kind]
    return f"{operand.name} is {type_name}: write {form}, not {_as_written(value)}"


def _as_written(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value[:40]}"' if isinstance(value, str) else str(value)[:40]

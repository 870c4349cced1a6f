"""Conditions as functions of one row: those of a few new rows, for many subscribers.

DuckDB would take longer to plan hundreds of conditions than these take to hold. They are equal to
those that it evaluates (query/compile.py), which have checked the literals before; where they could
not be, there is no function: LIKE, and streams whose time is finer than µs.

Rows are values by column: times are µs, days are the µs of their midnight, all else is Python's.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from typed_events.language.expressions import (
    And,
    Comparison,
    Expression,
    InList,
    IsNull,
    Like,
    Not,
    Or,
    Value,
)
from typed_events.language.times import DAY_US, micros_of
from typed_events.query.compile import position_of
from typed_events.query.operands import Operand, Side, single

Row = Mapping[str, Any]
Holds = Callable[[Row], bool]
_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TIMES: Final = ("timestamp", "local_timestamp", "date", "time")
_UNITS: Final = ("s", "ms", "us")
_NS_UTC: Final = pa.timestamp("ns", "UTC")


def row_condition(expression: Expression, side: Side) -> Holds | None:
    """Return a condition as a function of a row; None where DuckDB is to say it."""
    if isinstance(expression, Not):
        term = row_condition(expression.term, side)
        return None if term is None else lambda row: not term(row)
    if isinstance(expression, And | Or):
        terms = [row_condition(term, side) for term in expression.terms]
        conditions = [term for term in terms if term is not None]
        if len(conditions) < len(terms):
            return None
        if isinstance(expression, And):
            return lambda row: all(term(row) for term in conditions)
        return lambda row: any(term(row) for term in conditions)
    operand = single(side, expression.field)
    if isinstance(expression, Like) or _is_fine(operand):
        return None
    return _of_one(expression, operand)


def _is_fine(operand: Operand) -> bool:
    """Tell whether a column's times may lie between two microseconds, or are none."""
    if operand.kind == "time":
        return operand.side.unit not in _UNITS
    return operand.type in (pa.timestamp("ns"), _NS_UTC)


def _of_one(expression: Comparison | InList | IsNull, operand: Operand) -> Holds:
    name = expression.field.name
    if isinstance(expression, IsNull):
        return lambda row: row[name] is None
    if isinstance(expression, InList):
        comparisons = [_comparison(operand, name, "=", value) for value in expression.values]
        return lambda row: any(one(row) for one in comparisons)
    return _compared(operand, name, expression)


def _compared(operand: Operand, name: str, expression: Comparison) -> Holds:
    if expression.operator == "!=":
        equal = _comparison(operand, name, "=", expression.value)
        return lambda row: not equal(row)
    return _comparison(operand, name, expression.operator, expression.value)


def _comparison(operand: Operand, name: str, written: str, value: Value) -> Holds:
    compare = _COMPARE[written]
    wanted: Any = value
    if operand.kind == "position":
        place = position_of(operand, value)
        wanted = (place.shard, place.address)
    elif operand.kind in _TIMES:
        assert not isinstance(value, bool), "the literal was checked"
        wanted = micros_of(value)
    elif operand.kind == "float":
        # DuckDB has NaN above all other numbers.
        nan_holds = written in (">", ">=")

        def of_float(row: Row) -> bool:
            have = row[name]
            if have is None:
                return False
            return nan_holds if have != have else compare(have, wanted)  # noqa: PLR0124 - NaN

        return of_float

    def holds(row: Row) -> bool:
        have = row[name]
        return have is not None and compare(have, wanted)

    return holds


def rows_of(batch: pa.RecordBatch, side: Side, names: Sequence[str]) -> list[Row]:
    """Return rows with some of their columns, as conditions take them."""
    columns = [_values(side.find(name), batch.column(name)) for name in names]
    if not columns:
        return [{}] * batch.num_rows
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _values(operand: Operand | None, column: Any) -> list[Any]:  # noqa: ANN401 - an array
    assert operand is not None, "conditions were compiled of the same columns"
    if operand.kind == "position":
        places = (text.split(":") for text in column.to_pylist())
        return [(int(shard), int(address)) for shard, address in places]
    if operand.kind == "date":
        days = column.cast(pa.date32()).cast(pa.int32()).to_pylist()
        return [None if day is None else day * DAY_US for day in days]
    if operand.kind in _TIMES:
        zone = column.type.tz
        micros: list[Any] = column.cast(pa.timestamp("us", zone)).cast(pa.int64()).to_pylist()
        return micros
    values: list[Any] = column.to_pylist()
    return values

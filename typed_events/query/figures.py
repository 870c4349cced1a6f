"""QUERY for figures: COUNT, TOTAL and the others, of all rows or by groups.

    COUNT UNIQUE f, TOTAL f BY g PER day      bucket, g, count_unique_f, total_f

An answer is in the order of bucket and groups unless ORDER BY names one of its columns. A total of
ints that is no int64 is an error, never a wrong figure.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from typed_events.errors import CommandError
from typed_events.language.commands import Aggregate, Query
from typed_events.language.expressions import Field
from typed_events.query.compile import Resolve
from typed_events.query.literals import INT64_MAX, INT64_MIN
from typed_events.query.operands import TIMESTAMP, Operand, literal
from typed_events.query.selecting import (
    Column,
    Selection,
    limits,
    order_column,
    selected,
    time_operand,
)

BUCKET: Final = "bucket"
_NUMBERS: Final = ("int", "float")
_UNORDERED: Final = ("position", "other")


def select_figures(query: Query, resolve: Resolve, rows: str) -> Selection:
    """Return the query of figures.

    Args:
        query: The query.
        resolve: Returns the column of a field.
        rows: FROM and WHERE of the rows.
    """
    if not query.aggregates:
        message = "BY and PER make groups: say which figure of each is wanted, as COUNT"
        raise CommandError(message)
    if query.returned is not None:
        message = "RETURN is for events; the columns of figures follow from the figures and BY"
        raise CommandError(message)
    groups = [*_bucket(query, resolve), *_by(query.by, resolve)]
    columns = [*groups, *(_figure(one, resolve) for one in dict.fromkeys(query.aggregates))]
    names = [column.name for column in columns]
    if twice := next((name for name in names if names.count(name) > 1), None):
        message = f"two columns of the answer would be called {twice}"
        raise CommandError(message)
    order = [f"{number} ASC NULLS LAST" for number in range(1, len(groups) + 1)]
    if query.order is not None:
        direction = "DESC" if query.order.is_descending else "ASC"
        order.insert(0, f"{order_column(query.order, columns) + 1} {direction} NULLS LAST")
    by = ", ".join(str(number) for number in range(1, len(groups) + 1))
    grouped = f" GROUP BY {by}" if groups else ""
    ordered = f" ORDER BY {', '.join(order)}" if order else ""
    return selected(columns, f"{rows}{grouped}{ordered}{limits(query)}")


def _bucket(query: Query, resolve: Resolve) -> Iterator[Column]:
    if query.per is None:
        return
    operand = time_operand(query.per_field, resolve)
    value = f"date_trunc('{query.per}', {as_timestamp(operand)})"
    yield Column(BUCKET, f"timezone('UTC', {value})", TIMESTAMP)


def as_timestamp(operand: Operand) -> str:
    """Return a time as a timestamp of SQL in UTC."""
    if operand.kind in ("timestamp", "time"):
        return f"timezone('UTC', {operand.sql})"
    return f"CAST({operand.sql} AS TIMESTAMP)"


def _by(fields: Sequence[Field], resolve: Resolve) -> Iterator[Column]:
    for field in dict.fromkeys(fields):
        operand = resolve(field)
        yield Column(_written(field), operand.sql, operand.type)


def _written(field: Field) -> str:
    return field.name if field.event_type is None else f"{field.event_type}.{field.name}"


def _figure(aggregate: Aggregate, resolve: Resolve) -> Column:
    metric, field = aggregate.metric, aggregate.field
    if field is None:
        if metric != "count":
            message = f"{metric.replace('_', ' ').upper()} needs a field"
            raise CommandError(message)
        return Column(metric, "count(*)", pa.int64())
    operand, name = resolve(field), f"{metric}_{_written(field)}"
    if metric in ("count", "count_unique"):
        distinct = "DISTINCT " if metric == "count_unique" else ""
        return Column(name, f"count({distinct}{operand.sql})", pa.int64())
    if metric in ("min", "max"):
        if operand.kind in _UNORDERED:
            message = f"{operand.name} has no {metric.upper()}: it is {operand.type}"
            raise CommandError(message)
        return Column(name, f"{metric}({operand.sql})", operand.type)
    if operand.kind not in _NUMBERS:
        message = f"{operand.name} is no number: {metric.upper()} takes ints and floats"
        raise CommandError(message)
    if metric == "avg":
        return Column(name, f"avg({operand.sql})", pa.float64())
    if operand.kind == "float":
        return Column(name, f"sum(CAST({operand.sql} AS DOUBLE))", pa.float64())
    text = literal(f"TOTAL {operand.name} is beyond the largest int: take AVG and COUNT")
    total = f"sum({operand.sql})"
    value = (
        f"CASE WHEN {total} NOT BETWEEN {INT64_MIN} AND {INT64_MAX} THEN error({text}) "
        f"ELSE CAST({total} AS BIGINT) END"
    )
    return Column(name, value, pa.int64())

"""What all queries share: SELECTs with the columns of an answer, bounds of time, orders, limits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from storage_core.platform.name_suggestions import unknown_names
from typed_events.errors import CommandError
from typed_events.language.commands import Order, Query, Time
from typed_events.language.expressions import Field
from typed_events.query.compile import Resolve, behind, bound
from typed_events.query.operands import Operand, Side

_TIMES: Final = ("timestamp", "local_timestamp", "date", "time")
_untyped: Any = pa


@dataclass(frozen=True, slots=True)
class Column:
    """A column of an answer: its name, its value in SQL, and its type."""

    name: str
    sql: str
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Selection:
    """A query: its text for DuckDB, and what it answers."""

    text: str
    columns: Sequence[Column]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the answer."""
        return pa.schema([pa.field(column.name, column.type) for column in self.columns])

    def renamed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of DuckDB's with the names and types of the answer."""
        columns: list[Any] = batch.columns
        typed = [
            column if column.type == want.type else column.cast(want.type)
            for column, want in zip(columns, self.columns, strict=True)
        ]
        made: pa.RecordBatch = _untyped.RecordBatch.from_arrays(typed, schema=self.schema)
        return made


def selected(columns: Sequence[Column], rest: str) -> Selection:
    """Return a SELECT; names of an answer may be equal to SQL, so there columns have numbers."""
    listed = ", ".join(f"{column.sql} AS c{number}" for number, column in enumerate(columns))
    return Selection(f"SELECT {listed} {rest}", columns)


def field_of(written: str) -> Field:
    """Return the field of a name that may have its type before it."""
    before, dot, name = written.rpartition(".")
    return Field(name, before) if dot else Field(written)


def time_operand(written: str | None, resolve: Resolve) -> Operand:
    """Return the column of a time, when an event was stored if none is named.

    Raises:
        CommandError: It is no time, or the stream has no time of storing.
    """
    operand = resolve(Field("timestamp") if written is None else field_of(written))
    if operand.kind not in _TIMES:
        message = f"{operand.name} is no time: USING takes fields that are timestamps or dates"
        raise CommandError(message)
    if operand.kind == "time" and operand.side.unit == "sequence":
        message = (
            f"{operand.side.event_type} counts its rows, they have no time: name a field that is "
            "a timestamp or date by USING"
        )
        raise CommandError(message)
    return operand


def time_terms(query: Query, side: Side, resolve: Resolve) -> Iterator[str]:
    """Yield the conditions of SINCE and UNTIL on the rows of a side."""
    bounds: tuple[tuple[Time | None, Any], ...] = ((query.since, ">="), (query.until, "<"))
    if all(value is None for value, _ in bounds):
        return
    operand = time_operand(query.time_field, resolve)
    assert operand.side is side
    for value, operator in bounds:
        if value is not None:
            yield bound(operand, operator, value)


def after_terms(query: Query, side: Side) -> Iterator[str]:
    """Yield the condition of AFTER."""
    if query.after is not None:
        yield behind(side.core["id"], ">", query.after)


def where(terms: Sequence[str]) -> str:
    """Return a WHERE of terms that all must hold."""
    return f" WHERE {' AND '.join(terms)}" if terms else ""


def order_by(order: Order | None, resolve: Resolve, position: str) -> str:
    """Return an ORDER BY; null comes last, and the position decides among equals."""
    if order is None:
        return f" ORDER BY {position}"
    operand = resolve(order.field)
    if operand.kind == "other":
        message = f"{operand.name} is {operand.type}, which has no order"
        raise CommandError(message)
    direction = "DESC" if order.is_descending else "ASC"
    if operand.kind == "position":
        side = operand.side
        return " ORDER BY " + ", ".join(
            f"{side.column(name)} {direction}" for name in ("shard", "address")
        )
    return f" ORDER BY {operand.sql} {direction} NULLS LAST, {position}"


def limits(query: Query) -> str:
    """Return LIMIT and OFFSET.

    Raises:
        CommandError: There is an OFFSET without a LIMIT.
    """
    if query.limit is None:
        if query.offset:
            message = "OFFSET needs a LIMIT"
            raise CommandError(message)
        return ""
    return f" LIMIT {query.limit} OFFSET {query.offset}"


def order_column(order: Order, columns: Sequence[Column]) -> int:
    """Return the place of the column of a figure that an answer is ordered by."""
    field = order.field
    name = field.name if field.event_type is None else f"{field.event_type}.{field.name}"
    names = [column.name for column in columns]
    if name not in names:
        message = f"ORDER BY: {unknown_names('column', [name], names)}"
        raise CommandError(message)
    return names.index(name)

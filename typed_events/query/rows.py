"""QUERY for events of one type, and for pairs of a sequence: the columns of their answers."""

from collections.abc import Iterator, Sequence

from typed_events.language.commands import Query
from typed_events.language.expressions import Field
from typed_events.query.compile import Resolve, condition, of_context
from typed_events.query.operands import Operand, Side, single
from typed_events.query.selecting import (
    Column,
    Selection,
    after_terms,
    limits,
    order_by,
    selected,
    time_terms,
    where,
)


def side_terms(query: Query, side: Side, resolve: Resolve) -> Iterator[str]:
    """Yield the conditions of FOR, SINCE and UNTIL on the rows of a type."""
    if query.context is not None:
        yield f"({of_context(side.core['context_id'], query.context)})"
    yield from time_terms(query, side, resolve)


def rows_from(query: Query, side: Side, source: str) -> str:
    """Return FROM and WHERE of a query of one type."""

    def resolve(field: Field) -> Operand:
        return single(side, field)

    terms = [*side_terms(query, side, resolve), *after_terms(query, side)]
    if query.where is not None:
        terms.append(condition(query.where, resolve))
    return f"FROM ({source}) AS {side.alias}{where(terms)}"


def returned_columns(side: Side, returned: Sequence[Field] | None) -> list[Column]:
    """Return the core columns, and the fields that RETURN names; all if it names none."""
    names = dict.fromkeys(
        field.name
        for field in returned or ()
        if field.event_type in (None, side.event_type) and field.name in side.fields
    )
    fields = [side.fields[name] for name in names] if returned else [*side.fields.values()]
    operands = [*side.core.values(), *fields]
    return [Column(operand.name, operand.sql, operand.type) for operand in operands]


def select_rows(query: Query, side: Side, source: str) -> Selection:
    """Return the query of events of one type."""
    order = order_by(query.order, lambda field: single(side, field), side.position)
    rest = f"{rows_from(query, side, source)}{order}{limits(query)}"
    return selected(returned_columns(side, query.returned), rest)

"""The same queries over plain lists of events, each rule written down once more and slowly."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from operator import itemgetter
from typing import Any

from tests.events.stored import EPOCH, Event
from typed_events.language.commands import Aggregate, Query
from typed_events.language.expressions import (
    And,
    Comparison,
    Expression,
    Field,
    InList,
    IsNull,
    Like,
    Not,
    Or,
)
from typed_events.language.times import micros_of

CORE = ("context_id", "event_type", "timestamp", "id", "version")
Get = Callable[[Field], Any]


def position(event: Event) -> tuple[int, int]:
    shard, address = event["id"].split(":")
    return int(shard), int(address)


def as_us(moment: datetime | date) -> int:
    if not isinstance(moment, datetime):
        moment = datetime.combine(moment, time(), UTC)
    return (moment - EPOCH) // timedelta(microseconds=1)


def _get(event: Event) -> Get:
    return lambda field: event.get(field.name)


def _pair(value: Any, written: Any, name: str) -> tuple[Any, Any]:
    """Return a value and a literal so that they compare."""
    if isinstance(value, date):
        return as_us(value), micros_of(written)
    if name == "id":
        return tuple(map(int, value.split(":"))), tuple(map(int, written.split(":")))
    return value, written


def _compares(value: Any, operator: str, written: Any, name: str) -> bool:
    if value is None:
        return False
    value, written = _pair(value, written, name)
    holds_by: dict[str, bool] = {
        "=": value == written,
        "<": operator == "<" and value < written,
        "<=": operator == "<=" and value <= written,
        ">": operator == ">" and value > written,
        ">=": operator == ">=" and value >= written,
    }
    return holds_by[operator]


def _is_like(value: str | None, pattern: str) -> bool:
    if value is None:
        return False
    parts = re.split(r"(\\%|\\_|%|_)", pattern)
    forms = {"%": ".*", "_": ".", "\\%": "%", "\\_": "_"}
    text = "".join(forms.get(part, re.escape(part)) for part in parts)
    return re.fullmatch(text, value, re.DOTALL) is not None


def holds(expression: Expression, get: Get) -> bool:  # noqa: PLR0911 - one for each form
    """Tell whether an expression holds."""
    if isinstance(expression, Not):
        return not holds(expression.term, get)
    if isinstance(expression, And):
        return all(holds(term, get) for term in expression.terms)
    if isinstance(expression, Or):
        return any(holds(term, get) for term in expression.terms)
    value, name = get(expression.field), expression.field.name
    if isinstance(expression, IsNull):
        return value is None
    if isinstance(expression, Like):
        return _is_like(value, expression.pattern)
    if isinstance(expression, InList):
        return any(_compares(value, "=", written, name) for written in expression.values)
    assert isinstance(expression, Comparison)
    if expression.operator == "!=":
        return not _compares(value, "=", expression.value, name)
    return _compares(value, expression.operator, expression.value, name)


def _in_time(query: Query, event: Event) -> bool:
    if query.since is None and query.until is None:
        return True
    moment = event.get(query.time_field or "timestamp")
    if moment is None:
        return False
    time_us = as_us(moment)
    return (query.since is None or time_us >= micros_of(query.since)) and (
        query.until is None or time_us < micros_of(query.until)
    )


def _ordered(rows: list[Any], key: Callable[[Any], Any], *, is_descending: bool) -> list[Any]:
    """Return rows in an order that keeps that of equals; null comes last."""
    with_value = [row for row in rows if key(row) is not None]
    with_value.sort(key=key, reverse=is_descending)
    return with_value + [row for row in rows if key(row) is None]


def _of_type(events: Iterable[Event], query: Query, event_type: str) -> list[Event]:
    return sorted(
        (
            event
            for event in events
            if event["event_type"] == event_type
            and query.context in (None, event["context_id"])
            and _in_time(query, event)
        ),
        key=position,
    )


def _limited(rows: list[Any], query: Query) -> list[Any]:
    if query.limit is None:
        return rows
    return rows[query.offset : query.offset + query.limit]


def rows_of(
    query: Query, events: Iterable[Event], fields: Mapping[str, Sequence[str]]
) -> list[Event]:
    """Return what a query answers; `fields` are those of each type."""
    if query.sequence is not None:
        return _pairs(query, events, fields)
    matching = [
        event
        for event in _of_type(events, query, query.event_type)
        if (query.where is None or holds(query.where, _get(event)))
        and (query.after is None or position(event) > (query.after.shard, query.after.address))
    ]
    if query.aggregates:
        return _limited(_figures(query, matching, lambda event, f: event.get(f.name)), query)
    if query.order is not None:
        name = query.order.field.name
        key = position if name == "id" else (lambda event: event.get(name))
        matching = _ordered(matching, key, is_descending=query.order.is_descending)
    returned = [field.name for field in query.returned or ()]
    of_type = fields[query.event_type]
    names = [name for name in dict.fromkeys(returned) if name in of_type] if returned else of_type
    return [
        {name: event.get(name) for name in (*CORE, *names)} for event in _limited(matching, query)
    ]


def _bucket(moment: Any, per: str) -> datetime | None:
    if moment is None:
        return None
    start = EPOCH + timedelta(microseconds=as_us(moment))
    start = start.replace(minute=0, second=0, microsecond=0)
    if per != "hour":
        start = start.replace(hour=0)
    if per == "week":
        start -= timedelta(days=start.weekday())
    if per in ("month", "year"):
        start = start.replace(day=1)
    return start.replace(month=1) if per == "year" else start


def _figure(aggregate: Aggregate, rows: list[Any], get: Callable[[Any, Field], Any]) -> Any:  # noqa: PLR0911 - one for each figure
    if aggregate.field is None:
        return len(rows)
    field = aggregate.field
    values = [value for row in rows if (value := get(row, field)) is not None]
    if aggregate.metric == "count":
        return len(values)
    if aggregate.metric == "count_unique":
        return len(set(values))
    if not values:
        return None
    if aggregate.metric == "avg":
        return sum(values) / len(values)
    if aggregate.metric == "total":
        return sum(values)
    return min(values) if aggregate.metric == "min" else max(values)


def _per_field(query: Query) -> Field:
    if query.per_field is None:
        return Field("timestamp", query.event_type if query.sequence else None)
    before, _, name = query.per_field.rpartition(".")
    return Field(name, before or None)


def _figures(query: Query, rows: list[Any], get: Callable[[Any, Field], Any]) -> list[Event]:
    def named(field: Field) -> str:
        return field.name if field.event_type is None else f"{field.event_type}.{field.name}"

    groups: dict[tuple[Any, ...], list[Any]] = {}
    for row in rows:
        of_row = [get(row, field) for field in query.by]
        if query.per is not None:
            of_row.insert(0, _bucket(get(row, _per_field(query)), query.per))
        groups.setdefault(tuple(of_row), []).append(row)
    names = (["bucket"] if query.per else []) + [named(field) for field in query.by]
    if not names:
        groups.setdefault((), [])
    answer = []
    for key, of_group in groups.items():
        row = dict(zip(names, key, strict=True))
        for aggregate in query.aggregates:
            name = aggregate.metric + (
                "" if aggregate.field is None else f"_{named(aggregate.field)}"
            )
            row[name] = _figure(aggregate, of_group, get)
        answer.append(row)
    for name in reversed(names):
        answer = _ordered(answer, itemgetter(name), is_descending=False)
    if query.order is not None:
        name = named(query.order.field)
        answer = _ordered(answer, lambda row: row[name], is_descending=query.order.is_descending)
    return answer


def _names_both(term: Expression) -> set[str]:
    if isinstance(term, Not):
        return _names_both(term.term)
    if isinstance(term, And | Or):
        return set().union(*map(_names_both, term.terms))
    assert term.field.event_type is not None
    return {term.field.event_type}


def _pairs(
    query: Query, events: Iterable[Event], fields: Mapping[str, Sequence[str]]
) -> list[Event]:
    """Return the pairs of a sequence, whose conditions name the type of each field."""
    sequence = query.sequence
    assert sequence is not None
    terms = query.where.terms if isinstance(query.where, And) else (query.where,)
    terms = tuple(term for term in terms if term is not None)
    events = list(events)
    sides = {}
    for name in (query.event_type, sequence.other):
        own = [term for term in terms if _names_both(term) == {name}]
        sides[name] = [
            event
            for event in _of_type(events, query, name)
            if all(holds(term, _get(event)) for term in own)
        ]

    def time_of_pair(event: Event) -> Any:
        moment = event.get(query.time_field or "timestamp")
        return None if moment is None else as_us(moment)

    pairs = []
    for a in sides[query.event_type]:
        if query.after is not None and position(a) <= (query.after.shard, query.after.address):
            continue
        candidates = [
            b
            for b in sides[sequence.other]
            if a.get(sequence.link) is not None
            and b.get(sequence.link) == a.get(sequence.link)
            and time_of_pair(a) is not None
            and time_of_pair(b) is not None
            and (
                time_of_pair(b) >= time_of_pair(a)
                if sequence.is_followed
                else time_of_pair(b) < time_of_pair(a)
            )
        ]
        candidates.sort(key=lambda b: (time_of_pair(b), position(b)))
        if candidates:
            pairs.append((a, candidates[0 if sequence.is_followed else -1]))

    def get(pair: tuple[Event, Event], field: Field) -> Any:
        a, b = pair
        return (a if field.event_type == query.event_type else b).get(field.name)

    pairs = [
        pair
        for pair in pairs
        if all(holds(term, partial(get, pair)) for term in terms if len(_names_both(term)) > 1)
    ]
    if query.aggregates:
        return _limited(_figures(query, pairs, get), query)
    return [
        {
            f"{side}.{name}": event.get(name)
            for side, event in zip((query.event_type, sequence.other), pair, strict=True)
            for name in (*CORE, *fields[side])
        }
        for pair in _limited(pairs, query)
    ]

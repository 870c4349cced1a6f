"""Types, events, conditions and queries at random."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date, timedelta
from random import Random
from typing import Any, Final

from tests.events.query.plain import CORE, as_us
from tests.events.stored import FIRST_US, Event, Fields, time_of
from typed_events.language.commands import Aggregate, Order, Position, Query, Sequence
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

CONTEXTS: Final = ("a", "b", "ctx-3", "ä'", "0xff")
# Some are called as columns of the log, some differ in case only.
_NAMES: Final = (
    *("amount", "price", "status", "note", "ok", "at", "day", "uid", "A", "a"),
    *("time", "key", "payload", "shard", "primary", "count", "value_time", "group"),
)
_KINDS: Final = ("int", "float", "string", "bool", "uuid", "timestamp", "date")
_TEXTS: Final = ("", "a", "b%", "x_y", "ä", "O'Hara", "z\0", "\\", "a\\%", "%", "paid")
_PATTERNS: Final = ("%", "a%", "%\\%", "_\\_y", "\\", "z_", "%ä%", "\\\\%", "O'%", "")
_UUIDS: Final = tuple(f"00000000-0000-4000-8000-00000000000{n}" for n in range(3))
_DAY: Final = date(2026, 5, 28)
_OPERATORS: Final = ("=", "!=", "<", "<=", ">", ">=")
_TIMES: Final = ("timestamp", "date")
Kinds = Mapping[str, str]


def kind_in(written: Any) -> str:
    """Return the type of a field without its null."""
    return written.removesuffix(" | null") if isinstance(written, str) else "enum"


class Drawn:
    """What is drawn of one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.now = FIRST_US

    def fields(self) -> Fields:
        """Return the fields of a type."""
        names = self.rng.sample(_NAMES, self.rng.randint(2, 7))
        return {name: self._written() for name in names}

    def changed(self, fields: Fields) -> Fields:
        """Return the fields of its next version."""
        remaining = {name: w for name, w in fields.items() if self.rng.random() < 0.8}
        wider = {
            name: w.replace("int", "float")
            if isinstance(w, str) and kind_in(w) == "int" and self.rng.random() < 0.5
            else w
            for name, w in remaining.items()
        }
        added = {name: self._written() for name in self.rng.sample(_NAMES, 2) if name not in fields}
        return {**wider, **added}

    def _written(self) -> Any:
        kind = self.rng.choice((*_KINDS, "enum"))
        if kind == "enum":
            return ("new", "paid", "sent")
        return kind + self.rng.choice(("", " | null"))

    def event(self, fields: Fields) -> Event:
        """Return the fields of an event."""
        event = {}
        for name, written in fields.items():
            if not (str(written).endswith("| null") and self.rng.random() < 0.4):
                event[name] = self.value(kind_in(written))
        return event

    def value(self, kind: str) -> Any:
        rng = self.rng
        return {
            "int": lambda: rng.choice((rng.randint(-3, 3), rng.randint(-(2**40), 2**40))),
            "float": lambda: rng.choice((rng.randint(-8, 8) / 4, 1e300)),
            "string": lambda: rng.choice(_TEXTS),
            "bool": lambda: rng.random() < 0.5,
            "uuid": lambda: rng.choice(_UUIDS),
            "timestamp": lambda: time_of(FIRST_US + rng.randint(-5, 5) * 3_600_000_000),
            "date": lambda: _DAY + timedelta(days=rng.randint(-9, 9)),
            "enum": lambda: rng.choice(("new", "paid", "sent")),
            "now": lambda: time_of(FIRST_US + rng.randint(0, 400)),
            "context": lambda: rng.choice(CONTEXTS),
            "version": lambda: rng.randint(0, 4),
            "position": lambda: f"{rng.randint(0, 2)}:{rng.randint(0, 150)}",
        }[kind]()

    def literal(self, kind: str) -> Any:
        """Return a value as a command has it."""
        value = self.value(kind)
        if kind in ("int", "float") and self.rng.random() < 0.3:
            return value + self.rng.choice((0.5, 0.25, 2**70, -(2**70), 1e30))
        if kind == "version":
            return value
        if isinstance(value, date):
            forms = [as_us(value), value.isoformat()]
            if kind == "date":
                forms = [value.isoformat(), f"{value.isoformat()}T12:00:00Z"]
            return self.rng.choice(forms)
        return value

    def field(self, kinds: Kinds) -> str:
        return self.rng.choice([*kinds])

    def expression(self, kinds: Kinds, depth: int = 0, prefix: str | None = None) -> Expression:
        """Return a condition on fields of these kinds."""
        choice = self.rng.random()
        if depth < 3 and choice < 0.4:
            terms = [self.expression(kinds, depth + 1, prefix) for _ in range(2)]
            made: Expression = self.rng.choice((And, Or))(tuple(terms))
            return made
        if depth < 3 and choice < 0.55:
            return Not(self.expression(kinds, depth + 1, prefix))
        name = self.field(kinds)
        kind, field = kinds[name], Field(name, prefix)
        if choice < 0.65:
            return IsNull(field)
        if choice < 0.75:
            return InList(field, tuple(self.literal(kind) for _ in range(self.rng.randint(1, 3))))
        if choice < 0.85 and kind in ("string", "enum", "uuid", "context"):
            return Like(field, self.rng.choice(_PATTERNS))
        operators: Any = _OPERATORS[:2] if kind == "bool" else _OPERATORS
        return Comparison(field, self.rng.choice(operators), self.literal(kind))

    def query(self, event_type: str, kinds: Kinds) -> Query:
        """Return a query of events or figures of one type."""
        rng = self.rng
        all_kinds = {**kinds, **core_kinds()}
        query = Query(event_type)
        if rng.random() < 0.4:
            query = replace(query, context=rng.choice((*CONTEXTS, "nobody")))
        if rng.random() < 0.6:
            query = replace(query, where=self.expression(all_kinds))
        if rng.random() < 0.3:
            query = self._timed(query, kinds)
        if rng.random() < 0.2:
            query = replace(query, after=Position(rng.randint(0, 1), rng.randint(0, 60)))
        if rng.random() < 0.3:
            limit = rng.choice((0, 1, 5, 100))
            query = replace(query, limit=limit, offset=rng.choice((0, 0, 2)))
        if rng.random() < 0.4:
            return self._figures(query, kinds)
        if rng.random() < 0.4:
            order = Order(Field(self.field(all_kinds)), rng.random() < 0.5)
            query = replace(query, order=order)
        if rng.random() < 0.3:
            returned = tuple(Field(name) for name in rng.sample([*kinds], 1))
            query = replace(query, returned=(*returned, Field("nope")))
        return query

    def _timed(self, query: Query, kinds: Kinds) -> Query:
        fields = [name for name, kind in kinds.items() if kind in _TIMES]
        name = self.rng.choice([None, *fields])
        kind = "now" if name is None else kinds[name]
        since = self.literal(kind) if self.rng.random() < 0.7 else None
        until = self.literal(kind) if self.rng.random() < 0.5 else None
        return replace(query, time_field=name, since=since, until=until)

    def _figures(self, query: Query, kinds: Kinds, prefix: str | None = None) -> Query:
        rng = self.rng
        aggregates = [Aggregate("count")]
        for name, kind in kinds.items():
            metrics = ["count", "count_unique", "min", "max"]
            if kind in ("int", "float"):
                metrics += ["total", "avg"]
            metric: Any = rng.choice(metrics)
            aggregates.append(Aggregate(metric, Field(name, prefix)))
        by = [name for name in kinds if name not in ("count", "bucket") and rng.random() < 0.2]
        query = replace(query, aggregates=tuple(aggregates))
        query = replace(query, by=tuple(Field(name, prefix) for name in by))
        if rng.random() < 0.4:
            times = [name for name, kind in kinds.items() if kind in _TIMES]
            per: Any = rng.choice(("hour", "day", "week", "month", "year"))
            query = replace(query, per=per, per_field=rng.choice([None, *times]))
            if prefix is not None and query.per_field is not None:
                query = replace(query, per_field=f"{prefix}.{query.per_field}")
        if rng.random() < 0.3 and prefix is None:
            query = replace(query, order=Order(Field("count"), rng.random() < 0.5))
        return query

    def sequence(self, first: str, other: str, kinds: Mapping[str, Kinds]) -> Query:
        """Return a query of pairs."""
        rng = self.rng
        both = [name for name, kind in kinds[first].items() if kinds[other].get(name) == kind]
        link = rng.choice(["context_id", "context_id", *both])
        query = Query(first, sequence=Sequence(other, rng.random() < 0.5, link))
        times = [name for name in both if kinds[first][name] in _TIMES]
        if rng.random() < 0.4:
            query = replace(query, time_field=rng.choice([None, *times]))
        if rng.random() < 0.2:
            query = replace(query, context=rng.choice(CONTEXTS))
        terms = [
            self.expression({**kinds[name], **core_kinds()}, 1, name)
            for name in (first, other)
            if rng.random() < 0.5
        ]
        if rng.random() < 0.3:
            terms.append(
                Or(
                    (
                        self.expression(dict(kinds[first]), 3, first),
                        self.expression(dict(kinds[other]), 3, other),
                    )
                )
            )
        if terms:
            query = replace(query, where=And(tuple(terms)))
        if rng.random() < 0.2:
            query = self._figures(query, kinds[first], first)
        elif rng.random() < 0.3:
            query = replace(query, limit=rng.choice((0, 2, 10)), offset=rng.choice((0, 1)))
        return query


def core_kinds() -> Kinds:
    """Return the kinds of the core columns."""
    kinds = ("context", "string", "now", "position", "version")
    return {name: kind for name, kind in zip(CORE, kinds, strict=True) if name != "event_type"}


def merged_kinds(versions: list[Fields]) -> Kinds:
    """Return the kinds of the fields of all versions, those of the newest first."""
    kinds: dict[str, str] = {}
    for fields in reversed(versions):
        for name, written in fields.items():
            kinds.setdefault(name, kind_in(written))
    return kinds

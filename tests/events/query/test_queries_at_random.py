"""Goal: QUERY answers what the same query over a plain list does, whatever became of the rows.

Method: two types of random fields, and of several versions, get events in between seals,
compactions, trims and expiry. Random queries are asked of a store that stays open, and evaluated
over a list of all events (plain.py).
"""

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.events.query.drawn import CONTEXTS, Drawn, Kinds, merged_kinds
from tests.events.query.plain import rows_of
from tests.events.stored import Event, Fields, StoredEvents
from tests.thin import thinned
from typed_events.answer import Answer, Status
from typed_events.language.commands import Query
from typed_events.query.queries import NO_EVENTS, Queries

TYPES = ("order", "payment")
ROUNDS = 4
QUERIES = 25


def rows_in(answer: Answer) -> list[Event]:
    """Return the rows of an answer."""
    assert answer.status == Status.OK
    assert answer.schema is not None
    rows = []
    for batch in answer.batches:
        assert batch.schema == answer.schema
        names = batch.schema.names
        columns = [column.to_pylist() for column in batch.columns]
        rows += [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
    assert (answer.message == NO_EVENTS) == (not rows)
    return rows


def is_alike(value: Any, other: Any) -> bool:
    """Tell whether two values are equal; doubles nearly, as they are added in any order."""
    if isinstance(value, float) or isinstance(other, float):
        if value is None or other is None:
            return value is other
        return math.isclose(value, other, rel_tol=1e-12)
    if isinstance(value, datetime) and isinstance(other, datetime):
        return value.astimezone(UTC) == other.astimezone(UTC)
    return bool(value == other)


def are_alike(rows: list[Event], expected: list[Event]) -> bool:
    return len(rows) == len(expected) and all(
        list(row) == list(want) and all(is_alike(row[name], want[name]) for name in row)
        for row, want in zip(rows, expected, strict=True)
    )


class Scenario:
    """Two types and their events, and queries over them."""

    def __init__(self, root: Path, seed: int) -> None:
        self.drawn = Drawn(seed)
        shards = self.drawn.rng.choice((1, 1, 2))
        self.stored = StoredEvents(root, shards=shards, block_records=64)
        self.versions: dict[str, list[Fields]] = {name: [] for name in TYPES}
        for name in TYPES:
            self.define(name)

    def define(self, name: str) -> None:
        versions = self.versions[name]
        fields = self.drawn.changed(versions[-1]) if versions else self.drawn.fields()
        versions.append(fields)
        self.stored.define(name, fields, len(versions))

    def store(self) -> None:
        """Store events of all versions."""
        rng = self.drawn.rng
        for name in TYPES:
            for _ in range(rng.randint(0, 2)):
                version = rng.randint(1, len(self.versions[name]))
                contexts = [rng.choice(CONTEXTS) for _ in range(rng.randint(1, 40))]
                fields = self.versions[name][version - 1]
                rows = [self.drawn.event(fields) for _ in contexts]
                self.stored.store(name, contexts, rows, version)

    def disturb(self) -> None:
        """Let something become of the rows."""
        rng = self.drawn.rng
        for stream in [self.stored.streams[name] for name in TYPES]:
            for name in rng.sample(("seal", "compact", "trim"), 2):
                getattr(stream, name)()
        if rng.random() < 0.3:
            self.stored.expire(rng.choice(TYPES), timedelta(microseconds=rng.randint(1, 60)))

    def kinds(self, name: str) -> Kinds:
        return merged_kinds(self.versions[name])

    def compare(self, queries: Queries, query: Query) -> None:
        fields = {name: [*self.kinds(name)] for name in TYPES}
        expected = rows_of(query, self.stored.events, fields)
        rows = rows_in(queries.query(query))
        assert are_alike(rows, expected), (query, rows[:5], expected[:5])


@thinned("seed", range(40), count=2)
def test_queries_answer_what_they_do_over_plain_lists(root, seed):
    scenario = Scenario(root, seed)
    drawn = scenario.drawn
    with scenario.stored, Queries(root) as queries:
        for _ in range(ROUNDS):
            scenario.store()
            for _ in range(QUERIES):
                name = drawn.rng.choice(TYPES)
                scenario.compare(queries, drawn.query(name, scenario.kinds(name)))
            scenario.disturb()
            if drawn.rng.random() < 0.5:
                scenario.define(drawn.rng.choice(TYPES))


@thinned("seed", range(40), count=2)
def test_sequences_are_those_of_a_naive_join(root, seed):
    scenario = Scenario(root, seed + 1000)
    drawn = scenario.drawn
    with scenario.stored, Queries(root) as queries:
        for _ in range(ROUNDS):
            scenario.store()
            kinds = {name: scenario.kinds(name) for name in TYPES}
            for _ in range(QUERIES):
                first, other = drawn.rng.sample(TYPES, 2)
                scenario.compare(queries, drawn.sequence(first, other, kinds))
            scenario.disturb()

"""Goal: a condition takes the rows that it takes of a list, few rows or many.

Method: random types, rows and conditions; who reads a few rows at once has them evaluated one by
one, mostly without a query, who reads all at once has DuckDB do it. What is told is equal then.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from storage_core.sql.pool.stream_ranges import RangeQueries
from tests.events.query.drawn import CONTEXTS, Drawn, merged_kinds
from tests.events.query.plain import rows_of
from tests.events.stored import StoredEvents
from tests.thin import thinned
from typed_events.language.commands import Query, Subscribe
from typed_events.subscriptions.frames import CaughtUp, Rows
from typed_events.subscriptions.options import SubscriptionOptions
from typed_events.subscriptions.subscriptions import Subscriptions

CONDITIONS = 25


@thinned("seed", range(60), count=2)
def test_condition_takes_the_rows_of_a_list(root: Path, seed: int) -> None:
    drawn = Drawn(seed)
    fields = drawn.fields()
    with StoredEvents(root) as stored:
        stored.define("order", fields)
        contexts = [drawn.rng.choice(CONTEXTS) for _ in range(80)]
        stored.store("order", contexts, [drawn.event(fields) for _ in contexts])
        kinds = merged_kinds([fields])
        few = Subscriptions(root, SubscriptionOptions(rows_at_once=40))
        many = Subscriptions(root, SubscriptionOptions(rows_at_once=4_096))
        for _ in range(CONDITIONS):
            where = drawn.expression(kinds)
            context = drawn.rng.choice((None, *CONTEXTS))
            query = Query("order", context, where=where)
            expected = [row["id"] for row in rows_of(query, stored.events, {"order": [*kinds]})]
            command = Subscribe("order", context, where, "start")
            told_few, told_many = (
                told_until_caught_up(subscriptions, command) for subscriptions in (few, many)
            )
            assert told_few.column("id").to_pylist() == expected, command
            assert told_few.equals(told_many), command
        few.close()
        many.close()


@thinned("seed", range(60), count=2)
def test_few_rows_of_two_versions_are_told_as_many(root: Path, seed: int) -> None:
    drawn = Drawn(seed)
    fields = drawn.fields()
    with StoredEvents(root) as stored:
        for of_version in (fields, drawn.changed(fields)):
            stored.define("order", of_version)
            contexts = [drawn.rng.choice(CONTEXTS) for _ in range(40)]
            stored.store("order", contexts, [drawn.event(of_version) for _ in contexts])
        few = Subscriptions(root, SubscriptionOptions(rows_at_once=7))
        many = Subscriptions(root, SubscriptionOptions(rows_at_once=4_096))
        command = Subscribe("order", start="start")
        told_few, told_many = (
            told_until_caught_up(subscriptions, command) for subscriptions in (few, many)
        )
        assert told_few.equals(told_many)
        assert told_few.num_rows == 80
        few.close()
        many.close()


def test_few_rows_are_told_without_a_query(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = Drawn(1)
    fields = {"n": "int | null", "s": ["new", "paid"], "u": "uuid", "at": "timestamp", "d": "date"}
    with StoredEvents(root) as stored:
        stored.define("order", fields)
        stored.store("order", ["b", "a"], [drawn.event(fields) | {"s": "paid"} for _ in "12"])

        def refuse(*_: object) -> Iterator[None]:
            pytest.fail("DuckDB is asked")

        monkeypatch.setattr(RangeQueries, "rows", refuse)
        subscriptions = Subscriptions(root)
        table = told_until_caught_up(subscriptions, Subscribe("order", start="start"))
        assert [(row["id"], row["s"]) for row in table.to_pylist()] == [
            ("0:0", "paid"),
            ("0:1", "paid"),
        ]
        subscriptions.close()


def told_until_caught_up(subscriptions: Subscriptions, command: Subscribe) -> pa.Table:
    """Return the rows that are told before all is caught up with."""
    with subscriptions.subscribe(command) as frames:
        batches = []
        for frame in frames:
            if isinstance(frame, CaughtUp):
                break
            if isinstance(frame, Rows):
                batches.append(frame.batch)
        return pa.Table.from_batches(batches, frames.schema).combine_chunks()

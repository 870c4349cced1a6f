"""Goal: an event is paired with the nearest other of its link, and of equals by position."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.events.query.test_queries_at_random import rows_in
from tests.events.stored import FIRST_US, Event, StoredEvents, time_of
from typed_events.language.commands import Aggregate, Query, Sequence
from typed_events.language.expressions import And, Comparison, Field
from typed_events.query.queries import Queries

FOLLOWED = Sequence("payment", is_followed=True, link="number")
PRECEDED = Sequence("payment", is_followed=False, link="number")


def event_at(second: int, number: int | None = 1, **fields: int) -> Event:
    at_us = FIRST_US + second * 1_000_000
    return {"number": number, "at": time_of(at_us), **fields}


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queries]:
    """An order at second 10, one without a number, and payments around it."""
    root: Path = tmp_path_factory.mktemp("events")
    with StoredEvents(root) as stored:
        stored.define("order", {"number": "int | null", "at": "timestamp"})
        stored.define("payment", {"number": "int | null", "at": "timestamp", "cents": "int"})
        stored.store("order", ["a"] * 2, [event_at(10), event_at(10, None)])
        payments = [
            event_at(9, cents=0),
            event_at(9, cents=1),
            event_at(10, cents=2),
            event_at(10, cents=3),
            event_at(8, cents=4),
            event_at(10, 2, cents=5),
            event_at(10, None, cents=6),
        ]
        stored.store("payment", ["b"] * 7, payments)
        with Queries(root) as opened:
            yield opened


def cents(queries: Queries, sequence: Sequence, **options: object) -> list[int]:
    query = Query("order", sequence=sequence, **options)  # type: ignore[arg-type]
    return [row["payment.cents"] for row in rows_in(queries.query(query))]


def test_followed_by_takes_the_first_at_the_same_time(queries):
    assert cents(queries, FOLLOWED, time_field="at") == [2]


def test_preceded_by_takes_the_last_strictly_before(queries):
    assert cents(queries, PRECEDED, time_field="at") == [1]


def test_without_using_the_time_of_storing_counts(queries):
    assert cents(queries, FOLLOWED) == [0]
    assert cents(queries, PRECEDED) == []


def test_a_condition_on_one_type_filters_before_pairs_are_made(queries):
    enough = Comparison(Field("cents", "payment"), ">=", 3)
    assert cents(queries, FOLLOWED, time_field="at", where=enough) == [3]
    unprefixed = And((Comparison(Field("cents"), "<", 1),))
    assert cents(queries, PRECEDED, time_field="at", where=unprefixed) == [0]


def test_both_events_of_a_pair_are_returned(queries):
    query = Query("order", sequence=FOLLOWED, returned=(Field("cents"),))
    (row,) = rows_in(queries.query(query))
    assert [name for name in row if not name.endswith(("_id", "_type", "stamp", "version"))] == [
        "order.id",
        "payment.id",
        "payment.cents",
    ]
    assert (row["order.id"], row["payment.id"]) == ("0:0", "0:0")


def test_pairs_are_counted(queries):
    query = Query("order", sequence=FOLLOWED, aggregates=(Aggregate("count"),))
    assert rows_in(queries.query(query)) == [{"count": 1}]

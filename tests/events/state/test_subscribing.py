"""SUBSCRIBE to state: rows as they are stored, and deletions, whatever WHERE says."""

import pytest

from tests.events.state.rows import TTL_S, StateBench
from tests.events.subscriptions.subscribed import Subscriber
from tests.waiting import await_that
from typed_events.subscriptions.checkpoints import Place
from typed_events.subscriptions.frames import CaughtUp, Checkpoint


@pytest.fixture
def subscribe(bench: StateBench):
    subscribers: list[Subscriber] = []

    def make(text: str) -> Subscriber:
        subscribers.append(Subscriber(bench.store_of_events.subscribe(text), text))
        return subscribers[-1]

    yield make
    for subscriber in subscribers:
        subscriber.close()


def rows_in(events):
    return [(event["row"], event["deleted"], event["x"]) for event in events]


def test_deletion_is_a_row_that_says_so(bench, subscribe):
    bench.put("ann", "a", 1)
    subscriber = subscribe("SUBSCRIBE cursor FROM START")
    assert rows_in(subscriber.next(1)) == [("a", False, 1)]
    bench.delete("ann", "a")
    assert rows_in(subscriber.next(1)) == [("a", True, None)]


@pytest.mark.parametrize("where", ["x > 5", 'x > 5 AND row LIKE "%"'])
def test_deletion_is_told_whatever_the_condition_says(bench, subscribe, where):
    subscriber = subscribe(f"SUBSCRIBE cursor FOR ann WHERE {where} FROM START")
    bench.put("ann", "a", 1)
    bench.put("ann", "b", 7)
    bench.put("bob", "c", 8)
    bench.delete("bob", "c")
    bench.delete("ann", "b")
    bench.put("ann", "last", 9)
    while not subscriber.events or subscriber.events[-1]["row"] != "last":
        subscriber.frame()
    assert rows_in(subscriber.events[:-1]) == [("b", False, 7), ("b", True, None)]


def test_row_past_its_time_is_not_told(bench, subscribe):
    bench.put("ann", "a", 1)
    bench.clock.advance(TTL_S)
    bench.put("ann", "b", 2)
    bench.clock.advance(1)
    assert rows_in(subscribe("SUBSCRIBE cursor FROM START").next(1)) == [("b", False, 2)]


def test_checkpoint_of_rows_that_have_gone_goes_on_behind_them(bench, subscribe):
    for n in range(5):
        bench.put("ann", "a", n)
    for _ in range(4):
        bench.clock.advance(TTL_S)
        bench.put("ann", "b", 7)
        bench.store_of_events.maintain()
    assert bench.start_and_end("cursor")[0] > 1
    subscriber = subscribe("SUBSCRIBE cursor FROM 0:1")
    assert {row for row, _, _ in rows_in(subscriber.next(2))} == {"b"}


def test_live_reader_goes_on_behind_rows_that_have_gone(bench, subscribe):
    bench.put("ann", "a", 1)
    subscriber = subscribe("SUBSCRIBE cursor FROM START")
    subscriber.until(CaughtUp)
    bench.clock.advance(4 * TTL_S)
    bench.put("ann", "b", 2)
    bench.store_of_events.maintain()
    assert bench.start_and_end("cursor")[0] == 1
    live_reader = bench.store_of_events._subscriptions.source("cursor").live_reader
    # It stood still for so long.
    live_reader._places[0] = Place(0)
    before = live_reader.rows_read

    def is_told_live() -> bool:
        bench.put("ann", "c", 3)
        # Behind one it has attached to the live reader again.
        subscriber.until(Checkpoint)
        return bool(live_reader.rows_read > before)

    await_that(is_told_live, "rows that the live reader reads")


def test_all_types_are_those_of_events(bench, subscribe):
    subscriber = subscribe("SUBSCRIBE * FROM START")
    bench.put("ann", "a", 1)
    bench.must("order", "ann", amount=1)
    assert [event["event_type"] for event in subscriber.next(1)] == ["order"]

"""Many subscribers, and slow ones: each is told all of its events; the writer waits for none."""

from tests.events.subscriptions.subscribed import SubscribedBench
from tests.waiting import await_that
from typed_events.event_store import EventStore
from typed_events.subscriptions.frames import CaughtUp, Rows
from typed_events.subscriptions.polling import Polling

SUBSCRIBERS = 50


def test_new_rows_are_read_once_for_many_subscribers(bench: SubscribedBench) -> None:
    subscribers = [
        bench.subscribe(f"SUBSCRIBE order WHERE amount >= {number}")
        for number in range(SUBSCRIBERS)
    ]
    for subscriber in subscribers:
        subscriber.until(CaughtUp)
    for amount in range(SUBSCRIBERS):
        bench.store("order", "ann", amount=amount)
    for number, subscriber in enumerate(subscribers):
        expected = [f"0:{amount}" for amount in range(number, SUBSCRIBERS)]
        assert subscriber.ids(len(expected)) == expected
    assert bench.reads("order") == SUBSCRIBERS


def test_slow_subscriber_is_told_all_the_same(make_bench) -> None:
    bench = make_bench(queue_rows_max=4)
    bench.define("order", amount="int")
    slow, quick = bench.subscribe("SUBSCRIBE order"), bench.subscribe("SUBSCRIBE order")
    slow.until(CaughtUp)
    quick.until(CaughtUp)
    for amount in range(100):
        bench.store("order", "ann", amount=amount)
        quick.next(1)
    expected = [f"0:{amount}" for amount in range(100)]
    assert slow.ids(100) == expected
    assert [event["id"] for event in quick.events] == expected


def test_events_of_this_process_come_without_polling(make_bench) -> None:
    bench = make_bench(pause_s=3_600.0)
    bench.define("order", amount="int")
    subscriber = bench.subscribe("SUBSCRIBE order")
    subscriber.until(CaughtUp)
    for amount in range(3):
        bench.store("order", "ann", amount=amount)
        assert subscriber.ids(1) == [f"0:{amount}"]


def test_events_of_another_process_come(make_bench) -> None:
    bench = make_bench()
    bench.define("order", amount="int")
    # Another store stands for another process: it is told nothing by the one that writes.
    with EventStore.open(bench.root) as other, other.subscribe("SUBSCRIBE *") as frames:
        await_that(lambda: isinstance(frames.poll(0), CaughtUp), "it has caught up")
        bench.store("order", "ann", amount=1)
        await_that(lambda: isinstance(frames.poll(0), Rows), "it is told")


def test_readers_of_many_streams_look_together_as_often_as_those_of_some() -> None:
    polling = Polling(0.01)
    for _ in range(80):
        polling.begin()
    assert 80 / polling.pause_s <= 1_000
    for _ in range(79):
        polling.end()
    assert polling.pause_s == 0.01


def test_subscription_that_is_dropped_keeps_no_place(make_bench) -> None:
    bench = make_bench(subscriptions_max=1)
    bench.define("order", amount="int")
    for amount in range(3):
        _subscribe_and_drop(bench, amount)
        await_that(lambda: not bench.followers("order"), "its live reader has left it")
    answer = bench.store_of_events.execute("SUBSCRIBE order FROM START")
    next(answer.batches)
    del answer
    bench.subscribe("SUBSCRIBE order")


def _subscribe_and_drop(bench: SubscribedBench, amount: int) -> None:
    frames = bench.store_of_events.subscribe("SUBSCRIBE order")
    bench.store("order", "ann", amount=amount)
    await_that(lambda: isinstance(frames.poll(0), CaughtUp), "it is live")
    # The watcher has it look for new types, and keeps it no longer than that.
    bench.define(f"other_{amount}", amount="int")
    await_that(lambda: frames._is_to_look, "it is to look")


def test_streams_that_nobody_is_subscribed_to_are_closed(make_bench) -> None:
    bench = make_bench()
    for number in range(4):
        bench.define(f"order_{number}", amount="int")
    orders, all_types = bench.subscribe("SUBSCRIBE order_1"), bench.subscribe("SUBSCRIBE *")
    all_types.until(CaughtUp)
    orders.until(CaughtUp)
    assert len(bench.streams_open()) == 4
    all_types.close()
    await_that(lambda: bench.streams_open() == {"order_1"}, "the others are closed")
    bench.store("order_1", "ann", amount=1)
    bench.store("order_2", "ann", amount=2)
    orders.next(1)
    again = bench.resume(all_types)
    assert sorted(event["event_type"] for event in again.next(2)) == ["order_1", "order_2"]

"""Many subscribers, and slow ones: each is told all of its events; the writer waits for none."""

from tests.events.subscriptions.subscribed import SubscribedBench
from typed_events.subscriptions.frames import CaughtUp

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

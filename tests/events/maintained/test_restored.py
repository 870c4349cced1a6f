"""An older copy of a type that is put back while a process that asks stays open."""

import shutil

from tests.events.subscriptions.subscribed import Subscriber
from tests.snapshots import copy_of
from typed_events.event_store import EventStore

FROM_START = "SUBSCRIBE order FROM START"


def subscribed(store, count):
    """Return the amounts of the first events that a new subscriber is told."""
    subscriber = Subscriber(store.subscribe(FROM_START), FROM_START)
    amounts = [event["amount"] for event in subscriber.next(count)]
    subscriber.close()
    return amounts


def test_subscription_behind_a_restore_begins_at_once_with_the_copy(bench):
    bench.must("order", "ann", amount=1)
    bench.close()
    copy = copy_of(bench.root / "order", bench.root.parent / "copy of order")
    bench.reopen()
    bench.must("order", "ann", amount=2)
    bench.close()
    with EventStore.open(bench.root) as other:
        assert subscribed(other, 2) == [1, 2]
        shutil.rmtree(bench.root / "order")
        copy_of(copy, bench.root / "order")
        assert subscribed(other, 1) == [1]

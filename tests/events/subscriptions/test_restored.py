"""Goal: no subscriber passes over events in silence, whatever was put in the place of a stream.

Method: a stream is copied, told of and put back, or made anew, while nobody has it open, or under
a subscription; and its oldest events expire.
"""

import shutil
from pathlib import Path

import pytest

from storage_core import CorruptionError
from storage_core.platform.overriding import override
from tests.events.subscriptions.subscribed import SubscribedBench, Subscriber, without_proofs
from tests.log.expiry.shelf import Shelf
from tests.log.fixtures import make_bench as make_log
from tests.snapshots import copy_of
from tests.waiting import await_that
from typed_events.errors import ExpiredEventsError, StaleCheckpointError
from typed_events.event_store import EventStore
from typed_events.language.commands import Subscribe
from typed_events.query.fields import FieldsOfTypes
from typed_events.subscriptions.frames import CaughtUp, Rows
from typed_events.subscriptions.options import SubscriptionOptions
from typed_events.subscriptions.subscription import Subscription
from typed_events.subscriptions.subscriptions import Subscriptions
from typed_events.types.stored_types import StoredTypes, TypesOfRoot

__all__ = ["make_log"]
DEFINE = 'DEFINE order FIELDS { amount: "int", note: "string | null" }'
FORMS = ("SUBSCRIBE order FROM START", "SUBSCRIBE * FROM START")


def store_orders(bench: SubscribedBench, amounts: range) -> None:
    for amount in amounts:
        bench.store("order", "ann", amount=amount)


def amounts_until_caught_up(bench: SubscribedBench, text: str) -> list[int]:
    subscriber = bench.subscribe(text)
    subscriber.until(CaughtUp)
    return [event["amount"] for event in subscriber.events]


@pytest.mark.parametrize("text", FORMS)
@pytest.mark.parametrize("more", [2, 4, 9])
def test_checkpoint_of_before_an_older_copy_was_put_back_is_refused(bench, more, text) -> None:
    store_orders(bench, range(4))
    copy = bench.copied("order")
    store_orders(bench, range(4, 8))
    subscriber = bench.subscribe(text)
    subscriber.until(CaughtUp)
    bench.put_back("order", copy)
    store_orders(bench, range(8, 8 + more))
    with pytest.raises(StaleCheckpointError, match="FROM START tells all that is there"):
        bench.resume(subscriber)
    amounts = amounts_until_caught_up(bench, "SUBSCRIBE order FROM START")
    assert amounts == [*range(4), *range(8, 8 + more)]


@pytest.mark.parametrize("text", FORMS)
def test_checkpoint_that_an_older_copy_has_is_gone_on_from(bench, text) -> None:
    store_orders(bench, range(4))
    copy = bench.copied("order")
    subscriber = bench.subscribe(text)
    subscriber.until(CaughtUp)
    store_orders(bench, range(4, 8))
    bench.put_back("order", copy)
    store_orders(bench, range(8, 10))
    assert bench.resume(subscriber).ids(2) == ["0:4", "0:5"]


@pytest.mark.parametrize("more", [4, 6])
def test_checkpoint_of_a_type_that_was_made_anew_is_refused(bench, more) -> None:
    store_orders(bench, range(4))
    subscriber = bench.subscribe(FORMS[0])
    subscriber.until(CaughtUp)
    bench.make_anew("order", amount="int", note="string | null")
    store_orders(bench, range(more))
    with pytest.raises(StaleCheckpointError, match="or it was made anew"):
        bench.resume(subscriber)
    with pytest.raises(StaleCheckpointError, match="or it was made anew"):
        bench.resume(subscriber)


def test_checkpoint_behind_each_row_is_proved(bench) -> None:
    store_orders(bench, range(8))
    copy = bench.copied("order")
    bench.make_anew("order", amount="int", note="string | null")
    store_orders(bench, range(8))
    subscriber = bench.subscribe("SUBSCRIBE order WHERE amount > 1 FROM START")
    (*checkpoints,) = subscriber.until(Rows).checkpoints()
    for checkpoint in checkpoints:
        bench.subscribe(f'SUBSCRIBE order FROM "{checkpoint}"').close()
    bench.put_back("order", copy)
    for checkpoint in checkpoints:
        with pytest.raises(StaleCheckpointError):
            bench.subscribe(f'SUBSCRIBE order FROM "{checkpoint}"')


def test_checkpoint_of_versions_before_is_read_without_a_proof(bench) -> None:
    store_orders(bench, range(6))
    subscriber = bench.subscribe(FORMS[0])
    subscriber.cut(subscriber.until(Rows), 4)
    subscriber.checkpoint = without_proofs(subscriber.checkpoint)
    resumed = bench.resume(subscriber)
    assert resumed.ids(2) == ["0:4", "0:5"]
    # From there on checkpoints have one.
    bench.make_anew("order", amount="int", note="string | null")
    store_orders(bench, range(6))
    with pytest.raises(StaleCheckpointError):
        bench.resume(resumed)


@pytest.mark.parametrize("text", FORMS)
def test_checkpoint_of_a_type_of_which_nothing_was_told_is_gone_on_from(bench, text) -> None:
    bench.store("pay", "ann", amount=1)
    subscriber = bench.subscribe(text)
    subscriber.until(CaughtUp)
    before = len(subscriber.events)
    bench.make_anew("order", amount="int", note="string | null")
    store_orders(bench, range(4))
    resumed = bench.resume(subscriber)
    resumed.next(4)
    assert [event["event_type"] for event in resumed.events[before:]] == ["order"] * 4


# --- under a subscription ------------------------------------------------------------------------


def swapped(bench: SubscribedBench, other: Path) -> None:
    """Put another stream in the place of the orders, in one moment."""
    (bench.root / "order").rename(bench.root.parent / "away")
    shutil.move(other, bench.root / "order")


def replacement(bench: SubscribedBench, copy: Path | None, amounts: range) -> Path:
    """Return a stream of orders that a store elsewhere has made of a copy, or anew."""
    elsewhere = bench.root.parent / "elsewhere"
    copy_of(bench.root, elsewhere)
    shutil.rmtree(elsewhere / "order")
    if copy is not None:
        copy_of(copy, elsewhere / "order")
    with EventStore.open(elsewhere) as store:
        store.execute(DEFINE)
        for amount in amounts:
            answer = store.execute(f'STORE order FOR ann PAYLOAD {{"amount": {amount}}}')
            assert answer.message.startswith("stored at "), answer.message
    return elsewhere / "order"


@pytest.mark.parametrize("text", FORMS)
@pytest.mark.parametrize("is_anew", [False, True])
@pytest.mark.parametrize("more", [1, 4, 9])
def test_live_subscription_is_told_that_its_stream_was_replaced(bench, more, is_anew, text) -> None:
    store_orders(bench, range(4))
    copy = bench.copied("order")
    store_orders(bench, range(4, 8))
    bench.store_of_events.close()
    other = replacement(bench, None if is_anew else copy, range(20, 20 + more))
    with EventStore.open(bench.root) as reading:
        subscriber = Subscriber(reading.subscribe(text), text)
        subscriber.until(CaughtUp)
        swapped(bench, other)
        with pytest.raises(StaleCheckpointError):
            subscriber.until(Rows)
        assert len(subscriber.events) == 8
        anew = Subscriber(reading.subscribe(text), text)
        anew.until(CaughtUp)
        assert len(anew.events) == more + (0 if is_anew else 4)


def test_live_subscription_goes_on_in_a_copy_that_has_what_was_told(bench) -> None:
    store_orders(bench, range(4))
    copy = bench.copied("order")
    bench.store_of_events.close()
    other = replacement(bench, copy, range(20, 23))
    with EventStore.open(bench.root) as reading:
        subscriber = Subscriber(reading.subscribe(FORMS[0]), FORMS[0])
        subscriber.until(CaughtUp)
        swapped(bench, other)
        assert subscriber.ids(3) == ["0:4", "0:5", "0:6"]


def test_live_subscription_is_told_that_its_stream_is_gone(bench) -> None:
    store_orders(bench, range(4))
    bench.store_of_events.close()
    with EventStore.open(bench.root) as reading:
        subscriber = Subscriber(reading.subscribe(FORMS[0]), FORMS[0])
        subscriber.until(CaughtUp)
        shutil.rmtree(bench.root / "order")
        with pytest.raises(StaleCheckpointError, match="order was dropped or moved away"):
            subscriber.until(Rows)


@pytest.mark.parametrize("text", FORMS)
def test_live_subscription_goes_on_where_a_type_of_which_nothing_was_told_is_made_anew(
    bench, text
) -> None:
    bench.store("pay", "ann", amount=1)
    bench.store_of_events.close()
    with EventStore.open(bench.root) as reading:
        subscriber = Subscriber(reading.subscribe(text), text)
        subscriber.until(CaughtUp)
        before = len(subscriber.events)
        for amounts in (range(0), range(3)):
            other = replacement(bench, None, amounts)
            shutil.rmtree(bench.root / "order")
            await_that(lambda: _is_gone(subscriber), "it is not seen that the stream is gone")
            other.rename(bench.root / "order")
            shutil.rmtree(other.parent)
        subscriber.next(3)
        assert [event["event_type"] for event in subscriber.events[before:]] == ["order"] * 3


def _is_gone(subscriber: Subscriber) -> bool:
    assert not isinstance(subscriber.subscription.poll(0.01), Rows)
    return subscriber.subscription._tracks["order"].is_missing


def test_types_that_cannot_be_read_for_a_while_join_all_once_they_can(bench) -> None:
    types = PassingTypes(bench.root)
    subscriptions = Subscriptions(bench.root, types=FieldsOfTypes(types.current))
    with subscriptions.subscribe(Subscribe(None, start="start")) as subscription:
        subscriber = Subscriber(subscription, "SUBSCRIBE * FROM START")
        subscriber.until(CaughtUp)
        types.is_readable = False
        await_that(lambda: types.refused > 1, "nobody looked for types")
        types.is_readable = True
        bench.define("late", amount="int")
        bench.store("late", "ann", amount=1)
        assert [event["event_type"] for event in subscriber.next(1)] == ["late"]
    subscriptions.close()


class PassingTypes(TypesOfRoot):
    """The types of a root whose files are not there for a while, as while they are put back."""

    is_readable = True
    refused = 0

    @override
    def current(self) -> StoredTypes:
        if not self.is_readable:
            self.refused += 1
            message = "stream.json is missing though there are shards"
            raise CorruptionError(message)
        return super().current()


# --- expired -------------------------------------------------------------------------------------


@pytest.fixture
def straggling(make_log) -> Shelf:
    """A shelf whose blocks expire behind a row that stays, and one whose first expire."""
    shelf = Shelf(make_log)
    shelf.put(3, secondary=9)
    for hours in range(-40, -10):
        shelf.put(hours, 4, secondary=1)
    shelf.put(-1, 2, secondary=9)
    return shelf


def addresses(subscription: Subscription) -> list[int]:
    """Return the addresses that are told until it has caught up."""
    numbers: list[int] = []
    for frame in subscription:
        if isinstance(frame, CaughtUp):
            return numbers
        numbers += frame.addresses if isinstance(frame, Rows) else []
    raise AssertionError


def test_start_passes_over_blocks_that_expired_behind_a_row_that_stays(straggling) -> None:
    bench = straggling.bench
    straggling.expire()
    for rows_at_once in (3, 4096):
        options = SubscriptionOptions(rows_at_once=rows_at_once)
        subscriptions = Subscriptions(bench.root, options)
        with subscriptions.subscribe(Subscribe(bench.name, start="start")) as subscription:
            assert addresses(subscription) == [0, 121, 122]
        subscriptions.close()


def test_checkpoint_before_events_that_expired_says_which(straggling) -> None:
    bench = straggling.bench
    subscriptions = Subscriptions(bench.root)
    with subscriptions.subscribe(Subscribe(bench.name, start="start")) as subscription:
        rows = next(frame for frame in subscription if isinstance(frame, Rows))
    checkpoints = [*rows.checkpoints()]
    straggling.expire()
    subscription = subscriptions.subscribe(Subscribe(bench.name, start=checkpoints[0]))
    with pytest.raises(ExpiredEventsError) as refused:
        addresses(subscription)
    assert (refused.value.start, refused.value.end) == (1, 121)
    # The row before this one has expired, none behind it.
    with subscriptions.subscribe(Subscribe(bench.name, start=checkpoints[120])) as subscription:
        assert addresses(subscription) == [121, 122]
    subscriptions.close()


def test_events_that_expire_before_a_subscriber_reads_them_are_told_of(straggling) -> None:
    bench = straggling.bench
    subscriptions = Subscriptions(bench.root, SubscriptionOptions(rows_at_once=3))
    with subscriptions.subscribe(Subscribe(bench.name, start="start")) as subscription:
        next(frame for frame in subscription if isinstance(frame, Rows))
        straggling.expire()
        with pytest.raises(ExpiredEventsError, match=f"{bench.name}/0:3 is gone") as refused:
            addresses(subscription)
        assert (refused.value.start, refused.value.end) == (3, 121)
    subscriptions.close()

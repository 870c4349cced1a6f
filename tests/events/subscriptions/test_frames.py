"""What a subscriber is told, where it begins, and how it ends."""

import threading

import pytest

from storage_core import ClosedError
from tests.events.subscriptions.subscribed import SubscribedBench, places_in, without_proofs
from tests.waiting import await_that
from typed_events.errors import BusyError
from typed_events.subscriptions.frames import CaughtUp, Checkpoint, Heartbeat, Rows


def test_history_comes_first_then_what_is_stored(bench: SubscribedBench) -> None:
    bench.store("order", "ann", amount=1)
    bench.store("order", "bob", amount=2)
    subscriber = bench.subscribe("SUBSCRIBE order FROM START")
    assert subscriber.ids(2) == ["0:0", "0:1"]
    assert isinstance(subscriber.frame(), Checkpoint)
    assert places_in(subscriber.until(CaughtUp)) == "order/0:2"
    bench.store("order", "ann", amount=3, note="x")
    (event,) = subscriber.next(1)
    assert (event["id"], event["amount"], event["note"]) == ("0:2", 3, "x")
    assert places_in(subscriber.until(Checkpoint)) == "order/0:3"


def test_without_a_place_only_what_is_stored_from_then_on_is_told(bench: SubscribedBench) -> None:
    bench.store("order", "ann", amount=1)
    subscriber = bench.subscribe("SUBSCRIBE order")
    # The place is that of the command, not of the first frame that is taken.
    bench.store("order", "ann", amount=2)
    assert subscriber.ids(1) == ["0:1"]


def test_a_position_is_the_first_event_that_is_told(bench: SubscribedBench) -> None:
    for amount in range(4):
        bench.store("order", "ann", amount=amount)
    assert bench.subscribe("SUBSCRIBE order FROM 0:2").ids(2) == ["0:2", "0:3"]


def test_context_and_condition_choose_events(bench: SubscribedBench) -> None:
    subscriber = bench.subscribe('SUBSCRIBE order FOR ann WHERE amount > 1 AND NOT note = "x"')
    for amount, context, note in ((1, "ann", None), (2, "bob", None), (2, "ann", "x")):
        bench.store("order", context, amount=amount, note=note)
    wanted = bench.store("order", "ann", amount=2)
    assert subscriber.ids(1) == [wanted]


def test_all_types_are_told_with_their_fields_as_json(bench: SubscribedBench) -> None:
    subscriber = bench.subscribe("SUBSCRIBE *")
    bench.store("order", "ann", amount=1)
    (order,) = subscriber.next(1)
    bench.store("pay", "ann", amount=2)
    (pay,) = subscriber.next(1)
    assert (order["event_type"], order["payload"]) == ("order", '{"amount":1,"note":null}')
    assert (pay["event_type"], pay["payload"]) == ("pay", '{"amount":2}')
    assert places_in(subscriber.until(Checkpoint)) == "order/0:1,pay/0:1"


def test_a_type_that_comes_joins_all_from_its_start(bench: SubscribedBench) -> None:
    subscriber = bench.subscribe("SUBSCRIBE * WHERE amount > 5")
    subscriber.until(CaughtUp)
    bench.define("visit", city="string", amount="int")
    bench.store("visit", "ann", city="Bonn", amount=5)
    bench.store("visit", "ann", city="Ulm", amount=6)
    assert [event["id"] for event in subscriber.next(1)] == ["0:1"]


def test_a_checkpoint_of_nothing_is_the_start(make_bench) -> None:
    bench = make_bench()
    bench.define("order", amount="int")
    bench.do('STORE order FOR a PAYLOAD { "amount": 1 }')
    empty = make_bench()
    empty.define("order", amount="int")
    subscriber = empty.subscribe("SUBSCRIBE *")
    subscriber.until(CaughtUp)
    empty.store("order", "ann", amount=1)
    assert empty.resume(subscriber).ids(1) == ["0:0"]


def test_a_version_that_adds_a_field_is_told_with_it(bench: SubscribedBench) -> None:
    subscriber = bench.subscribe("SUBSCRIBE order")
    subscriber.until(CaughtUp)
    bench.define("order", amount="int", note="string | null", city="string | null")
    bench.store("order", "ann", amount=1, city="Ulm")
    assert subscriber.next(1)[0]["city"] == "Ulm"


def test_who_is_told_nothing_gets_heartbeats(make_bench) -> None:
    bench = make_bench(heartbeat_s=0.01)
    bench.define("order", amount="int")
    with bench.store_of_events.subscribe("SUBSCRIBE order WHERE amount > 1") as frames:
        seen = [next(frames) for _ in range(4)]
        assert (type(seen[-1]), places_in(seen[-1])) == (Heartbeat, "order/0:0")
        bench.store("order", "ann", amount=1)
        # The checkpoint goes on behind events that are not wanted.
        await_that(lambda: places_in(next(frames)) == "order/0:1", "a heartbeat behind it")


def test_an_answer_goes_on_with_rows(bench: SubscribedBench) -> None:
    bench.store("order", "ann", amount=1)
    answer = bench.store_of_events.execute("SUBSCRIBE order FROM START")
    assert next(answer.batches).to_pylist()[0]["amount"] == 1
    bench.store("order", "ann", amount=2)
    batch = next(answer.batches)
    assert (batch.schema, batch.column("amount").to_pylist()) == (answer.schema, [2])
    answer.batches.close()  # type: ignore[attr-defined]


def test_closing_from_another_thread_ends_the_wait(bench: SubscribedBench) -> None:
    subscriber = bench.subscribe("SUBSCRIBE order")
    subscriber.until(CaughtUp)
    closer = threading.Timer(0.01, subscriber.close)
    closer.start()
    assert list(subscriber.subscription) == []
    closer.join()


def test_closing_the_store_ends_subscriptions_by_name(bench: SubscribedBench) -> None:
    subscriber = bench.subscribe("SUBSCRIBE order")
    subscriber.until(CaughtUp)
    bench.store_of_events.close()
    with pytest.raises(ClosedError, match="the store of events is closed"):
        subscriber.frame()


def test_one_subscription_too_many_is_refused(make_bench) -> None:
    bench = make_bench(subscriptions_max=1)
    bench.define("order", amount="int")
    subscriber = bench.subscribe("SUBSCRIBE order")
    with pytest.raises(BusyError, match="1 subscriptions already"):
        bench.subscribe("SUBSCRIBE order")
    subscriber.close()
    bench.subscribe("SUBSCRIBE order")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SUBSCRIBE ordre", "NotFound: unknown type ordre; did you mean order?"),
        ("SUBSCRIBE _types", "NotFound: unknown type _types"),
        ("SUBSCRIBE order WHERE nope = 1", "BadRequest: order: unknown field nope"),
        ("SUBSCRIBE order WHERE amount = x", "amount is an int: write a number"),
        ("SUBSCRIBE * WHERE nope = 1", "the condition fits no type: order: unknown field nope"),
        ("SUBSCRIBE order FROM 0:2", "order/0:2 lies behind the end, order/0:1"),
        ("SUBSCRIBE order FROM 3:0", "order has 1 shard: there is no shard 3"),
        ("SUBSCRIBE order FROM pay/0:0", "pay/0:0 is a place in pay: the subscription is of order"),
        ("SUBSCRIBE * FROM 0:0", "0:0 may be of any type: name it as TYPE/0:0"),
        ("SUBSCRIBE order FROM 0:0,0:1", "two places in shard 0 of order"),
    ],
)
def test_what_cannot_be_is_refused(bench: SubscribedBench, text: str, reason: str) -> None:
    bench.store("order", "ann", amount=1)
    assert reason in bench.refused(text)


def test_a_store_that_is_not_there_is_not_found(make_bench) -> None:
    assert "there is no store at" in make_bench().refused("SUBSCRIBE order")


def test_rows_have_the_checkpoint_behind_each(bench: SubscribedBench) -> None:
    for amount in range(3):
        bench.store("order", "ann", amount=amount)
    bench.store("pay", "ann", amount=9)
    subscriber = bench.subscribe("SUBSCRIBE * FROM START")
    rows = subscriber.until(Rows)
    subscriber.cut(rows, 2)
    assert without_proofs(subscriber.checkpoint) == "order/0:2,pay/0:0"
    assert bench.resume(subscriber).ids(1) == ["0:2"]

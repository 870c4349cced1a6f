"""IDEMPOTENCY: a key that comes again is answered with the first position, and stores nothing."""

from datetime import timedelta

import pytest

from typed_events.answer import Status

KEY = 'IDEMPOTENCY "k"'
DAY_S = 86_400


@pytest.mark.parametrize("leave", [None, "reopen", "crash"])
def test_replay_is_answered_with_the_first_position(bench, leave):
    bench.must("order", "bob", amount=0)
    assert bench.must("order", "ann", KEY, amount=1, note="x") == "0:1"
    if leave:
        getattr(bench, leave)()
    assert bench.must("order", "ann", KEY, note="x", amount=1) == "0:1"
    assert bench.must("order", "ann", f"{KEY} EXPECT 0", amount=1, note="x") == "0:1"
    assert len(bench.events("order")) == 2


def test_key_belongs_to_a_type_and_a_context(bench):
    positions = [
        bench.must(event_type, context, KEY, amount=1)
        for event_type in ("order", "pay")
        for context in ("ann", "bob")
    ]
    assert positions == ["0:0", "0:1", "0:0", "0:1"]


def test_key_with_another_payload_is_a_conflict(bench):
    bench.must("order", "ann", KEY, amount=1)
    answer = bench.store("order", "ann", KEY, amount=2)
    assert answer.status is Status.CONFLICT
    assert 'idempotency key "k" was used for another payload' in answer.message
    assert len(bench.events("order")) == 1


def test_replay_behind_a_new_version_is_a_replay(bench):
    bench.must("order", "ann", KEY, amount=1)
    bench.define("order", amount="int", note="string | null", more="int | null")
    assert bench.must("order", "ann", KEY, amount=1) == "0:0"


@pytest.mark.parametrize("offset", [0, 0.4, 0.99])
def test_key_is_remembered_for_a_window_and_forgotten_after_two(make_bench, offset):
    bench = make_bench(idempotency_window=timedelta(days=1))
    bench.define("order", amount="int")
    bench.clock.advance(offset * DAY_S)
    first = bench.must("order", "ann", KEY, amount=1)
    bench.clock.advance(DAY_S - 60)
    assert bench.must("order", "ann", KEY, amount=1) == first
    bench.clock.advance(DAY_S + 120)
    assert bench.must("order", "ann", KEY, amount=1) != first


def test_key_of_the_last_window_is_remembered_behind_one_of_this(make_bench):
    """The first new key of a window has old ones deleted."""
    bench = make_bench(idempotency_window=timedelta(days=1))
    bench.define("order", amount="int")
    first = bench.must("order", "ann", KEY, amount=1)
    bench.clock.advance(DAY_S - 60)
    bench.must("order", "ann", 'IDEMPOTENCY "other"', amount=2)
    bench.clock.advance(50)
    assert bench.must("order", "ann", KEY, amount=1) == first


def test_keys_that_are_forgotten_are_deleted(bench):
    bench.must("order", "ann", KEY, amount=1)
    before = attachments(bench)
    bench.clock.advance(3 * DAY_S)
    bench.must("order", "bob", 'IDEMPOTENCY "other"', amount=1)
    after = attachments(bench)
    assert (len(before), len(after)) == (1, 1)
    assert before != after


def attachments(bench) -> list[bytes]:
    """Return the idempotency keys that lie in the store of `order`."""
    (shard,) = bench.store_of_events._writer._streams.by_type["order"].stream._shards.values()
    view = shard._store.snapshot()
    try:
        return [key for key, _ in view.items("default", b"ai", b"aj")]
    finally:
        view.close()

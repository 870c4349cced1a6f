"""What live readers have offered is taken at once: as `poll` tells it, or not at all."""

from functools import partial
from typing import Final
from weakref import ref

from connectors.serve.answer_writer import chunk_behind
from connectors.serve.commands.frame_texts import told_bytes
from tests.events.subscriptions.subscribed import (
    SubscribedBench,
    Subscriber,
    follower,
    is_settled,
    without_collector,
)
from tests.waiting import await_that
from typed_events.subscriptions.frames import CaughtUp, Checkpoint, Rows

MUCH: Final = 2**20
EVENTS: Final = 3


def offered(bench: SubscribedBench, subscriber: Subscriber, events: int) -> list[str]:
    """Store events; return their positions once all are offered to a subscriber."""
    positions = [bench.store("order", "ann", amount=number) for number in range(events)]
    track = subscriber.subscription._tracks["order"]
    await_that(lambda: track._rows == events, "rows are offered")
    return positions


def test_all_that_was_offered_is_taken_with_one_checkpoint(bench: SubscribedBench) -> None:
    subscriber = follower(bench)
    positions = offered(bench, subscriber, EVENTS)
    frames = subscriber.subscription.take_following(MUCH)
    assert frames is not None
    batches = [frame.batch for frame in frames[:-1] if isinstance(frame, Rows)]
    assert [row["id"] for batch in batches for row in batch.to_pylist()] == positions
    assert frames[-1] == Checkpoint(subscriber.subscription.checkpoint)
    assert subscriber.subscription.take_following(MUCH) == ()


def test_few_bytes_are_taken_at_a_time(bench: SubscribedBench) -> None:
    subscriber = follower(bench)
    offered(bench, subscriber, EVENTS)
    track = subscriber.subscription._tracks["order"]
    pieces = len(track._waiting)
    for taken in range(1, pieces + 1):
        assert subscriber.subscription.take_following(1)
        assert len(track._waiting) == pieces - taken


def test_those_who_are_told_the_same_are_given_the_same_frames(bench: SubscribedBench) -> None:
    first = follower(bench, "SUBSCRIBE order WHERE amount >= 0")
    other = bench.subscribe("SUBSCRIBE order WHERE amount < 2")
    other.until(CaughtUp)
    await_that(lambda: is_settled(other), "it is offered rows, too")
    offered(bench, first, 1)
    track = other.subscription._tracks["order"]
    await_that(lambda: track._rows == 1, "rows are offered to both")
    frames = first.subscription.take_following(1)
    assert frames
    assert frames is other.subscription.take_following(1)


def test_rows_that_all_were_told_are_freed_at_once(bench: SubscribedBench) -> None:
    first = follower(bench)
    other = bench.subscribe("SUBSCRIBE order")
    other.until(CaughtUp)
    await_that(lambda: is_settled(other), "it is offered rows, too")
    framed = partial(chunk_behind, is_old=False)
    track = other.subscription._tracks["order"]
    with without_collector():
        offered(bench, first, 1)
        await_that(lambda: track._rows == 1, "rows are offered to both")
        rows = ref(track._waiting[-1].wanted_rows.batch)
        for subscriber in (first, other):
            frames = subscriber.subscription.take_following(MUCH)
            assert frames
            told_bytes(frames, framed, "chunked")
            del frames
        await_that(lambda: rows() is None, "the rows are freed")


def test_rows_behind_what_is_to_be_read_are_not_taken(bench: SubscribedBench) -> None:
    subscriber = follower(bench)
    positions = offered(bench, subscriber, 1)
    subscriber.subscription._tracks["order"].read_to(0, 2)
    assert subscriber.subscription.take_following(MUCH) is None
    assert subscriber.ids(1) == positions


def test_who_is_to_look_for_types_or_is_closed_takes_nothing(bench: SubscribedBench) -> None:
    subscriber = follower(bench)
    positions = offered(bench, subscriber, 1)
    subscriber.subscription.look()
    assert subscriber.subscription.take_following(MUCH) is None
    assert subscriber.ids(1) == positions
    subscriber.close()
    assert subscriber.subscription.take_following(MUCH) is None

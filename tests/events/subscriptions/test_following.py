"""What live readers have offered is taken at once: as `poll` tells it, or not at all."""

from typing import Final

from tests.events.subscriptions.subscribed import SubscribedBench, Subscriber
from tests.waiting import await_that
from typed_events.subscriptions.frames import CaughtUp, Checkpoint, Rows

MUCH: Final = 2**20
EVENTS: Final = 3


def follower(bench: SubscribedBench, text: str = "SUBSCRIBE order") -> Subscriber:
    """Return who has caught up, and is not told to look for types any more."""
    bench.store("order", "ann", amount=0)
    # All are told to look by the first look for types; whoever takes no frame stays so.
    first = bench.subscribe(text)
    await_that(lambda: first.subscription._is_to_look, "it is told to look for types")
    first.close()
    subscriber = bench.subscribe(text)
    subscriber.until(CaughtUp)
    await_that(lambda: is_settled(subscriber), "it is offered rows")
    return subscriber


def is_settled(subscriber: Subscriber) -> bool:
    return subscriber.subscription.poll(0) is None and subscriber.subscription.is_following


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

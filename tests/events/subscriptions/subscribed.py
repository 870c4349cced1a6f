"""The vocabulary of subscriptions: a store whose events are subscribed to, and who is told them.

bench.store("order", "ann", amount=1)                an event: its position
subscriber = bench.subscribe("SUBSCRIBE order")      who is told
subscriber.ids(3)                                    the positions of the next 3 events
subscriber.until(CaughtUp)                           frames up to one of this kind
subscriber = bench.resume(subscriber)                another subscription, from the last checkpoint
"""

import gc
import json
import re
import shutil
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from storage_core import SystemClock
from tests.events.store.bench import WAIT_MAX
from tests.snapshots import copy_of
from tests.waiting import await_that
from typed_events.answer import Status
from typed_events.event_store import EventStore
from typed_events.store.options import EventStoreOptions
from typed_events.subscriptions.frames import CaughtUp, Checkpoint, Frame, Heartbeat, Rows
from typed_events.subscriptions.options import SubscriptionOptions
from typed_events.subscriptions.subscription import Subscription

F = TypeVar("F", Rows, Checkpoint, CaughtUp, Heartbeat)
Event = dict[str, Any]
WAIT_S: Final = 120.0
# A few rows.
_TAKEN_BYTES: Final = 1_000
_CLOCK: Final = SystemClock()


def places_in(frame: Frame) -> str:
    """Return the places of a frame's checkpoint, without what proves them."""
    assert not isinstance(frame, Rows)
    text = frame.text if isinstance(frame, Checkpoint) else frame.checkpoint
    return without_proofs(text)


def without_proofs(checkpoint: str) -> str:
    """Return a checkpoint as versions before wrote it."""
    return re.sub("@[0-9a-f]{16}", "", checkpoint)


@contextmanager
def without_collector() -> Iterator[None]:
    """Objects go by their counts alone, as they mostly do in a server: it collects rarely."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Subscriber:
    """Who is told by a subscription; what it was told, and the last checkpoint."""

    def __init__(
        self, subscription: Subscription, text: str, *, takes_following: bool = False
    ) -> None:
        self.subscription = subscription
        self.text = text
        self.events: list[Event] = []
        self.checkpoint = ""
        # Whether it takes what live readers offer at once, as far as that goes; and what is left.
        self._takes_following = takes_following
        self._taken: deque[Frame] = deque()

    def frame(self) -> Frame:
        """Return the next frame, heartbeats left out."""
        until_s = _CLOCK.monotonic_s() + WAIT_S
        while True:
            if self._takes_following and not self._taken:
                self._taken += self.subscription.take_following(_TAKEN_BYTES) or ()
            frame = (
                self._taken.popleft()
                if self._taken
                else self.subscription.poll(until_s - _CLOCK.monotonic_s())
            )
            assert frame is not None, f"nothing is told: {self.text}"
            if not isinstance(frame, Heartbeat):
                self._note(frame)
                return frame

    def until(self, kind: type[F]) -> F:
        """Return the next frame of a kind."""
        while True:
            frame = self.frame()
            if isinstance(frame, kind):
                return frame

    def next(self, count: int) -> list[Event]:
        """Return the next events; no more may be told with them."""
        before = len(self.events)
        while len(self.events) < before + count:
            self.frame()
        assert len(self.events) == before + count
        return self.events[before:]

    def ids(self, count: int) -> list[str]:
        """Return the positions of the next events."""
        return [event["id"] for event in self.next(count)]

    def cut(self, rows: Rows, count: int) -> None:
        """Forget the last rows behind the first ones of a frame, as who was cut off in it."""
        self.checkpoint = [*rows.checkpoints()][count - 1]
        del self.events[len(self.events) - rows.batch.num_rows + count :]

    def close(self) -> None:
        self.subscription.close()

    def _note(self, frame: Frame) -> None:
        match frame:
            case Rows():
                self.events += frame.batch.to_pylist()
                self.checkpoint = [*frame.checkpoints()][-1]
            case Checkpoint(text):
                self.checkpoint = text
            case CaughtUp(checkpoint) | Heartbeat(checkpoint):
                self.checkpoint = checkpoint


class SubscribedBench:
    """A store of events, and a list of those that it has."""

    def __init__(self, root: Path, shards: int = 1, **options: Any) -> None:
        self.root = root
        self._options = SubscriptionOptions(**options)
        self._shards = shards
        self.events: list[Event] = []
        self.subscribers: list[Subscriber] = []
        self.store_of_events = self._opened()

    def _opened(self) -> EventStore:
        return EventStore.open(
            self.root,
            options=EventStoreOptions(wait_max=WAIT_MAX, shards=self._shards),
            subscriptions=self._options,
        )

    def do(self, text: str) -> str:
        """Do a command, which must go well; return its message."""
        answer = self.store_of_events.execute(text)
        assert answer.status is Status.OK, answer.message
        return answer.message

    def refused(self, text: str) -> str:
        """Do a command, which must be refused; return its message."""
        answer = self.store_of_events.execute(text)
        assert answer.status in (Status.BAD_REQUEST, Status.NOT_FOUND), answer.message
        return f"{answer.status}: {answer.message}"

    def define(self, event_type: str, **fields: str) -> None:
        self.do(f"DEFINE {event_type} FIELDS {json.dumps(fields)}")

    def store(self, event_type: str, context: str, **payload: Any) -> str:
        """Store an event; return its position."""
        message = self.do(f'STORE {event_type} FOR "{context}" PAYLOAD {json.dumps(payload)}')
        position = message.removeprefix("stored at ")
        event = {"event_type": event_type, "context_id": context, "id": position, **payload}
        self.events.append(event)
        return position

    def subscribe(self, text: str) -> Subscriber:
        # Each second one is told as the thread is told that sends for many.
        self.subscribers.append(
            Subscriber(
                self.store_of_events.subscribe(text),
                text,
                takes_following=len(self.subscribers) % 2 == 1,
            )
        )
        return self.subscribers[-1]

    def resume(self, subscriber: Subscriber) -> Subscriber:
        """Return who goes on from the last checkpoint, and has been told the same."""
        subscriber.close()
        before, _, _ = subscriber.text.partition(" FROM ")
        resumed = self.subscribe(f"{before} FROM {_written(subscriber.checkpoint)}")
        resumed.events, resumed.checkpoint = subscriber.events, subscriber.checkpoint
        return resumed

    def reads(self, event_type: str) -> int:
        """Return how many rows the live reader of a type has read."""
        source = self.store_of_events._subscriptions.source(event_type)
        assert source is not None
        return source.live_reader.rows_read

    def followers(self, event_type: str) -> int:
        """Return how many subscribers the live reader of a type has."""
        source = self.store_of_events._subscriptions.source(event_type)
        assert source is not None
        return source.live_reader.followers

    def streams_open(self) -> set[str]:
        """Return the streams that are open for subscribers."""
        return {*self.store_of_events._subscriptions._sources}

    def reopen(self) -> None:
        self.store_of_events.close()
        self.store_of_events = self._opened()

    # --- the files of a type, which nobody has open for writing meanwhile ------------------------

    def copied(self, event_type: str) -> Path:
        """Return a copy of a type's stream."""
        self.store_of_events.close()
        place = self.root.parent / f"copy of {event_type} of {self.root.name}"
        shutil.rmtree(place, ignore_errors=True)
        copy = copy_of(self.root / event_type, place)
        self.store_of_events = self._opened()
        return copy

    def put_back(self, event_type: str, copy: Path) -> None:
        """Put a copy in the place of a type's stream."""
        self.store_of_events.close()
        shutil.rmtree(self.root / event_type)
        copy_of(copy, self.root / event_type)
        self.store_of_events = self._opened()

    def make_anew(self, event_type: str, **fields: str) -> None:
        """Drop a type's stream, and define it again."""
        self.store_of_events.close()
        shutil.rmtree(self.root / event_type)
        self.store_of_events = self._opened()
        self.define(event_type, **fields)

    def close(self) -> None:
        for subscriber in self.subscribers:
            subscriber.close()
        self.store_of_events.close()


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


def _written(checkpoint: str) -> str:
    return checkpoint if checkpoint == "START" else f'"{checkpoint}"'

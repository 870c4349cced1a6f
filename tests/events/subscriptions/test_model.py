"""Goal: each subscriber is told what it wants of all that is stored, in order, once.

Method: random STOREs over several types, some that come later; subscribers of all kinds take frames
when chance has it, are cut off in the midst of a frame, and resume from their last checkpoint; the
store is closed and opened again; older copies of a type are put back, and who was told more than
these have is refused, and begins again. In the end each has of each type what a plain list has.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.events.subscriptions.subscribed import Event, SubscribedBench, Subscriber
from tests.thin import thinned
from typed_events.errors import StaleCheckpointError
from typed_events.subscriptions.checkpoints import START, places_of
from typed_events.subscriptions.frames import Rows

CONTEXTS = ("ann", "bob", "carl")
FORMS: tuple[tuple[str, Callable[[Event], bool]], ...] = (
    ("SUBSCRIBE a FROM START", lambda event: event["event_type"] == "a"),
    (
        "SUBSCRIBE a FOR bob FROM START",
        lambda e: (e["event_type"], e["context_id"]) == ("a", "bob"),
    ),
    (
        "SUBSCRIBE b WHERE n >= 3 AND NOT n = 5 FROM START",
        lambda e: e["event_type"] == "b" and e["n"] >= 3 and e["n"] != 5,
    ),
    (
        'SUBSCRIBE b WHERE t LIKE "x%" FROM START',
        lambda e: e["event_type"] == "b" and e["t"].startswith("x"),
    ),
    ("SUBSCRIBE * FROM START", lambda _: True),
    (
        "SUBSCRIBE * FOR ann WHERE n < 4 FROM START",
        lambda e: e["context_id"] == "ann" and e["n"] < 4,
    ),
)


@dataclass
class Follower:
    """A subscriber, and what it wants."""

    subscriber: Subscriber
    wants: Callable[[Event], bool]

    def expected(self, events: list[Event]) -> dict[tuple[str, int], list[str]]:
        return places(event for event in events if self.wants(event))


def places(events: Any) -> dict[tuple[str, int], list[str]]:
    """Return the positions of events, by type and shard, in the order of the events."""
    by_place: dict[tuple[str, int], list[str]] = defaultdict(list)
    for event in events:
        by_place[event["event_type"], int(event["id"].split(":")[0])].append(event["id"])
    return by_place


class Scenario:
    """A store, and its subscribers."""

    def __init__(self, bench: SubscribedBench, chance: Random) -> None:
        self.bench = bench
        self.chance = chance
        self.types = ["a", "b"]
        # The copy of a type, and the positions that it has.
        self.copy: tuple[str, Path, list[str]] | None = None
        for name in self.types:
            bench.define(name, n="int", t="string")
        self.followers = [Follower(bench.subscribe(text), wants) for text, wants in FORMS]

    def store(self) -> None:
        """Store some events, by themselves or in one commit."""
        chance = self.chance
        stores = [
            (chance.choice(self.types), chance.choice(CONTEXTS), chance.randrange(8))
            for _ in range(chance.choice((1, 2, 30)))
        ]
        for name, context, n in stores:
            self.bench.store(name, context, n=n, t=chance.choice("xy") + str(n))

    def take(self) -> None:
        """Let somebody take events, and be cut off in the midst of them."""
        follower = self.chance.choice(self.followers)
        subscriber = follower.subscriber
        if len(subscriber.events) < self._wanted(follower):
            rows = subscriber.until(Rows)
            if self.chance.random() < 0.5:
                subscriber.cut(rows, self.chance.randint(1, rows.batch.num_rows))
                follower.subscriber = self.bench.resume(subscriber)

    def resume(self) -> None:
        follower = self.chance.choice(self.followers)
        if follower.subscriber.checkpoint:
            follower.subscriber = self.bench.resume(follower.subscriber)

    def define(self) -> None:
        if len(self.types) < 4:
            self.types.append(f"c{len(self.types)}")
            self.bench.define(self.types[-1], n="int", t="string")

    def reopen(self) -> None:
        self.bench.reopen()
        self.resume_all()

    def keep_copy(self) -> None:
        name = self.chance.choice(self.types)
        ids = [event["id"] for event in self.bench.events if event["event_type"] == name]
        self.copy = name, self.bench.copied(name), ids
        self.resume_all()

    def put_back(self) -> None:
        """Put the copy back, store some more, and see who may go on."""
        if self.copy is None:
            return
        name, copy, ids = self.copy
        self.bench.put_back(name, copy)
        self.bench.events = [
            event
            for event in self.bench.events
            if event["event_type"] != name or event["id"] in ids
        ]
        ends = places({"event_type": name, "id": one} for one in ids)
        if self.chance.random() < 0.7:
            self.store()
        for follower in self.followers:
            checkpoint = follower.subscriber.checkpoint
            stands = {} if checkpoint in ("", START) else places_of(checkpoint, None).get(name, {})
            is_beyond = any(
                place.address > len(ends[name, shard]) for shard, place in stands.items()
            )
            try:
                self.go_on(follower)
            except StaleCheckpointError:
                assert is_beyond, follower.subscriber.checkpoint
                before, _, _ = follower.subscriber.text.partition(" FROM ")
                follower.subscriber = self.bench.subscribe(f"{before} FROM START")
            else:
                assert not is_beyond, follower.subscriber.checkpoint

    def resume_all(self) -> None:
        for follower in self.followers:
            self.go_on(follower)

    def go_on(self, follower: Follower) -> None:
        if not follower.subscriber.checkpoint:
            follower.subscriber.checkpoint = "START"
        follower.subscriber = self.bench.resume(follower.subscriber)

    def check(self) -> None:
        for follower in self.followers:
            subscriber = follower.subscriber
            while len(subscriber.events) < self._wanted(follower):
                subscriber.frame()
            assert places(subscriber.events) == follower.expected(self.bench.events), (
                subscriber.text
            )

    def _wanted(self, follower: Follower) -> int:
        return sum(map(follower.wants, self.bench.events))


@thinned("seed", range(40), count=2)
def test_subscribers_are_told_what_plain_lists_have(make_bench, seed):
    chance = Random(seed)
    bench = make_bench(
        shards=chance.choice((1, 1, 2)),
        queue_rows_max=chance.choice((2, 16, 8192)),
        rows_at_once=chance.choice((3, 50, 4096)),
        heartbeat_s=chance.choice((0.01, 15.0)),
    )
    scenario = Scenario(bench, chance)
    steps = [scenario.store] * 5 + [scenario.take] * 6 + [scenario.resume, scenario.define]
    for _ in range(40):
        chance.choice(steps)()
        if chance.random() < 0.1:
            chance.choice((scenario.reopen, scenario.keep_copy, scenario.put_back))()
    scenario.check()
    scenario.put_back()
    scenario.check()

"""The store against plain lists, under random commands, crashes and reopenings.

Goal: whatever is stored, in whatever order, each answer is that of plain lists, and what lies in
the streams is what the lists hold.

Method: a Hypothesis state machine over one store with three types. A command is done to the lists
and to the store, and both must answer alike: the position, or the same refusal. The process may die
before any writing call; then of each context of the command all is there or nothing, and the lists
follow what is found.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from storage_core.platform.overriding import override
from tests.events.store.bench import StoreBench, rows_of, stored
from tests.log.fixtures import MEMORY
from tests.thin import rounds
from typed_events.answer import Status

EXAMPLES = rounds("SHARDLOG_FAULT_EVENTS", few=8, many=200)
TYPES = ("order", "pay", "trip")
CONTEXTS = ("ann", "bob", "cid")


@dataclass(frozen=True)
class Event:
    """A STORE, in plain values; `ahead` is how far EXPECT is from what is right."""

    event_type: str
    context: str
    amount: int | str
    key: str | None
    ahead: int | None


@dataclass
class PlainStore:
    """What the store is, as lists."""

    events: dict[str, list[tuple[str, int]]] = field(
        default_factory=lambda: {name: [] for name in TYPES}
    )
    keys: dict[tuple[str, str, str], tuple[int, int]] = field(default_factory=dict)

    def count(self, context: str) -> int:
        """Return how many events a context has."""
        return sum(name == context for events in self.events.values() for name, _ in events)

    def copy(self) -> "PlainStore":
        """Return one that changes by itself."""
        return PlainStore({name: [*events] for name, events in self.events.items()}, {**self.keys})

    def take(self, unit: Sequence[tuple[Event, int | None]]) -> list[int] | Status:
        """Store events of one context, all or none; return their places, or why not."""
        after, places = self.copy(), []
        if any(not isinstance(event.amount, int) for event, _ in unit):
            return Status.BAD_REQUEST
        for event, expect in unit:
            key = (event.event_type, event.context, event.key or "")
            amount = int(event.amount)
            if event.key and key in after.keys:
                place, first = after.keys[key]
                if first != amount:
                    return Status.CONFLICT
                places.append(place)
                continue
            if expect is not None and after.count(event.context) != expect:
                return Status.CONFLICT
            places.append(len(after.events[event.event_type]))
            after.events[event.event_type].append((event.context, amount))
            if event.key:
                after.keys[key] = (places[-1], amount)
        self.events, self.keys = after.events, after.keys
        return places


events = st.builds(
    Event,
    st.sampled_from(TYPES),
    st.sampled_from(CONTEXTS),
    st.one_of(st.integers(0, 2), st.just("x")) | st.integers(0, 2),
    st.sampled_from([None, None, "k", "l"]),
    st.sampled_from([None, None, 0, 0, 1]),
)


class StoreAgainstLists(RuleBasedStateMachine):
    """Commands, done to both."""

    def __init__(self) -> None:
        """Begin with three types."""
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
        self.bench = StoreBench(Path(self._folder.name) / "root", contexts_cached=2)
        for name in TYPES:
            self.bench.define(name, amount="int")
        self.plain = PlainStore()

    @override
    def teardown(self) -> None:
        """Remove the store."""
        self.bench.close()
        self._folder.cleanup()

    @rule(event=events)
    def store(self, event: Event) -> None:
        """Do a STORE."""
        (pair,) = self.with_expect([event])
        expected = self.plain.take([pair])
        answer = self.bench.do(text_of(*pair))
        if isinstance(expected, Status):
            assert answer.status is expected, answer.message
            return
        assert [row["id"] for row in rows_of(answer)] == [f"0:{expected[0]}"]

    @rule(batch=st.lists(events, min_size=1, max_size=5))
    def batch(self, batch: list[Event]) -> None:
        """Do a BATCH."""
        pairs = self.with_expect(batch)
        expected: dict[str, list[int] | Status] = {}
        for context in dict.fromkeys(event.context for event in batch):
            unit = [pair for pair in pairs if pair[0].context == context]
            expected[context] = self.plain.take(unit)
        rows = rows_of(self.bench.do(batch_of(pairs)))
        for context, outcome in expected.items():
            ids = [row["id"] for row in rows if row["context_id"] == context]
            if isinstance(outcome, Status):
                assert set(ids) == {None}
            else:
                assert ids == [f"0:{place}" for place in outcome]

    @rule(batch=st.lists(events, min_size=1, max_size=4), call=st.integers(1, 12))
    def crash_in_batch(self, batch: list[Event], call: int) -> None:
        """Let the process die at a call of a BATCH; follow what is found."""
        pairs = self.with_expect(batch)
        self.bench.disk.crash_at = self.bench.disk.calls + call
        self.bench.do(batch_of(pairs))
        self.bench.crash()
        # It opens the streams, and finishes what was left.
        self.bench.do(stored("order", "ann", "EXPECT 1000000", amount=1))
        found_events = self.stored_events()
        for context in dict.fromkeys(event.context for event in batch):
            after = self.plain.copy()
            after.take([pair for pair in pairs if pair[0].context == context])
            if of_context(after.events, context) == of_context(found_events, context):
                self.plain.take([pair for pair in pairs if pair[0].context == context])
        # Places of different contexts are as they are found.
        assert self.plain.events == found_events

    @rule()
    def reopen(self) -> None:
        """Close the store and open it again."""
        self.bench.reopen()

    @invariant()
    def all_is_there(self) -> None:
        """Compare all events."""
        assert self.stored_events() == self.plain.events

    def with_expect(self, batch: Sequence[Event]) -> list[tuple[Event, int | None]]:
        """Return events with the number that each expects: that of now, or of one more."""
        counts = {context: self.plain.count(context) for context in CONTEXTS}
        return [
            (event, None if event.ahead is None else counts[event.context] + event.ahead)
            for event in batch
        ]

    def stored_events(self) -> dict[str, list[tuple[str, int]]]:
        """Return what lies in the streams."""
        return {
            name: [(context, fields["amount"]) for context, _, fields in self.bench.events(name)]
            for name in TYPES
        }


def of_context(
    stored_events: dict[str, list[tuple[str, int]]], context: str
) -> dict[str, list[int]]:
    return {
        name: [amount for one, amount in rows if one == context]
        for name, rows in stored_events.items()
    }


def text_of(event: Event, expect: int | None) -> str:
    clauses = f'IDEMPOTENCY "{event.key}" ' if event.key else ""
    clauses += "" if expect is None else f"EXPECT {expect}"
    return stored(event.event_type, event.context, clauses, amount=event.amount)


def batch_of(pairs: Sequence[tuple[Event, int | None]]) -> str:
    return f"BATCH [ {'; '.join(text_of(*pair) for pair in pairs)}; ]"


def test_store_answers_as_plain_lists_do() -> None:
    run_state_machine_as_test(
        StoreAgainstLists,
        settings=settings(max_examples=EXAMPLES, stateful_step_count=15, deadline=None),
    )

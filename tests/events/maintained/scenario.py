"""The vocabulary: a store of events that is asked, and all that becomes of its rows beside it.

scenario.store(); scenario.define()     events and versions at random, in a plain list as well
scenario.disturb()                      one of the things that become of rows
scenario.ask()                          one command at random, compared with the plain list
scenario.begin(); scenario.end()        answers whose rows are taken later
"""

import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any

from storage_core import Stream
from tests.events.query.drawn import CONTEXTS, Drawn, Kinds, merged_kinds
from tests.events.query.plain import position, rows_of
from tests.events.query.test_queries_at_random import are_alike, rows_in
from tests.events.store.bench import StoreBench
from tests.events.store.bench import rows_of as bench_rows
from tests.events.stored import FIRST_US, Event, Fields, time_of
from tests.events.subscriptions.subscribed import Subscriber
from tests.snapshots import copy_of
from typed_events.answer import Answer, Status
from typed_events.event_store import EventStore
from typed_events.language.commands import Query, Replay, Show
from typed_events.language.parse import parse
from typed_events.store.owned_streams import JOURNAL_STREAM

TYPES = ("order", "payment")
NAMES = ("one", "two", "three")


@dataclass
class PlainType:
    """What a type is.

    Attributes:
        events: Its events as they were stored.
        versions: The fields of each version.
        last_us: The time of the event that was stored last.
        floor_us: Before when events have expired.
    """

    events: list[Event] = field(default_factory=list)
    versions: list[Fields] = field(default_factory=list)
    last_us: int = 0
    floor_us: int = 0


class Scenario:
    """A store, the plain list of its events, and another process that only asks."""

    def __init__(self, bench: StoreBench, seed: int) -> None:
        self.bench = bench
        bench.clock.wall_ns = FIRST_US * 1000
        self.drawn = Drawn(seed)
        self.rng = self.drawn.rng
        self.copy: tuple[Path, dict[str, PlainType]] | None = None
        self.types = {name: PlainType() for name in TYPES}
        self.remembered: dict[str, Query] = {}
        self.subscriber: Subscriber | None = None
        self.all_places: set[tuple[str, int, int]] = set()
        self._begun: list[tuple[Query, Answer, list[Event]]] = []
        for name, plain in self.types.items():
            while not plain.versions:
                self.define(name)
        self.other = EventStore.open(bench.root)
        self.answers_compared = 0

    def close(self) -> None:
        for _, answer, _ in self._begun:
            answer.batches.close()  # type: ignore[attr-defined]
        if self.subscriber is not None:
            self.subscriber.close()
        self.other.close()

    # --- what is stored ----------------------------------------------------------------------

    def define(self, name: str | None = None) -> None:
        """Define the next version of a type; one that the rules refuse is none."""
        name = name or self.rng.choice(TYPES)
        versions = self.types[name].versions
        fields = self.drawn.changed(versions[-1]) if versions else self.drawn.fields()
        written = json.dumps(dict(fields))
        answer = self.bench.do(f"DEFINE {name} FIELDS {written}")
        assert answer.status in (Status.OK, Status.BAD_REQUEST), answer.message
        if answer.message.startswith("defined"):
            versions.append(fields)

    def store(self) -> None:
        """Store some events, each by itself or as a batch of one context."""
        is_batch = self.rng.random() < 0.3
        owner = self.rng.choice(CONTEXTS)
        texts: list[str] = []
        events: list[Event] = []
        for _ in range(self.rng.choice((1, 3, 40))):
            name = self.rng.choice(TYPES)
            context = owner if is_batch else self.rng.choice(CONTEXTS)
            version = self.rng.randint(1, len(self.types[name].versions))
            fields = self.drawn.event(self.types[name].versions[version - 1])
            payload = json.dumps(fields, default=_iso)
            texts.append(f"STORE {name} AS {version} FOR {json.dumps(context)} PAYLOAD {payload}")
            events.append({"context_id": context, "event_type": name, "version": version} | fields)
        for text in [f"BATCH [ {'; '.join(texts)} ]"] if is_batch else texts:
            answer = self.bench.do(text)
            assert answer.status is Status.OK, answer.message
            for row in bench_rows(answer):
                self._note(row["id"], events.pop(0))

    def _note(self, place: str, event: Event) -> None:
        time_us = max(self._now_us, 1 + max(plain.last_us for plain in self.types.values()))
        plain = self.types[event["event_type"]]
        plain.last_us = time_us
        self.all_places.add(_place_of({**event, "id": place}))
        plain.events = [*plain.events, {**event, "id": place, "timestamp": time_of(time_us)}]

    @property
    def _now_us(self) -> int:
        return self.bench.clock.now_ns() // 1000

    # --- what becomes of it --------------------------------------------------------------------

    def disturb(self) -> None:
        """Let something become of the rows."""
        steps = (self._seal, self._maintain, self._expire, self._retain, self._copy, self._restore)
        self.rng.choice((*steps, self._reopen))()

    def _seal(self) -> None:
        stream = self._stream(self.rng.choice(TYPES))
        for step in self.rng.sample(("seal", "compact", "trim"), 2):
            getattr(stream, step)()

    def _maintain(self) -> None:
        self.bench.store_of_events.maintain()
        for name in TYPES:
            self._note_floor(name)

    def _expire(self) -> None:
        name = self.rng.choice(TYPES)
        self._stream(name).expire()
        self._note_floor(name)

    def _retain(self) -> None:
        self.bench.clock.advance(1e-6 * self.rng.randint(1, 60))
        age = self.rng.choice((None, timedelta(microseconds=self.rng.randint(20, 200))))
        self._stream(self.rng.choice(TYPES)).alter(retention=age)

    def _reopen(self) -> None:
        self.end()
        self.bench.reopen()

    def _copy(self) -> None:
        """Copy one type, or both, while nobody has the store open: with the batches of then."""
        self.end()
        names = self.rng.choice((TYPES[:1], TYPES[1:], TYPES))
        self.bench.close()
        copies = Path(tempfile.mkdtemp(dir=self.bench.root.parent))
        for name in (*names, JOURNAL_STREAM):
            copy_of(self.bench.root / name, copies / name)
        self.copy = copies, {name: replace(self.types[name]) for name in names}
        self.bench.reopen()

    def _restore(self) -> None:
        """Put what was copied last in its place."""
        self.end()
        if self.copy is None:
            return
        copies, types = self.copy
        self.bench.close()
        for name in (*types, JOURNAL_STREAM):
            shutil.rmtree(self.bench.root / name)
            copy_of(copies / name, self.bench.root / name)
        self.bench.reopen()
        for name, plain in types.items():
            self.types[name] = replace(plain, versions=self.types[name].versions)
        self._unsubscribe()

    def _stream(self, name: str) -> Stream:
        writer: Any = self.bench.store_of_events._writer
        stream: Stream = writer.call(lambda streams: streams.by_type[name].stream)
        return stream

    def _note_floor(self, name: str) -> None:
        retention = self._stream(name).options.retention
        if retention is None:
            return
        plain = self.types[name]
        plain.floor_us = max(plain.floor_us, self._now_us - retention // timedelta(microseconds=1))
        floor = time_of(plain.floor_us)
        plain.events = [event for event in plain.events if event["timestamp"] >= floor]

    @property
    def events(self) -> list[Event]:
        """The events of all types in the order of their times."""
        together = [event for plain in self.types.values() for event in plain.events]
        return sorted(together, key=itemgetter("timestamp"))

    # --- who subscribes --------------------------------------------------------------------------

    def take(self) -> None:
        """Let a subscriber of the other process be told all that is there; begin one if need be."""
        if self.subscriber is None:
            name, context = self.rng.choice((*TYPES, "*")), self.rng.choice(("", "FOR a"))
            text = f"SUBSCRIBE {name} {context} FROM START"
            self.subscriber = Subscriber(self.other.subscribe(text), text)
        subscriber = self.subscriber
        _, name, *rest = subscriber.text.split()
        expected = {
            _place_of(event)
            for event in self.events
            if name in ("*", event["event_type"]) and (not rest or event["context_id"] == "a")
        }
        while not expected <= {*map(_place_of, subscriber.events)}:
            subscriber.frame()
        # What expired before it was read may be left out; nothing comes twice, or out of order.
        places = [*map(_place_of, subscriber.events)]
        assert {*places} <= self.all_places
        assert len({*places}) == len(places), subscriber.text
        shards = {(event_type, shard): address for event_type, shard, address in places}
        for key in shards:
            addresses = [place[2] for place in places if place[:2] == key]
            assert addresses == sorted(addresses), (subscriber.text, key)

    def _unsubscribe(self) -> None:
        if self.subscriber is not None:
            self.subscriber.close()
        self.subscriber = None
        self.all_places = {*map(_place_of, self.events)}

    # --- what is asked ---------------------------------------------------------------------------

    def ask(self) -> None:
        """Ask one thing, of the store or of another process, and compare the answer."""
        store = self.rng.choice((self.bench.store_of_events, self.other))
        self.rng.choice((self._query, self._query, self._replay, self._show))(store)

    def _query(self, store: EventStore) -> None:
        query = self._drawn_query()
        self._compare(query, store.execute_command(query), self._expected(query))

    def _drawn_query(self) -> Query:
        kinds = {name: self._kinds(name) for name in TYPES}
        name, other = self.rng.sample(TYPES, 2)
        if self.rng.random() < 0.3:
            return self.drawn.sequence(name, other, kinds)
        return self.drawn.query(name, kinds[name])

    def _kinds(self, name: str) -> Kinds:
        return merged_kinds(self.types[name].versions)

    def _expected(self, query: Query) -> list[Event]:
        return rows_of(query, self.events, {name: [*self._kinds(name)] for name in TYPES})

    def _replay(self, store: EventStore) -> None:
        context = self.rng.choice(CONTEXTS)
        name = self.rng.choice((*TYPES, None))
        answer = store.execute_command(Replay(context, name))
        if name is not None:
            query = Query(name, context)
            self._compare(query, answer, self._expected(query))
            return
        expected = [event["id"] for event in self.events if event["context_id"] == context]
        assert [row["id"] for row in rows_in(answer)] == expected, context

    def _show(self, store: EventStore) -> None:
        name = self.rng.choice(NAMES)
        query = self.remembered.get(name)
        if query is not None and self.rng.random() < 0.1:
            self._do(store, f"FORGET {name}")
            query = None
        if query is None:
            text = self._remembered_text()
            self._do(store, f"REMEMBER {text} AS {name}")
            parsed = parse(text)
            assert isinstance(parsed, Query)
            query = self.remembered[name] = parsed
        self._compare(query, store.execute_command(Show(name)), self._expected(query))

    def _remembered_text(self) -> str:
        name = self.rng.choice(TYPES)
        field = self.rng.choice([*self._kinds(name)])
        clauses = (
            *("", "FOR a", "WHERE version = 1 OR context_id = b", f"SINCE {FIRST_US + 50}"),
            *(f'WHERE "{field}" IS NULL', f'WHERE NOT "{field}" IS NULL RETURN ["{field}"]'),
        )
        return f"QUERY {name} {self.rng.choice(clauses)}".strip().replace('"', "")

    def _do(self, store: EventStore, text: str) -> None:
        answer = store.execute(text)
        assert answer.status is Status.OK, answer.message

    def begin(self) -> None:
        """Begin an answer, of which no row is taken yet."""
        query = self._drawn_query()
        store = self.bench.store_of_events
        answer = store.execute_command(query)
        assert answer.status is Status.OK, answer.message
        self._begun.append((query, answer, self._expected(query)))

    def end(self) -> None:
        """Take the rows of all answers that were begun: those of then."""
        begun, self._begun = self._begun, []
        for query, answer, expected in begun:
            self._compare(query, answer, expected)

    def _compare(self, query: Query, answer: Answer, expected: Sequence[Event]) -> None:
        assert answer.status is Status.OK, (answer.message, query)
        rows = rows_in(answer)
        self.answers_compared += 1
        assert are_alike(rows, [*expected]), (query, rows[:5], expected[:5])


def _place_of(event: Event) -> tuple[str, int, int]:
    """Return the type of an event, and its position."""
    return event["event_type"], *position(event)


def _iso(value: date) -> str:
    return value.isoformat()

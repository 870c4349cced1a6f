"""The vocabulary: writers that number their events, somebody who tends the streams, and readers.

Each writer has a context of its own and waits for each answer. So whoever sees one of its events
must see all before it, of all types: what is seen is a prefix, less what has expired.
"""

import json
import threading
from bisect import bisect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

from storage_core import Stream, SystemClock
from tests.events.store.bench import WAIT_MAX
from tests.events.stored import Event
from tests.events.subscriptions.subscribed import Subscriber
from typed_events.answer import Answer, Status
from typed_events.event_store import EventStore
from typed_events.store.options import EventStoreOptions

# Events of `order` expire, those of `payment` never do.
TYPES: Final = ("order", "payment")
LIVES: Final = timedelta(milliseconds=300)
MANY: Final = 1500
_CLOCK: Final = SystemClock()


@dataclass(frozen=True, slots=True)
class Numbered:
    """An event: the number that its writer gave it, its type, and when it was not there yet."""

    n: int
    event_type: str
    before_us: int


@dataclass
class Writer:
    """Who stores events of a context one after the other.

    Attributes:
        context: It.
        events: What it has sent, in its order.
        acknowledged: How many of them are stored for certain.
    """

    context: str
    events: list[Numbered] = field(default_factory=list)
    acknowledged: int = 0

    def numbers(self, event_type: str) -> list[int]:
        """Return the numbers of the events of a type."""
        return [event.n for event in self.events if event.event_type == event_type]

    def store(self, store: EventStore, types: Iterable[str], *, is_batch: bool = True) -> None:
        """Store events of these types, together or one by one."""
        now_us = _CLOCK.now_ns() // 1000
        first = len(self.events)
        self.events += [Numbered(first + n, name, now_us) for n, name in enumerate(types)]
        texts = [
            f"STORE {event.event_type} FOR {self.context} PAYLOAD {json.dumps({'n': event.n})}"
            for event in self.events[first:]
        ]
        for text in [f"BATCH [ {'; '.join(texts)} ]"] if is_batch else texts:
            answer = store.execute(text)
            assert answer.status is Status.OK, answer.message
        self.acknowledged = len(self.events)


class Round:
    """One round: a store with a past, and what is done to it at once."""

    def __init__(self, root: Path, seed: int) -> None:
        self.rng = Random(seed)
        shards = self.rng.choice((1, 2))
        options = EventStoreOptions(wait_max=WAIT_MAX, shards=shards)
        self.store = EventStore.open(root, options=options)
        self.writers = {name: Writer(name) for name in ("ann", "bob", "carl")}
        self.failures: list[str] = []
        self.asked = 0
        self._written = threading.Event()
        for name in TYPES:
            self._do(f'DEFINE {name} FIELDS {{ n: "int", note: "string | null" }}')
        for writer in self.writers.values():
            writer.store(self.store, self.rng.choices(TYPES, k=MANY))
        for name in ("payment", "order"):
            self._do(f"REMEMBER QUERY {name} AS all_{name}")
        self._do("REMEMBER QUERY payment FOR ann AS of_ann")
        self.other = EventStore.open(root)

    def _do(self, text: str) -> Answer:
        answer = self.store.execute(text)
        assert answer.status is Status.OK, answer.message
        return answer

    def close(self) -> None:
        self.other.close()
        self.store.close()

    def run(self, commands: int) -> None:
        """Let all go on at once until each writer has sent so many commands."""
        seeds = [self.rng.random() for _ in range(9)]
        writers = [
            self._thread(self._write, writer, commands, Random(seed))
            for writer, seed in zip(self.writers.values(), seeds, strict=False)
        ]
        others = [self._thread(self._tend, Random(seeds[3]))]
        for number, store in enumerate((self.store, self.store, self.other)):
            others.append(self._thread(self._ask, store, Random(seeds[4 + number])))
        others.append(self._thread(self._subscribe, self.other))
        for thread in writers:
            thread.join()
        self._written.set()
        for thread in others:
            thread.join()

    def _thread(self, function: Callable[..., None], *arguments: Any) -> threading.Thread:
        def run() -> None:
            try:
                function(*arguments)
            except BaseException as error:  # noqa: BLE001 - the scenario tells it
                self.failures.append(f"{function.__name__}: {error!r}")

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    # --- who changes it ------------------------------------------------------------------------

    def _write(self, writer: Writer, commands: int, rng: Random) -> None:
        for _ in range(commands):
            types = rng.choices(TYPES, k=rng.choice((1, 1, 2, 5)))
            writer.store(self.store, types, is_batch=rng.random() < 0.5)

    def _tend(self, rng: Random) -> None:
        self._stream("order").alter(retention=LIVES)
        while not self._written.is_set():
            stream = self._stream(rng.choice(TYPES))
            step = rng.choice(("seal", "seal", "compact", "trim", "expire", "maintain"))
            if step == "maintain":
                self.store.maintain()
            else:
                getattr(stream, step)()

    def _stream(self, name: str) -> Stream:
        writer: Any = self.store._writer
        stream: Stream = writer.call(lambda streams: streams.by_type[name].stream)
        return stream

    # --- who reads it --------------------------------------------------------------------------

    def _ask(self, store: EventStore, rng: Random) -> None:
        asks = [self._query, self._query_context, self._count, self._replay, self._show]
        asks.append(self._pairs)
        while not self._written.is_set():
            rng.choice(asks)(store, rng)
            self.asked += 1

    def _before(self) -> dict[str, int]:
        return {name: writer.acknowledged for name, writer in self.writers.items()}

    def _rows(self, store: EventStore, text: str) -> list[Event]:
        answer = store.execute(text)
        assert answer.status is Status.OK, (text, answer.message)
        return [row for batch in answer.batches for row in batch.to_pylist()]

    def _query(self, store: EventStore, rng: Random) -> None:
        name, before = rng.choice(TYPES), self._before()
        rows = self._rows(store, f"QUERY {name}")
        self._are_whole(f"QUERY {name}", rows, before, name)

    def _query_context(self, store: EventStore, rng: Random) -> None:
        name, context, before = rng.choice(TYPES), rng.choice([*self.writers]), self._before()
        text = f"QUERY {name} FOR {context} WHERE n >= 0"
        self._are_whole(text, self._rows(store, text), {context: before[context]}, name)

    def _replay(self, store: EventStore, rng: Random) -> None:
        context, before = rng.choice([*self.writers]), self._before()
        text = f"REPLAY FOR {context}"
        rows = [{**row, **json.loads(row["payload"])} for row in self._rows(store, text)]
        self._are_whole(text, rows, {context: before[context]})

    def _show(self, store: EventStore, rng: Random) -> None:
        name, before = rng.choice((*TYPES, "ann")), self._before()
        if name == "ann":
            rows = self._rows(store, "SHOW of_ann")
            self._are_whole("SHOW of_ann", rows, {"ann": before["ann"]}, "payment")
        else:
            self._are_whole("SHOW", self._rows(store, f"SHOW all_{name}"), before, name)

    def _count(self, store: EventStore, _: Random) -> None:
        before = self._before()
        rows = self._rows(store, "QUERY payment COUNT, COUNT UNIQUE n, MAX n BY context_id")
        for row in rows:
            payments = self.writers[row["context_id"]].numbers("payment")
            expected = bisect(payments, row["max_n"])
            assert row["count"] == row["count_unique_n"] == expected, (row, expected)
            assert expected >= bisect(payments, before[row["context_id"]] - 1), row

    def _pairs(self, store: EventStore, rng: Random) -> None:
        """Check that each order stands with the payment that is nearest to it."""
        context, word = rng.choice([*self.writers]), rng.choice(("FOLLOWED", "PRECEDED"))
        where = f"WHERE order.context_id = {context}"
        text = f"QUERY order {word} BY payment LINKED BY context_id {where}"
        rows = self._rows(store, text)
        payments = self.writers[context].numbers("payment")
        for row in rows:
            place = bisect(payments, row["order.n"]) - (word == "PRECEDED")
            assert row["payment.n"] == payments[place], (text, row, payments[place])

    def _subscribe(self, store: EventStore) -> None:
        subscriber = Subscriber(store.subscribe("SUBSCRIBE payment FROM START"), "payment")
        self._written.wait()
        wanted = sum(len(writer.numbers("payment")) for writer in self.writers.values())
        while len(subscriber.events) < wanted:
            subscriber.frame()
        subscriber.close()
        self._are_whole("SUBSCRIBE", subscriber.events, self._before(), "payment")

    def _are_whole(
        self, text: str, rows: list[Event], before: dict[str, int], event_type: str | None = None
    ) -> None:
        """Check that of each writer all is there up to some event, less what may have expired."""
        gone_us = _CLOCK.now_ns() // 1000 - LIVES // timedelta(microseconds=1)
        for context, acknowledged in before.items():
            numbers = [row["n"] for row in rows if row["context_id"] == context]
            assert numbers == sorted({*numbers}), (text, context, "twice or out of order")
            events = self.writers[context].events
            end = max([acknowledged, *(n + 1 for n in numbers)])
            # Of those that expire the oldest may be gone.
            oldest = min((n for n in numbers if events[n].event_type == "order"), default=end)
            expected = {
                event.n
                for event in events[:end]
                if event_type in (None, event.event_type)
                and (event.event_type == "payment" or event.before_us > gone_us or event.n > oldest)
            }
            lost = sorted(expected - {*numbers})
            assert not lost, (text, context, acknowledged, end, lost[:3], len(lost))

"""The vocabulary of the scenarios: a store of events that remembers queries, and its frames.

memory.store(3)                  three events more: `n` counts them, contexts are c-0 to c-2
memory.remember("WHERE n > 4")   a query that is called `mine`
memory.numbers()                   the numbers `n` that SHOW mine answers with
memory.frames(), memory.lists()  the files
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.events.store.bench import StoreBench, rows_of
from tests.log.parts.parts_lab import give_up_a_block
from typed_events.answer import Answer, Status
from typed_events.event_store import EventStore

CONTEXTS = 3


class Memory:
    """A store of events with one type, whose events are numbered."""

    def __init__(self, bench: StoreBench) -> None:
        self.bench = bench
        self.count = 0
        bench.define("order", n="int")

    @property
    def root(self) -> Path:
        return self.bench.root

    def do(self, text: str) -> Answer:
        """Do a command, which must go well."""
        answer = self.bench.do(text)
        assert answer.status is Status.OK, answer.message
        return answer

    def store(self, count: int = 1, **fields: Any) -> None:
        """Store events."""
        for _ in range(count):
            self.bench.must("order", f"c-{self.count % CONTEXTS}", n=self.count, **fields)
            self.count += 1

    def store_many(self, count: int) -> None:
        """Store events by one command."""
        stores = [
            f'STORE order FOR c-{n % CONTEXTS} PAYLOAD {{"n": {n}}};'
            for n in range(self.count, self.count + count)
        ]
        self.do(f"BATCH [ {' '.join(stores)} ]")
        self.count += count

    def remember(self, clauses: str = "", name: str = "mine") -> None:
        """Remember a query."""
        self.do(f"REMEMBER QUERY order {clauses} AS {name}")

    def rows(self, name: str = "mine", by: EventStore | None = None) -> list[dict[str, Any]]:
        """Return the rows of SHOW."""
        return rows_of(self._show(name, by))

    def numbers(self, name: str = "mine", by: EventStore | None = None) -> list[int]:
        """Return the numbers that SHOW answers with."""
        return [row["n"] for row in self.rows(name, by)]

    def message(self, name: str = "mine") -> str:
        """Return what SHOW says."""
        return self._show(name, None).message

    def _show(self, name: str, by: EventStore | None) -> Answer:
        answer = (by or self.bench.store_of_events).execute(f"SHOW {name}")
        assert answer.status is Status.OK, answer.message
        return answer

    # --- the stream ----------------------------------------------------------------------------

    def seal(self) -> None:
        """Let all rows be in parts alone."""
        stream = self._stream()
        stream.seal()
        stream.compact()
        stream.trim()

    def expire(self, age: timedelta) -> None:
        """Let events expire that are older than an age."""
        stream = self._stream()
        stream.alter(retention=age)
        stream.expire()
        stream.alter(retention=None)

    def give_up_rows(self) -> None:
        """Let some rows be lost, and accept that."""
        give_up_a_block(self._stream())

    def _stream(self) -> Any:
        writer: Any = self.bench.store_of_events._writer
        return writer.call(lambda streams: streams.by_type["order"].stream)

    # --- the files -----------------------------------------------------------------------------

    def frames(self) -> list[Path]:
        """Return the files of frames."""
        return sorted(self._directory().rglob("frame-*.arrow"))

    def lists(self) -> list[Path]:
        """Return the files of lists."""
        return sorted(self._directory().rglob("list-*.json"))

    def files(self) -> list[Path]:
        """Return all files of what is remembered."""
        return sorted(path for path in self._directory().rglob("*") if path.is_file())

    def _directory(self) -> Path:
        return self.root / "~remembered"

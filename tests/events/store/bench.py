"""The vocabulary of the scenarios: a store of events on a bench, used, broken and looked at.

bench.define("order", amount="int")            a version of a type
bench.store("order", "ann", amount=1)          an answer: `position_in(answer)`
bench.do("BATCH [ … ]")                        the answer to any command
bench.events("order")                          context, version and payload of each, in order
bench.crash(); bench.reopen()                  the process is gone; another opens the store
"""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from storage_core import StreamReader
from storage_core.avro import AvroSchema, decode_batch
from storage_core.testing import FaultyDisk, ManualClock
from typed_events.answer import Answer, Status
from typed_events.event_store import EventStore
from typed_events.store.options import EventStoreOptions

Event = tuple[str, int, Mapping[str, Any]]
FRAME = b"\xc3\x01"
# No wait of a test ends by this, however slow the machine is.
WAIT_MAX = timedelta(minutes=5)


class StoreBench:
    """A store of events on a disk that fails on cue, with a clock turned by hand."""

    def __init__(self, root: Path, **options: Any) -> None:
        self.root = root
        self.options = EventStoreOptions(**{"wait_max": WAIT_MAX, **options})
        self.clock = ManualClock()
        self.disk = FaultyDisk()
        self.store_of_events = self._opened()

    def _opened(self) -> EventStore:
        environment = self.disk.environment(self.clock)
        return EventStore.open(self.root, options=self.options, environment=environment)

    # --- commands --------------------------------------------------------------------------

    def do(self, text: str) -> Answer:
        """Do a command."""
        return self.store_of_events.execute(text)

    def define(self, event_type: str, **fields: str) -> Answer:
        """Define a version of a type; it must go well."""
        answer = self.do(f"DEFINE {event_type} FIELDS {json.dumps(fields)}")
        assert answer.status is Status.OK, answer.message
        return answer

    def store(self, event_type: str, context: str, clauses: str = "", **payload: Any) -> Answer:
        """Store an event."""
        return self.do(stored(event_type, context, clauses, **payload))

    def must(self, event_type: str, context: str, clauses: str = "", **payload: Any) -> str:
        """Store an event, which must go well; return its position."""
        return position_in(self.store(event_type, context, clauses, **payload))

    # --- what is there ---------------------------------------------------------------------

    def events(self, event_type: str) -> list[Event]:
        """Return the events of a type as another process reads them, in order of their places."""
        with StreamReader.open(self.root, event_type) as reader:
            schemas = {entry.fingerprint[:8]: entry.text for entry in reader.schemas()}
            rows = [
                row
                for shard, end in reader.committed().items()
                for batch in reader.tail(shard, 0, end)
                for row in batch.to_pylist()
            ]
        payloads = payloads_of([row["payload"] for row in rows], schemas)
        return [
            (row["key"].decode(), row["version"], payload)
            for row, payload in zip(rows, payloads, strict=True)
        ]

    def times(self, *event_types: str) -> list[int]:
        """Return the primaries of types, in order of their places."""
        times: list[Any] = []
        for event_type in event_types:
            with StreamReader.open(self.root, event_type) as reader:
                for shard, end in reader.committed().items():
                    for batch in reader.tail(shard, 0, end):
                        times += batch.column("primary").to_pylist()
        return times

    # --- ends and beginnings -----------------------------------------------------------------

    def reopen(self, **options: Any) -> None:
        """Close the store, and open it again."""
        self.close()
        if options:
            self.options = EventStoreOptions(**{"wait_max": WAIT_MAX, **options})
        self.disk = FaultyDisk()
        self.store_of_events = self._opened()

    def crash(self) -> None:
        """Let the process be gone, with what it had not given to the system, and open again."""
        writer: Any = self.store_of_events._writer
        # IMPORTANT: the writer's thread is dead before its streams are: one that sees that it is
        # closed closes what it has, which would commit, and beside another that closes it fails.
        with writer._changed:
            owned = [streams for streams in (writer._streams, writer._left) if streams is not None]
            writer._streams = writer._left = None
            writer._is_closed = True
            writer._changed.notify_all()
        if writer._thread is not None:
            writer._thread.join()
        for stream in [stream for streams in owned for stream in streams._open]:
            for shard in stream._shards.values():
                shard.abandon()
        self.disk.bury()
        self.reopen()

    def close(self) -> None:
        self.store_of_events.close()


def stored(event_type: str, context: str, clauses: str = "", **payload: Any) -> str:
    """Return the text of a STORE."""
    return f'STORE {event_type} FOR "{context}" PAYLOAD {json.dumps(payload)} {clauses}'.strip()


def position_in(answer: Answer) -> str:
    """Return the position that an answer has, once its message says the same."""
    assert answer.status is Status.OK, answer.message
    (row,) = rows_of(answer)
    assert answer.message == f"stored at {row['id']}"
    position: str = row["id"]
    return position


def rows_of(answer: Answer) -> list[dict[str, Any]]:
    """Return the rows of an answer."""
    return [row for batch in answer.batches for row in batch.to_pylist()]


def payloads_of(payloads: Sequence[bytes], schemas: Mapping[bytes, str]) -> list[dict[str, Any]]:
    """Return the fields of payloads, each by the schema that its frame names."""
    decoded: dict[int, dict[str, Any]] = {}
    for fingerprint, text in schemas.items():
        numbers = [n for n, payload in enumerate(payloads) if payload[:10] == FRAME + fingerprint]
        bodies: Any = pa.array([payloads[number] for number in numbers], pa.binary())
        table = decode_batch(bodies, AvroSchema.stored(text), starts=len(FRAME) + 8).table
        decoded |= zip(numbers, table.to_pylist(), strict=True)
    return [decoded[number] for number in range(len(payloads))]

"""What must be equal in the end: produced, stored, set aside, seen by Spark, counted, asked."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connectors.dlq.origin import split_origin
from connectors.kafka import Consumer, Partition, Place
from demo.job import COUNTS, TELEMETRY
from storage_core import State, StreamReader

DEAD_LETTER_TOPIC: Final = "telemetry.dlq"
_FETCH_RECORDS: Final = 10_000
_FETCH_WAIT_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Ledger:
    """Records at each station of their way.

    Attributes:
        produced: Acknowledged by the broker.
        stored: In the shards, and shown.
        expired: Gone from the shards by their age, or too old as they came.
        dead_letters: Records that no schema wrote: dead letters, by what the shards have counted.
        forwarded: Those of them in the dead-letter topic, each origin once.
        schemas: Schemas that the shards keep.
        late: Of those stored, the ones that came late.
        seen: Brought to Spark by the source.
        counted: The sum of the counts that went through the sink, read back.
        sql_rows: Counted in SQL over sealed files.
    """

    produced: int
    stored: int
    expired: int
    dead_letters: int
    forwarded: int
    schemas: int
    late: int
    seen: int
    counted: int
    sql_rows: int

    @property
    def is_balanced(self) -> bool:
        """Tell whether no record was lost or doubled on the way."""
        return (
            self.produced == self.stored + self.expired + self.dead_letters
            and self.dead_letters == self.forwarded
            and self.stored == self.seen == self.counted == self.sql_rows
        )

    def lines(self) -> list[str]:
        """Return it as a table."""
        rows = (
            ("produced, acknowledged by the broker", self.produced),
            ("stored in the shards", self.stored),
            ("  of them late, in their right place", self.late),
            ("  by so many versions of a schema", self.schemas),
            ("expired, older than the stream keeps", self.expired),
            ("dead letters, that no schema wrote", self.dead_letters),
            (f"  forwarded to {DEAD_LETTER_TOPIC}", self.forwarded),
            ("seen by Spark through the source", self.seen),
            ("counted, through the sink, read back", self.counted),
            ("counted in SQL over files of Parquet", self.sql_rows),
        )
        verdict = "balanced" if self.is_balanced else "DOES NOT BALANCE"
        width = max(len(text) for text, _ in rows)
        return [*(f"  {text:<{width}}  {count:>9,}" for text, count in rows), f"  {verdict}"]


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Dead letters, as the shards count them: ever kept, and kept still."""

    ever: int
    waiting: int


def read_ledger(root: Path, bootstrap: str, produced: int, seen: int, sql_rows: int) -> Ledger:
    """Count what lies in the streams, row by row, and in the dead-letter topic."""
    counted = 0
    expired, states = what_became(root)
    with StreamReader.open(root, COUNTS) as reader:
        for batch in reader.scan(columns=["payload"]):
            counts = pc.cast(pc.cast(batch.column("payload"), pa.string()), pa.int64())
            counted += pc.sum(counts).as_py() or 0
    with StreamReader.open(root, TELEMETRY) as reader:
        schemas = len(reader.schemas())
    return Ledger(
        produced,
        int(states.sum()),
        expired,
        dead_letters(root).ever,
        _forwarded(bootstrap),
        schemas,
        int(states[State.LATE]),
        seen,
        counted,
        sql_rows,
    )


def dead_letters(root: Path) -> DeadLetters:
    """Return what the shards have counted."""
    with StreamReader.open(root, TELEMETRY) as reader:
        stats = reader.stats()
    return DeadLetters(stats.dead_letters, stats.dead_letters - stats.dead_letters_cleared)


def _forwarded(bootstrap: str) -> int:
    """Return how many records lie in the dead-letter topic, each origin once."""
    origins = set()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "demo"})
    try:
        partition = Partition(DEAD_LETTER_TOPIC, 0)
        consumer.begin({partition: Place(0)})
        _, end = consumer.watermarks(partition)
        read = 0
        while read < end:
            for fetched, _ in consumer.fetch(_FETCH_RECORDS, _FETCH_WAIT_S):
                read += fetched.count
                headers = [] if fetched.headers is None else fetched.headers.to_pylist()
                for record_headers in headers:
                    origin = split_origin(
                        [(each["key"], each["value"]) for each in record_headers or ()]
                    )
                    if origin is not None:
                        origins.add((origin[1].partition, origin[1].offset))
    finally:
        consumer.close()
    return len(origins)


def what_became(root: Path) -> tuple[int, npt.NDArray[np.int64]]:
    """Return how many records have expired, and how many there are of each other state.

    What came before the floor had moved past it goes by windows, and the log begins behind it. What
    came after lies in the log, marked, until the log's start passes it. Offsets have no gaps here.
    """
    expired, states = 0, np.zeros(State.EXPIRED + 1, np.int64)
    with StreamReader.open(root, TELEMETRY) as reader:
        for shard in reader.committed():
            expired += reader.start(shard) - reader.born(shard)
            for batch in reader.tail(shard, columns=["state"]):
                states += np.bincount(batch.column("state").to_numpy(), minlength=len(states))
    return expired + int(states[State.EXPIRED]), states[: State.EXPIRED]

"""What must be equal in the end: produced, stored, set aside, seen by Spark, counted, asked."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from connectors.dlq.origin import split_origin
from connectors.kafka import Consumer, Partition, Place
from demo.job import COUNTS, TELEMETRY
from storage_core import State, StreamReader

DEAD_LETTER_TOPIC: Final = "telemetry.dlq"
_FETCH_RECORDS: Final = 10_000
_FETCH_WAIT_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Stored:
    """What lies in the streams of one disk, counted row by row.

    Attributes:
        rows: Rows that the shards show.
        late: Of those, the ones that came late.
        expired: Gone from the shards by their age, or too old as they came.
        dead_letters: Records that no schema wrote: dead letters, by what the shards have counted.
        schemas: Schemas that the shards keep.
        counted: The sum of the counts that went through the sink, read back.
    """

    rows: int
    late: int
    expired: int
    dead_letters: int
    schemas: int
    counted: int


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a worker on an empty disk has stored, after the other was lost.

    Attributes:
        rows: Rows that its shards show.
        late: Of those, the ones that are late there.
        lake_rows: Rows in the lake, counted by a program that knows nothing of shardlog.
        sql_rows: Counted in SQL over sealed files.
    """

    rows: int
    late: int
    lake_rows: int
    sql_rows: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """Records at each station of their way.

    Attributes:
        produced: Acknowledged by the broker.
        stored: What the shards had.
        forwarded: Dead letters in their topic, each origin once.
        seen: Rows brought to Spark by the source.
        recovered: What another disk has.
    """

    produced: int
    stored: Stored
    forwarded: int
    seen: int
    recovered: Recovered

    @property
    def is_balanced(self) -> bool:
        """Tell whether no record was lost or doubled on the way."""
        stored, again = self.stored, self.recovered
        return (
            self.produced == stored.rows + stored.expired + stored.dead_letters
            and stored.dead_letters == self.forwarded
            and stored.rows == self.seen == stored.counted
            and stored.rows == again.rows == again.lake_rows == again.sql_rows
            and stored.late == again.late
        )

    def lines(self) -> list[str]:
        """Return it as a table."""
        stored, again = self.stored, self.recovered
        rows = (
            ("produced, acknowledged by the broker", self.produced),
            ("stored in the shards", stored.rows),
            ("  of them late, in their right place", stored.late),
            ("  by so many versions of a schema", stored.schemas),
            ("expired, older than the stream keeps", stored.expired),
            ("dead letters, that no schema wrote", stored.dead_letters),
            (f"  forwarded to {DEAD_LETTER_TOPIC}", self.forwarded),
            ("seen by Spark through the source", self.seen),
            ("counted, through the sink, read back", stored.counted),
            ("stored on another disk, after the first was lost", again.rows),
            ("counted in the lake, by Delta's own reader", again.lake_rows),
            ("counted in SQL over files of Parquet", again.sql_rows),
        )
        verdict = "balanced" if self.is_balanced else "DOES NOT BALANCE"
        width = max(len(text) for text, _ in rows)
        return [*(f"  {text:<{width}}  {count:>9,}" for text, count in rows), f"  {verdict}"]


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Dead letters, as the shards count them: ever kept, and kept still."""

    ever: int
    waiting: int


def read_stored(root: Path) -> Stored:
    """Count what lies in the streams, row by row."""
    counted = 0
    expired, states = what_became(root)
    with StreamReader.open(root, COUNTS) as reader:
        for batch in reader.scan(columns=["payload"]):
            counts = pc.cast(pc.cast(batch.column("payload"), pa.string()), pa.int64())
            counted += pc.sum(counts).as_py() or 0
    with StreamReader.open(root, TELEMETRY) as reader:
        schemas = len(reader.schemas())
    rows, late = int(states.sum()), int(states[State.LATE])
    return Stored(rows, late, expired, dead_letters(root).ever, schemas, counted)


def read_recovered(root: Path, lake: Path, sql_rows: int) -> Recovered:
    """Count what another disk has, and the lake.

    Args:
        root: The disk.
        lake: Where the table is.
        sql_rows: How many rows SQL counts over the disk's files.
    """
    _, states = what_became(root)
    table = DeltaTable(lake).to_pyarrow_dataset()
    # A file goes from the table once all of it has expired; until then a reader filters.
    not_expired = pc.field("primary") >= _oldest(root)
    return Recovered(
        int(states.sum()), int(states[State.LATE]), table.count_rows(filter=not_expired), sql_rows
    )


def _oldest(root: Path) -> int:
    """Return the least time of the rows that are shown."""
    with StreamReader.open(root, TELEMETRY) as reader:
        times = [batch.column("primary") for batch in reader.scan(columns=["primary"])]
    return int(pc.min(pa.chunked_array(times)).as_py())


def dead_letters(root: Path) -> DeadLetters:
    """Return what the shards have counted."""
    with StreamReader.open(root, TELEMETRY) as reader:
        stats = reader.stats()
    return DeadLetters(stats.dead_letters, stats.dead_letters - stats.dead_letters_cleared)


def forwarded(bootstrap: str) -> int:
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

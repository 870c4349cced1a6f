"""The lab: a partition whose owner publishes, an heir that begins from the table, and a witness.

The witness has a root of its own and owns the partition all alone, from the first record on; what
the heir has is compared with what the witness has.

lab.fill(100)        the owner and the witness get rows of every kind; the owner seals them
lab.publish()        the owner publishes
lab.take_over()      the owner's disk is gone; the heir begins from the table, and owns it from then
lab.check()          the heir shows what the witness shows, whatever is asked
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from storage_core import Environment, Stream, StreamOptions, StreamOrigin, StreamReader
from storage_core.catalog.archived_shard import ArchivedShard
from storage_core.catalog.archived_shards import archived_shards
from storage_core.format.record import State
from storage_core.lake import check_lake
from storage_core.lake.beginning.begin import BegunShard, begin_from_lake
from storage_core.lake.publish import publish_stream
from storage_core.lake.publishing.report import ShardPublished
from storage_core.lake.target import LakeTarget
from storage_core.sql import connect
from storage_core.testing import ManualClock
from tests.lake.support.stores import DirectoryStore
from tests.log.parts.parts_lab import ENTRIES, FIRST_MS, IDS, PartsLab
from tests.log.workbench import batch_of, column_of, rows_of

NAME: Final = "telemetry"
SHARD: Final = 3
BORN: Final = 100
DAY_MS: Final = 86_400_000
ORIGIN: Final = StreamOrigin("kafka", NAME, "topic-id-1", "integer", "timestamp", "avro")
# One row in so many has an address that no record has before it, or a clock that is wrong.
_HOLES, _WRONG_CLOCKS = 11, 29
_COLUMNS: Final = (
    *("address", "primary", "version", "state", "late", "payload", "headers", "timestamp"),
    *("schema_id", "schema_fingerprint"),
)
_COUNTS: Final = (
    f'SELECT state, count(*), sum(address), sum("primary") FROM {NAME} GROUP BY 1 ORDER BY 1'
)
_RETENTION: Final = timedelta(minutes=10)
_STATES: Final = {"late": State.LATE, "ahead": State.AHEAD, "expired": State.EXPIRED}


class Records(PartsLab):
    """Records of a topic: rows of every kind, of which some are late."""

    def __init__(self, *, has_keys: bool) -> None:
        self.has_keys = has_keys
        self._count = 0


class Root:
    """A root with the stream."""

    def __init__(self, root: Path, environment: Environment, **options: Any) -> None:
        self.root = root
        self._environment = environment
        origin = ORIGIN
        if options.get("key_mode") == "dictionary":
            origin = replace(origin, key_mode="dictionary")
        self.stream = Stream.create(root, NAME, StreamOptions(**options), origin=origin)
        self.stream.close()

    def open(self) -> None:
        self.stream = Stream.open(self.root, NAME, [SHARD], environment=self._environment)

    def reader(self) -> closing[StreamReader]:
        return closing(StreamReader.open(self.root, NAME))

    def publish(self, **named: Any) -> ShardPublished:
        return publish_stream(self.root, NAME, **named).shards[SHARD]


class BeginningLab:
    """An owner, an heir, and the witness."""

    def __init__(self, place: Path, target: LakeTarget | None = None, **options: Any) -> None:
        self._place = place
        self.target = target or DirectoryStore(place).target()
        self.clock = ManualClock()
        # Windows are a minute wide then.
        self._options = {"block_records": 20, "retention": _RETENTION, **options}
        self._has_expired = False
        self.expired_at = 0
        self._has_keys = options.get("key_mode") == "dictionary"
        self._records = Records(has_keys=self._has_keys)
        self._rng = np.random.default_rng(11)
        self._next = BORN
        self._roots = 0
        self.owner = self.new_root()
        self.witness = self.new_root(lake=None)
        for root in (self.owner, self.witness):
            Stream.add_shards(root.root, NAME, {SHARD: BORN})
            root.open()

    def new_root(self, **options: Any) -> Root:
        """Return a root that none of the others sees, with the stream and no shard."""
        self._roots += 1
        environment = Environment(self.clock)
        named = {"lake": self.target.uri, **self._options, **options}
        return Root(self._place / f"root-{self._roots}", environment, **named)

    # --- what happens ----------------------------------------------------------------------

    def append(self, count: int) -> None:
        """Let the owner and the witness have the next records."""
        rows, addresses, dead = self._made(count)
        self.clock.advance(count)
        for root in (self.owner, self.witness):
            root.stream.append_batch(
                rows, shard=SHARD, addresses=addresses, schemas=ENTRIES, dead_letters=dead
            )
            root.stream.commit()

    def fill(self, count: int) -> None:
        """Let both have the next records; the owner seals its own."""
        self.append(count)
        self.owner.stream.seal()

    def publish(self) -> ShardPublished:
        """Publish what the owner has sealed."""
        return self.owner.publish()

    def published(self, *counts: int) -> None:
        """Let the owner publish batches of records, each sealed alone."""
        for count in counts:
            self.fill(count)
            self.publish()

    def expire(self, rows: int) -> None:
        """Let all but about the last so many rows expire, by their times."""
        self.expire_below(FIRST_MS + (self._records._count - rows) * 1000)

    def expire_below(self, primary: int) -> int:
        """Let all below a time expire; return of how many blocks the owner is rid."""
        self._has_expired = True
        self.expired_at = now = primary + _RETENTION // timedelta(milliseconds=1)
        reports = [root.stream.expire(now=now) for root in (self.owner, self.witness)]
        return reports[0].blocks

    def lose_owner(self) -> None:
        """Let the disk of the owner be gone."""
        for shard in self.owner.stream._shards.values():
            shard.abandon()
        shutil.rmtree(self.owner.root)

    def take_over(self, root: Root | None = None, **named: Any) -> BegunShard:
        """Let another root begin from the table, and own the partition from then on."""
        heir = root or self.new_root()
        begun = begin_from_lake(heir.root, NAME, [SHARD], **named)[SHARD]
        if self.owner is not heir:
            self.owner.stream.close()
        self.owner = heir
        heir.open()
        return begun

    def files(self) -> list[Path]:
        """Return the files that the table has of the partition, if it lies in a directory."""
        delta = DeltaTable(self.target.uri)
        place = self.target.directory
        assert place is not None
        return sorted(place / path for path in delta._table.get_add_file_sizes())

    def append_years(self, count: int) -> None:
        """Let the owner and the witness have rows of raw bytes, each a year after the other."""
        year = 365 * DAY_MS
        primaries = [FIRST_MS + (at - count) * year for at in range(count)]
        rows = batch_of(primaries, secondary=[at % IDS for at in range(count)])
        addresses = list(range(self._next, self._next + count))
        self._next += count
        for root in (self.owner, self.witness):
            root.stream.append_batch(rows, shard=SHARD, addresses=addresses)
            root.stream.commit()

    def append_columns(self, columns: dict[str, list[Any]]) -> None:
        """Let the owner and the witness have rows of raw bytes of some keys or ids."""
        count = max(len(column) for column in columns.values())
        primaries = [FIRST_MS + (self._next + at) * 1000 for at in range(count)]
        rows = batch_of(primaries, **columns)
        if self._has_keys:
            rows = rows.drop_columns(["secondary"])
        addresses = list(range(self._next, self._next + count))
        self._next += count
        for root in (self.owner, self.witness):
            root.stream.append_batch(rows, shard=SHARD, addresses=addresses)
            root.stream.commit()

    def append_dead_letter(self) -> None:
        """Let the owner and the witness have a record that can be no row."""
        for root in (self.owner, self.witness):
            root.stream.append_batch(
                batch_of([]), shard=SHARD, addresses=[], dead_letters={self._next: b"poison"}
            )
            root.stream.commit()
        self._next += 1

    def skip(self, count: int) -> int:
        """Let both pass over offsets that the source has no more; return where these end."""
        self._next = self.owner.stream.committed()[SHARD] + count
        for root in (self.owner, self.witness):
            root.stream.skip(SHARD, self._next, source={"next": self._next})
        return self._next

    def reopen(self) -> None:
        """Close the owner, and open it again."""
        self.owner.stream.close()
        self.owner.open()

    def close(self) -> None:
        """Close all that is open."""
        for root in (self.owner, self.witness):
            root.stream.close()

    def forget_runs(self) -> None:
        """Let the table be as an older shardlog published it: without heads runs."""
        assert self.target.directory is not None
        shutil.rmtree(self.target.directory / "_shardlog")

    # --- what is there ---------------------------------------------------------------------

    def check(self) -> None:
        """Compare what the owner shows with what the witness shows.

        Of rows that have expired a replay shows those whose blocks are there still; a table has no
        blocks.
        """
        for name in self._questions():
            actual, expected = (self._answer(root, name) for root in (self.owner, self.witness))
            assert actual == expected, name

    def states(self) -> set[str]:
        """Return what the rows of the witness were when they came."""
        with self.witness.reader() as reader:
            numbers = column_of(reader.tail(SHARD, columns=["state"]), "state")
        return {name for name, number in _STATES.items() if number in numbers}

    def start(self) -> int:
        """Return where the log of the owner begins."""
        return self.owner.stream._shards[SHARD].state().start

    def addresses(self) -> list[int]:
        """Return the addresses of the table's rows, as deltalake reads them."""
        rows = DeltaTable(self.target.uri).to_pyarrow_table(columns=["address"])
        addresses: list[Any] = rows.column("address").to_pylist()
        return sorted(addresses)

    def witness_addresses(self) -> list[int]:
        """Return the addresses of the rows that the witness shows."""
        with self.witness.reader() as reader:
            return sorted(column_of(reader.read(columns=["address"]), "address"))

    def sql(self, root: Root) -> list[tuple[Any, ...]]:
        """Return what SQL makes of the rows of a root."""
        with connect(root.root) as streams:
            answer: list[tuple[Any, ...]] = streams.sql(_COUNTS).fetchall()
        return answer

    def archived(self) -> list[ArchivedShard]:
        """Return the archived logs of the owner."""
        return list(archived_shards(self.owner.root, NAME))

    def out_of_order_file(self) -> Path:
        """Return a file of the table whose rows were late or ahead."""
        for file in self.files():
            if pq.read_metadata(file).num_rows and _is_out_of_order(file):
                return file
        raise AssertionError

    def check_rows(self, root: Root) -> None:
        """Compare the rows of a root with those that the witness shows."""
        assert self._answer(root, "tail") == self._answer(self.witness, "tail")

    def lake_problems(self) -> list[str]:
        """Return what `check` finds wrong with the table, as the owner sees it."""
        return [problem.message for problem in check_lake(self.owner.root, NAME).problems]

    def problems(self, *, reads_lake: bool = True) -> list[str]:
        """Return what verify finds wrong with the owner."""
        report = self.owner.stream.verify(reads_lake=reads_lake)
        return [str(problem) for problem in report.problems]

    def _questions(self) -> Iterator[str]:
        yield from ("read", "scan", "latest", "of an id", "between", "records", "facts")
        if not self._has_expired:
            yield "tail"

    def _answer(self, root: Root, name: str) -> Any:
        columns = [*_COLUMNS, "key" if self._has_keys else "secondary"]
        middle = FIRST_MS + self._records._count * 500
        of_one: dict[str, Any] = {"keys": [b"device-2"]} if self._has_keys else {"ids": [2]}
        with root.reader() as reader:
            answers: dict[str, Callable[[], Any]] = {
                "read": lambda: reader.read(columns=columns).to_pylist(),
                "tail": lambda: rows_of(reader.tail(SHARD, columns=columns)),
                "scan": lambda: rows_of(reader.scan(columns=columns)),
                "latest": reader.latest,
                "of an id": lambda: reader.read(**of_one, columns=columns).to_pylist(),
                "between": lambda: reader.read(
                    start=middle, end=middle + 40_000, columns=columns
                ).to_pylist(),
                "records": lambda: [str(record) for record in reader.rows.records(**of_one)],
                "facts": lambda: [
                    reader.committed(),
                    list(reader.shard(SHARD).dead_letters(0, None)),
                    reader.shard(SHARD).schemas(),
                    reader.gaps(),
                ],
            }
            return answers[name]()

    def _made(self, count: int) -> tuple[pa.RecordBatch, list[int], dict[int, bytes]]:
        """Return the next records: rows with addresses, and dead letters by theirs."""
        rows = self._records.made(self._rng, count)
        places = self._next + np.arange(count) + np.cumsum(np.arange(count) % _HOLES == _HOLES - 1)
        self._next = int(places[-1]) + 2
        primaries = rows.column("primary").to_numpy().copy()
        primaries[_WRONG_CLOCKS - 1 :: _WRONG_CLOCKS] += 40 * DAY_MS
        place = rows.schema.get_field_index("primary")
        rows = rows.set_column(place, "primary", pa.array(primaries))
        return rows, places.tolist(), {self._next - 1: b"poison %d" % self._next}


def _is_out_of_order(file: Path) -> bool:
    states = pq.ParquetFile(file).read(columns=["state"]).column("state")
    return all(states.to_pylist())

"""The lab: a topic's log whose schema has five versions, its table, and the truth as a plain list.

lab.append(VERSIONS[0])      values of a version, by keys beyond ASCII: some late, raw or tombstones
lab.publish()                what is there
lab.compact(), lab.expire(), lab.vacuum(), lab.let_go()
lab.take_over()              another root begins from the table, and is looked at from then on
lab.of_table(), lab.of_sql(), lab.of_log()      the rows that there must be, by each way to read
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

from storage_core import SchemaEntry, Stream, StreamOptions, StreamOrigin, StreamReader
from storage_core.avro import AvroSchema, encode_batch, frame_of
from storage_core.lake import (
    LakeTarget,
    PublishReport,
    begin_from_lake,
    check_lake,
    lake_target,
    publish_stream,
)
from storage_core.lake.app_id import stream_of
from storage_core.lake.delta.state import history_properties
from storage_core.lake.table import LakeTable
from storage_core.parts.part_home import is_here
from storage_core.platform.clock import SystemClock
from storage_core.testing import ManualClock
from tests.lake.engines.readings import Fields, Version, known_so_far
from tests.lake.readers.rows import rows_of

NAME: Final = "readings"
SHARDS: Final = (0, 3)
FIRST_MS: Final = 1_700_000_000_000
ENVELOPE: Final = ("shard", "address", "primary", "key", "state", "schema_id", "payload")
_ORIGIN: Final = StreamOrigin("kafka", NAME, "topic-id", "dictionary", "timestamp", "avro")
_KEYS: Final = ("gerät-1".encode(), "装置".encode(), b"\xff\0 raw", None)
_DAY_MS: Final = 86_400_000
_RETENTION: Final = timedelta(days=3)
# So much before the rows of the first day lie those that expire.
_OLD_DAYS: Final = 10
_LATE_MS: Final = 60_000
# One row in so many; none of them hides another kind.
_LATE, _RAW, _TOMBSTONE, _HOLE = 4, 7, 9, 5


Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Row:
    """A row that there must be.

    Attributes:
        envelope: What stands beside its value.
        payload: The bytes that were produced.
        table: What the table has of its value.
        sql: What SQL has.
    """

    envelope: Fields
    payload: bytes | None
    table: Fields
    sql: Fields


@dataclass(frozen=True, slots=True)
class Expected:
    """The rows that a reader must find.

    Attributes:
        rows: They, with bytes where no columns tell them.
        with_bytes: They, each with its bytes, as those have them whose columns tell only the value:
            where versions were merged.
    """

    rows: list[Fields]
    with_bytes: list[Fields]

    def faults_of(self, answer: Sequence[str]) -> list[tuple[str, str]]:
        """Return the rows of an answer that differ, as they are and as they should be."""
        rows, with_bytes = rows_of(self.rows), rows_of(self.with_bytes)
        places = zip_longest(answer, rows, with_bytes, fillvalue="none")
        return [(row, one) for row, one, other in places if row not in (one, other)]

    def without(self, places: Collection[Place]) -> "Expected":
        """Return the rows but for some."""
        return Expected(_without(self.rows, places), _without(self.with_bytes, places))

    @property
    def places(self) -> set[Place]:
        """The shards and addresses of the rows."""
        return {(row["shard"], row["address"]) for row in self.rows}


class EnginesLab:
    """A log, its table in a directory, and what there must be."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self.target: LakeTarget = lake_target(str(place / "lake"), {})
        self._options = StreamOptions(
            key_mode="dictionary",
            block_records=20,
            keep_replaced=timedelta(0),
            retention=_RETENTION,
            lake=self.target.uri,
        )
        self._rows: list[Row] = []
        self._versions: list[Version] = []
        self._next = dict.fromkeys(SHARDS, 50)
        self._heads: dict[tuple[int, bytes | None], int] = {}
        self._count = 0
        # The least primary of a row that has not expired; the table may have others.
        self.floor = 0
        self.root = self._new_root("first")
        Stream.add_shards(self.root, NAME, self._next)
        self.stream = Stream.open(self.root, NAME)

    def _new_root(self, name: str) -> Path:
        root = self._place / name
        Stream.create(root, NAME, self._options, origin=_ORIGIN).close()
        return root

    # --- what happens ----------------------------------------------------------------------

    def append(self, version: Version, count: int = 18, *, is_old: bool = False) -> None:
        """Append values of a version to each shard."""
        if version not in self._versions:
            self._versions.append(version)
        for shard in SHARDS:
            self._append(shard, version, count, -_OLD_DAYS * _DAY_MS if is_old else 0)
        self.stream.commit()

    def publish(self) -> PublishReport:
        """Seal all, and publish it."""
        self.stream.seal()
        return publish_stream(self.root, NAME)

    def compact(self) -> None:
        """Merge parts, and publish that."""
        assert self.stream.compact().parts_obsolete > 0
        self.publish()

    def expire(self) -> None:
        """Let the old rows expire, and publish that."""
        self.floor = FIRST_MS - _DAY_MS
        self._expire()
        self.publish()

    def _expire(self) -> None:
        self.stream.expire(now=self.floor + _RETENTION // timedelta(milliseconds=1))

    def vacuum(self, *, with_log: bool = True) -> None:
        """Delete what no version has that can be read, a day later.

        Args:
            with_log: Delete the commits too by which such versions were made.
        """
        ahead = ManualClock(SystemClock().now_ns() + _DAY_MS * 10**6)
        with StreamReader.open(self.root, NAME) as reader:
            table = LakeTable.open(self.target, stream_of(reader), clock=ahead)
        assert table is not None
        if with_log:
            table.expire_history(timedelta(0))
        else:
            properties = history_properties(timedelta(0))
            DeltaTable(self.target.uri).alter.set_table_properties(properties)
        assert table.vacuum(timedelta(0), dry_run=False)

    def take_over(self) -> None:
        """Let another root begin from the table, and do as its worker would."""
        self.stream.close()
        self.root = self._new_root("second")
        assert begin_from_lake(self.root, NAME, SHARDS).keys() == set(SHARDS)
        self.stream = Stream.open(self.root, NAME)
        # What had expired comes back, if nothing was published since.
        self._expire()

    def let_go(self) -> None:
        """Let only the lake have what is sealed."""
        self.stream.alter(keep_local=timedelta(0))
        self.publish()
        self.stream.trim()
        assert not all(is_here(part) for part in self.stream.parts())

    def close(self) -> None:
        """Close the log."""
        self.stream.close()

    # --- what there must be ----------------------------------------------------------------

    @property
    def table_columns(self) -> list[str]:
        """The columns that the table must have."""
        return [*ENVELOPE, *self._fields("table")]

    @property
    def sql_columns(self) -> list[str]:
        """The columns that SQL must have."""
        return [*ENVELOPE, *self._fields("sql")]

    def of_table(self) -> Expected:
        """Return the rows as the table has them."""
        return self._expected(self.table_columns, "table")

    def of_sql(self, columns: Sequence[str] | None = None) -> Expected:
        """Return the rows as SQL has them."""
        return self._expected(self.sql_columns if columns is None else columns, "sql")

    def of_log(self) -> Expected:
        """Return the rows as the log has them."""
        rows = [{**row.envelope, "payload": row.payload} for row in self._visible()]
        return Expected(rows, rows)

    def problems(self) -> list[str]:
        """Return what is wrong with the table, by its names and bytes."""
        report = check_lake(self.root, NAME, read=True)
        return [problem.message for problem in report.problems]

    def _visible(self) -> list[Row]:
        return [row for row in self._rows if row.envelope["primary"] >= self.floor]

    def _fields(self, kind: str) -> list[str]:
        of_versions = (getattr(version.value(0), kind) for version in self._versions)
        return list(dict.fromkeys(name for fields in of_versions for name in fields))

    def _expected(self, columns: Sequence[str], kind: str) -> Expected:
        rows: list[Fields] = []
        for row in self._visible():
            fields = known_so_far(kind, getattr(row, kind), self._versions)
            values = {**row.envelope, "payload": row.payload, **fields}
            rows.append({name: values.get(name) for name in columns})
        has_columns = [bool(row.table) for row in self._visible()]
        without = [
            {**row, "payload": None} if is_told else row
            for row, is_told in zip(rows, has_columns, strict=True)
        ]
        return Expected(without, rows)

    def _append(self, shard: int, version: Version, count: int, beside_ms: int) -> None:
        rows = [self._made(shard, version, n, beside_ms) for n in range(count)]
        values = [version.value(n).fields for n in range(count)]
        payloads = self._encoded(version, values)
        first = len(self._rows)
        for n, (envelope, has_value, left) in enumerate(rows):
            written = version.value(n)
            fields = (written.table, written.sql) if has_value else ({}, {})
            self._rows.append(Row(envelope, payloads[n] if has_value else left, *fields))
        made = self._rows[first:]
        columns: dict[str, Any] = {
            "primary": pa.array([row.envelope["primary"] for row in made], pa.int64()),
            "key": pa.array([row.envelope["key"] for row in made], pa.binary()),
            "payload": pa.array([row.payload for row in made], pa.binary()),
            "schema": pa.array([0 if row.table else None for row in made], pa.int32()),
        }
        entry = SchemaEntry(version.registry_id, version.schema.identity, version.schema.text)
        self.stream.append_batch(
            pa.RecordBatch.from_pydict(columns),
            shard=shard,
            addresses=np.array([row.envelope["address"] for row in made]),
            schemas=[entry],
        )

    def _made(
        self, shard: int, version: Version, n: int, beside_ms: int
    ) -> tuple[Fields, bool, bytes | None]:
        """Return what stands beside a row's value, whether it has one, and else its bytes."""
        self._count += 1
        self._next[shard] += 2 if n % _HOLE == _HOLE - 1 else 1
        key = _KEYS[n % len(_KEYS)]
        primary = FIRST_MS + beside_ms + self._count * 1000
        primary -= _LATE_MS if n // len(_KEYS) % _LATE == _LATE - 1 else 0
        head = self._heads.get((shard, key), primary)
        self._heads[shard, key] = max(head, primary)
        is_raw, is_gone = n % _RAW == _RAW - 1, n % _TOMBSTONE == _TOMBSTONE - 1
        has_value = not (is_raw or is_gone)
        envelope = {
            "shard": shard,
            "address": self._next[shard] - 1,
            "primary": primary,
            "key": key,
            "state": int(primary < head),
            "schema_id": version.registry_id if has_value else None,
        }
        return envelope, has_value, b"raw \xff" if is_raw else None

    def _encoded(self, version: Version, values: list[Fields]) -> list[bytes | None]:
        schema: AvroSchema = version.schema
        rows = pa.Table.from_pylist(values, schema.arrow_schema())
        frame = frame_of(schema, version.registry_id)
        payloads: list[bytes | None] = encode_batch(rows, schema, frame=frame).to_pylist()
        return payloads


def _without(rows: Sequence[Fields], places: Collection[Place]) -> list[Fields]:
    return [row for row in rows if (row["shard"], row["address"]) not in places]

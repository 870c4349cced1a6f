"""The lab: a stream with rows of every kind, and its rows as parts have them.

lab.append(rng, 200)      random rows: two schemas, raw values, tombstones, late rows, keys
lab.rows()                what was appended, by (shard, address), as the log tells it
lab.rows_of_parts()       the same from the parts: read by pyarrow, payloads made again
"""

import json
from collections.abc import Callable
from copy import copy
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from storage_core import Environment, SchemaEntry, Stream, StreamOptions, StreamReader
from storage_core.avro import AvroSchema, encode_batch, frame_of
from storage_core.engine import rocksdb
from storage_core.engine.key_value import Batch
from storage_core.export.manifest import FormatName
from storage_core.format.keys import PREFIX_PART
from storage_core.format.shard_state import AddressRange, ShardState
from storage_core.parts.part_file import write_part
from storage_core.parts.part_list import replace_parts
from storage_core.parts.payloads import payloads_of
from storage_core.parts.snapshot import Part, _part_lists
from storage_core.parts.typed_columns import Writer, columns_in, reader_schema
from storage_core.tiering.compact import next_parts
from tests.snapshots import copy_of

NAME = "telemetry"
FORMS: Final[list[FormatName]] = ["parquet", "avro", "jsonl"]
FIRST_MS = 1_700_000_000_000
IDS = 5
_FIELDS: list[dict[str, Any]] = [
    {"name": "temperature", "type": "double"},
    {"name": "version", "type": "string"},
    {"name": "tags", "type": {"type": "map", "values": "int"}},
]
_LATER = {"name": "humidity", "type": ["null", "double"], "default": None}
Row = dict[str, Any]


def schema_of(fields: list[dict[str, Any]], name: str = "Telemetry") -> AvroSchema:
    return AvroSchema.parse(json.dumps({"type": "record", "name": name, "fields": fields}))


SCHEMAS = (
    schema_of(_FIELDS),
    schema_of([*_FIELDS, _LATER]),
    schema_of([{"name": "level", "type": "int"}], "Alarm"),
)
ENTRIES = tuple(
    SchemaEntry(10 + number, schema.identity, schema.text) for number, schema in enumerate(SCHEMAS)
)
_RAW = len(SCHEMAS)
# A frame, and nothing of a body.
BROKEN = b"\x00\x00\x00\x00\x0a\xff"
COLUMNS = (
    *("shard", "address", "primary", "version", "state", "payload", "headers", "timestamp"),
    "schema_id",
)


class PartsLab:
    """A stream, its writer, and its rows in two ways."""

    def __init__(self, root: Path, environment: Environment | None = None, **options: Any) -> None:
        self.root = root
        self.has_keys = options.get("key_mode") == "dictionary"
        of_stream = StreamOptions(shards=2, **options)
        self.stream = Stream.create(root, NAME, of_stream, environment=environment)
        self._count = 0

    @property
    def id_column(self) -> str:
        return "key" if self.has_keys else "secondary"

    def copied_to(self, root: Path, environment: Environment | None = None) -> Self:
        """Return a lab over a copy of this one, whose stream is closed."""
        other = copy(self)
        other.root = copy_of(self.root, root)
        other.stream = Stream.open(root, NAME, environment=environment)
        return other

    def reopen(self) -> None:
        self.stream.close()
        self.stream = Stream.open(self.root, NAME)

    def append(self, rng: np.random.Generator, count: int) -> None:
        """Append and commit rows of every kind, of which one in ten is late."""
        self.stream.append_batch(self.made(rng, count), schemas=ENTRIES)
        self.stream.commit()

    def made(self, rng: np.random.Generator, count: int) -> pa.RecordBatch:
        """Return the next rows of every kind, of which one in ten is late."""
        numbers = np.arange(self._count, self._count + count)
        self._count += count
        times = FIRST_MS + numbers * 1000 - (rng.random(count) < 0.1) * 50_000
        ids = rng.integers(0, IDS, count)
        choice = rng.integers(0, _RAW + 1, count)
        payloads, schemas = self._values(rng, numbers, choice)
        columns: dict[str, Any] = {
            "primary": pa.array(times),
            "payload": pa.array(payloads, pa.binary()),
            "schema": pa.array(schemas, pa.int32()),
            "timestamp": pa.array(times, mask=rng.random(count) < 0.5),
        }
        if self.has_keys:
            keys = [None if one == 0 else b"device-%d" % one for one in ids]
            columns["key"] = pa.array(keys, pa.binary())
        else:
            columns["secondary"] = pa.array(ids.astype(np.int32))
        return pa.RecordBatch.from_pydict(columns)

    def _values(
        self, rng: np.random.Generator, numbers: np.ndarray, choice: np.ndarray
    ) -> tuple[list[bytes | None], list[int | None]]:
        payloads: list[bytes | None] = [b"raw %d" % number for number in numbers]
        schemas: list[int | None] = [None] * len(numbers)
        for number, schema in enumerate(SCHEMAS):
            index = np.flatnonzero(choice == number)
            frame = frame_of(schema, None if rng.random() < 0.2 else 10 + number)
            for place, body in zip(index, _bodies(rng, schema, len(index), frame), strict=True):
                payloads[place], schemas[place] = body, number
        for place in np.flatnonzero(rng.random(len(numbers)) < 0.05):
            # Neither says that the other is damaged: a tombstone, and a body that does not decode.
            payloads[place] = None if rng.random() < 0.5 else BROKEN
        return payloads, schemas

    def append_orders(self, count: int) -> None:
        """Append and commit rows of one id each of which has a number of its own."""
        schema = schema_of([{"name": "number", "type": "string"}], "Order")
        self.append_values(schema, [{"number": f"order-{at}"} for at in range(count)], 30)

    def append_values(self, schema: AvroSchema, values: list[Row], registry_id: int) -> None:
        """Append and commit values of a schema as rows of one id, a millisecond apart."""
        kinds: Any = schema.arrow_schema()
        rows = pa.Table.from_pylist(values, schema=kinds)
        self.append_bodies(schema, encode_batch(rows, schema, frame=b"").to_pylist(), registry_id)

    def append_bodies(self, schema: AvroSchema, bodies: list[Any], registry_id: int) -> None:
        """Append and commit bodies of a schema as rows of one id, a millisecond apart."""
        entry = SchemaEntry(registry_id, schema.identity, schema.text)
        frame = frame_of(schema, registry_id)
        columns: dict[str, Any] = {
            "primary": pa.array(range(FIRST_MS, FIRST_MS + len(bodies))),
            "secondary": pa.array([2] * len(bodies), pa.int32()),
            "payload": pa.array([frame + body for body in bodies], pa.binary()),
            "schema": pa.array([0] * len(bodies), pa.int32()),
        }
        self.stream.append_batch(pa.RecordBatch.from_pydict(columns), schemas=[entry])
        self.stream.commit()

    def rows_left(self, floor: int) -> list[Row]:
        """Return the rows that reads show above a floor."""
        columns = ["shard", "address", "primary", "state"]
        with StreamReader.open(self.root, NAME) as reader:
            return reader.read(start=floor, columns=columns).to_pylist()

    def rows(self) -> list[Row]:
        """Return all rows that are committed, by shard and address."""
        return rows_in(self.root, [*COLUMNS, "committed_at_ms", self.id_column])

    def rows_of_parts(self) -> list[Row]:
        """Return the rows of the parts, each with the payload that it came with."""
        writers = {
            number: Writer(AvroSchema.parse(item.text), item.registry_id)
            for number, item in enumerate(self.stream.schemas())
        }
        # Each shard is opened once.
        writers_of = cache(partial(self._writers_of, writers=writers))
        result: list[Row] = []
        for part in self.stream.parts():
            # As a data set, which `read_table` takes it for, it takes four times as long.
            table = pq.ParquetFile(part.path).read(use_threads=False)
            if part.entry.kind:
                table = _with_payloads(table, writers_of(part.shard))
            result += [
                {name: row.get(name) for name in (*COLUMNS, "committed_at_ms", self.id_column)}
                for row in table.to_pylist(maps_as_pydicts="strict")
            ]
        return sorted(result, key=_place)

    def joined_next(self, shard: int) -> list[Part]:
        """Return the parts of a shard that a compaction would join before others."""
        parts = [part for part in self.stream.parts() if part.shard == shard]
        scheme = self.stream._shards[shard].context.meta.scheme
        group = next_parts([part.entry for part in parts], scheme, lambda _: 0)
        return [part for part in parts if part.entry in group]

    def _writers_of(self, shard: int, writers: dict[int, Writer]) -> dict[int, Writer]:
        """Return the schemas by the numbers of a shard, which gives its own."""
        with StreamReader.open(self.root, NAME) as reader:
            entries = reader.shard(shard).schemas()
        by_id = {one.registry_id: one for one in writers.values()}
        return {number: by_id[one.registry_id] for number, one in enumerate(entries)}


def small_segments() -> Environment:
    """Return an environment whose stores begin a segment every hundred thousand bytes."""
    return Environment(
        open_store=partial(rocksdb.open_store, apart_bytes_min=1, segment_bytes=100_000)
    )


def take_entry_away(stream: Stream) -> None:
    """Take the entry of a part of each shard from its catalogue, as a hole in a log would."""
    for shard in stream._shards.values():
        view = shard.snapshots.committed()
        key = next(key for key, _ in view.meta_items(PREFIX_PART, None))
        view.close()
        batch = Batch()
        batch.delete(key)
        shard._store.write(batch)
    _part_lists.cache_clear()


def give_up_a_block(stream: Stream) -> dict[int, AddressRange]:
    """Let a block of each shard be lost, and given up by name; return their addresses."""
    blocks = {}
    for number, shard in stream._shards.items():
        view = shard.snapshots.committed()
        zones = list(view.zones(0, view.committed))
        # Small blocks that were trimmed have one zone.
        zone = zones[len(zones) // 3]
        view.close()
        blocks[number] = AddressRange(zone.first, zone.end)
        give_up(stream, number, blocks[number])
    return blocks


def give_up(stream: Stream, shard: int, lost: AddressRange) -> None:
    """Let addresses of a shard be lost, and given up by name."""
    stream._shards[shard].note_lost([lost], with_parts=True)
    stream.accept_loss(shard, lost.start, lost.end)


def forge(stream: Stream, part: Part, change: Callable[[pa.Table], pa.Table]) -> None:
    """Let a part have other rows, and the catalogue prove the file that has them."""
    shard = stream._shards[part.shard]
    rows = change(pq.read_table(part.path))
    part.path.unlink()
    proof = write_part(part.path, rows, ("primary",))
    other = replace(part.entry, **asdict(proof))

    def changed(state: ShardState, _window_now: object) -> tuple[Batch, ShardState]:
        batch = Batch()
        return batch, replace_parts(batch, state, [part.entry], [other])

    shard.commit_path.apply_change(changed)


def whole_rows(root: Path, id_column: str, name: str = NAME) -> list[Row]:
    """Return all rows that are committed in a stream, with all that they brought."""
    columns = (*COLUMNS, "timestamp_type", "schema_fingerprint", "key", id_column)
    return rows_in(root, list(dict.fromkeys(columns)), name)


def rows_in(root: Path, columns: list[str], name: str = NAME) -> list[Row]:
    """Return all rows that are committed in a stream, by shard and address."""
    with StreamReader.open(root, name) as reader:
        result = [
            row
            for shard in reader.committed()
            for batch in reader.tail(shard, columns=columns)
            for row in batch.to_pylist()
        ]
    return sorted(result, key=_place)


def facts_of(root: Path, name: str = NAME) -> list[Any]:
    """Return what a stream says of itself beside its rows, and its newest rows."""
    with StreamReader.open(root, name) as reader:
        shards = reader.committed()
        facts = [shards, reader.gaps(), reader.lost_ranges(), reader.options, reader.origin]
        facts += [(reader.born(one), reader.source(one)) for one in shards]
        return [*facts, reader.shard(0).schemas(), reader.latest()]


def _bodies(rng: np.random.Generator, schema: AvroSchema, count: int, frame: bytes) -> list[Any]:
    columns: dict[str, Any] = {
        "temperature": rng.choice([20.5, float("nan"), -0.0, 1e300], count),
        "version": [f"v{one}" for one in rng.integers(0, 3, count)],
        "tags": pa.array(
            [{"a": int(one)} if one else {} for one in rng.integers(0, 3, count)],
            pa.map_(pa.string(), pa.int32()),
        ),
        "humidity": pa.array(rng.random(count), mask=rng.random(count) < 0.5),
        "level": rng.integers(0, 9, count).astype(np.int32),
    }
    named = {field.name: columns[field.name] for field in schema.fields}
    return encode_batch(pa.table(named), schema, frame=frame).to_pylist()


def _with_payloads(table: pa.Table, writers: dict[int, Writer]) -> pa.Table:
    reader = reader_schema(writers, table.column("schema").to_numpy().tolist())
    columns = columns_in(reader, table.schema.names)
    if "payload" not in table.schema.names:
        table = table.append_column("payload", pa.nulls(len(table), pa.binary()))
    payloads = payloads_of(table, writers, columns, reader)
    index = table.schema.get_field_index("payload")
    return table.set_column(index, "payload", payloads)


def _place(row: Row) -> tuple[int, int]:
    return row["shard"], row["address"]

"""Write the golden store: a root that has every kind of row and file of format 1.

    python -m tests.golden.write FOLDER

It leaves two things in FOLDER:

* `store`, a root as a killed process left it:
  * `devices`, whose rows come from callers, in two shards. Rows of each state, versions,
    tombstones, the whole envelope, attachments, entries of the index, heads on disk; blocks of one
    row and of several, in RocksDB and in segments; rows that expired by window and by a cap;
    transactions by name and of a series, one that is staged and lands with the next opening, one
    that was written and not yet committed.
  * `readings`, a copy of a topic with keys and Avro values. Shard 0 has dead letters, a range that
    the topic no longer had and rows ahead of the clock; parts of rows in order and out of order,
    joined ones too, whose blocks were trimmed; and rows that are not sealed. Shard 5 was never
    opened.
  * `gone`, which was dropped.
* `store.json`, what a reader finds in it.

Names, lineages and ids are drawn from a seed, so that the same bytes come again.
"""

import json
import random
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from storage_core import (
    Environment,
    IndexOptions,
    SchemaEntry,
    StagingArea,
    Stream,
    StreamOptions,
    StreamOrigin,
    StreamReader,
    TransactionId,
    drop_stream,
)
from storage_core.avro import AvroSchema, encode_batch
from storage_core.testing import FaultyDisk, ManualClock, SimulatedCrash
from tests.log.workbench import settle
from tests.snapshots import snapshot

DEVICES, READINGS, GONE = "devices", "readings", "gone"
NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
LEFT_OUT = ("LOG*", "LOCK", "OPTIONS-*", "IDENTITY", "rocksdict-config.json", "owner.json")
INDEX = IndexOptions(spacing_min=2, spacing_max=2)
OF_DEVICES = StreamOptions(
    shards=2, jitter=5, retention=timedelta(days=2), block_records=1, codec="lz4", index=INDEX
)
OF_READINGS = StreamOptions(
    jitter=5, block_records=4, codec="zstd", key_mode="dictionary", index=INDEX
)
ORIGIN = StreamOrigin(
    "kafka", READINGS, "3fJdVhqTQ9uQz2o1Yb0mXw", "dictionary", "timestamp", "avro"
)
SERIES = [TransactionId("query", number) for number in range(2)]
STAGED, LANDING = TransactionId("staged"), "landing"
STAGED_ROWS, LANDING_ROWS = 2, 3
ATTACHED = (b"", b"mnext", b"anything")
COLUMNS = (
    *("shard", "secondary", "primary", "version", "address", "late", "payload", "state"),
    *("committed_at_ms", "key", "headers", "timestamp", "timestamp_type", "schema_id"),
)
KINDS: dict[str, pa.DataType] = {
    "primary": pa.int64(),
    "secondary": pa.int32(),
    "payload": pa.binary(),
    "version": pa.uint16(),
    "key": pa.binary(),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    "timestamp": pa.int64(),
    "timestamp_type": pa.int8(),
    "schema": pa.int32(),
}
SCHEMAS = [
    AvroSchema.parse(json.dumps({"type": "record", "name": "Level", "fields": fields}))
    for fields in (
        [{"name": "level", "type": "int"}],
        [{"name": "level", "type": "int"}, {"name": "unit", "type": "string", "default": "m"}],
    )
]
ENTRIES = [SchemaEntry(7 + at, one.identity, one.text) for at, one in enumerate(SCHEMAS)]
HEADERS = [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
Row = dict[str, Any]


@contextmanager
def same_chance() -> Iterator[None]:
    """Draw what is random from a seed, as long as it lasts."""
    chance = random.Random(35)
    usual = secrets.token_bytes, secrets.token_hex
    secrets.token_bytes = lambda nbytes=None: chance.randbytes(nbytes or 32)
    secrets.token_hex = lambda nbytes=None: chance.randbytes(nbytes or 32).hex()
    try:
        yield
    finally:
        secrets.token_bytes, secrets.token_hex = usual


def write(root: Path, disk: FaultyDisk) -> None:
    """Use streams as the text above says, up to the crash."""
    clock = ManualClock(wall_ns=NOW_MS * 10**6)
    environment = disk.environment(clock)
    Stream.create(root, GONE, StreamOptions(shards=1), environment=environment).close()
    drop_stream(root, GONE, environment=environment)
    _write_readings(root, environment)
    _write_devices(root, disk, environment)


def _write_devices(root: Path, disk: FaultyDisk, environment: Environment) -> None:
    Stream.create(root, DEVICES, OF_DEVICES, environment=environment).close()
    with Stream.open(root, DEVICES, environment=environment) as stream:
        for secondary in (0, 1):
            stream.append(NOW_MS, secondary, b"before what expires")
            stream.commit()
            stream.append(NOW_MS - 72 * HOUR_MS, secondary + 4, b"expires")
            stream.commit()
        for number in range(40):
            stream.append(NOW_MS + 10 * number, number % 4, b"block %d" % number, number % 3)
            if number % 4 == 3:
                stream.commit()
        stream.alter(block_records=4, records_max=64)
        stream.expire(NOW_MS)
        settle(stream)
    disk.apart_bytes_min = 1_500
    stream = Stream.open(root, DEVICES, environment=environment)
    attachments = [("default", key, b"attached") for key in ATTACHED]
    stream.append_batch(_envelope(), shard=1, attachments=attachments)
    large = bytes(range(200))
    rows = [{"primary": NOW_MS + 3_000 + at, "payload": large} for at in range(10)]
    stream.append_batch(_rows(rows))
    stream.append_batch(_rows([{"primary": NOW_MS + 4_000}]))
    stream.commit()
    stream.index.drain()
    for number in range(2):
        _transact(stream, f"named {number}", 5_000 + number)
    area = StagingArea.open(root, DEVICES)
    for transaction in SERIES:
        stage(area, transaction, 6_000)
        stream.finish_transactions()
    stream.expire(NOW_MS)
    settle(stream)
    stage(area, STAGED, 7_000)
    stream.alter(block_records=1)
    disk.crash_at = disk.calls + 2
    with suppress(SimulatedCrash), stream.transaction(LANDING, LANDING_ROWS) as landing:
        for number in range(LANDING_ROWS):
            landing.append_batch(_rows([{"primary": NOW_MS + 8_000 + number}]))


def _envelope() -> pa.RecordBatch:
    time, whole = NOW_MS + 1_000, {"headers": HEADERS, "key": b"key", "timestamp_type": 0}
    return _rows(
        [
            {"primary": time, "timestamp": time, **whole},
            {"primary": time - 3, "version": 1, "payload": b"absorbed"},
            {"primary": time - 500, "version": 2, "payload": b"late", "key": b"", "headers": []},
            {"primary": time + 1, "version": 65_535, "payload": None, "timestamp": -1},
            {"primary": time + 10**11, "secondary": 3, "payload": b"ahead"},
            {"primary": NOW_MS - 96 * HOUR_MS, "payload": b"expired as it came"},
        ]
    )


def _rows(rows: Iterable[Row]) -> pa.RecordBatch:
    usual: Row = {"secondary": 1, "payload": b"row", "version": 0}
    whole = [{**dict.fromkeys(KINDS), **usual, **row} for row in rows]
    return pa.RecordBatch.from_pylist(whole, pa.schema(list(KINDS.items())))


def _transact(stream: Stream, name: str, primary: int) -> None:
    """Write three batches, the last one in another shard; each batch is a write."""
    with stream.transaction(name, 3) as transaction:
        for secondary in (1, 1, 2):
            transaction.append(NOW_MS + primary, secondary, name.encode())


def stage(area: StagingArea, transaction: TransactionId, primary: int) -> None:
    """Publish a transaction of a row in each shard."""
    rows = [{"primary": NOW_MS + primary, "secondary": number} for number in range(STAGED_ROWS)]
    writer = area.writer(transaction)
    writer.write(_rows(rows).select(("primary", "secondary", "payload")))
    area.publish(transaction, writer.finish())


def _write_readings(root: Path, environment: Environment) -> None:
    Stream.create(root, READINGS, OF_READINGS, origin=ORIGIN).close()
    Stream.add_shards(root, READINGS, {0: 1000, 5: 7})
    with Stream.open(root, READINGS, [0], environment=environment) as stream:
        _feed(stream, 1000, 8)
        stream.seal()
        for number in range(5):
            _feed(stream, 1100 + 10 * number, 2)
            stream.seal()
        stream.compact()
        _feed(stream, 1200, 8)
        stream.seal()
        stream.trim()
        settle(stream)
        stream.clear_dead_letters(0, [1098])
    stream = Stream.open(root, READINGS, [0], environment=environment)
    _feed(stream, 1500, 5)
    stream.append_batch(
        _readings(1600, 2), shard=0, addresses=[1600, 1601], schemas=ENTRIES, source={"next": 1602}
    )


def _feed(stream: Stream, first: int, count: int) -> None:
    """Append some readings, a dead letter behind them; what the topic lost lies before them."""
    stream.skip(0, first, source={"next": first})
    addresses = [*range(first, first + count)]
    dead = {first + 98: b"poison"} if count == 8 else {}
    end = first + (99 if dead else count)
    stream.append_batch(
        _readings(first, count),
        shard=0,
        addresses=addresses,
        dead_letters=dead,
        schemas=ENTRIES,
        source={"next": end, "leader_epoch": 2},
    )
    stream.commit()


def _readings(first: int, count: int) -> pa.RecordBatch:
    """Return rows of three keys: some without a schema or late, one in eight ahead."""
    rows: list[Row] = []
    for number_ in range(count):
        number = number_ % 3 if number_ % 3 < len(SCHEMAS) else None
        payload: bytes | None = b"raw %d" % number_
        if number is not None:
            some = pa.table({"level": pa.array([number_], pa.int32()), "unit": ["m"]})
            some = some.select([one.name for one in SCHEMAS[number].fields])
            payload = encode_batch(some, SCHEMAS[number]).to_pylist()[0]
        moved = {3: -500, 7: 10**11}.get(number_, 0)
        row = {
            "primary": NOW_MS + 10 * first + number_ + moved,
            "payload": payload,
            "schema": number,
        }
        key = None if number_ == 4 else b"key %d" % (number_ % 2)
        rows.append({**row, "key": key, "timestamp": NOW_MS + number_, "timestamp_type": 0})
    return _rows(rows).drop_columns(["secondary"])


def open_later(root: Path, name: str) -> Stream:
    """Open a stream for writing at a moment that is always the same."""
    later = ManualClock(wall_ns=(NOW_MS + 60_000) * 10**6)
    return Stream.open(root, name, environment=Environment(clock=later, has_index_worker=False))


def said_by(stream: Stream | StreamReader) -> dict[str, Any]:
    """Return what a stream says, as JSON can hold it."""
    shards = sorted(stream.committed())
    rows = list(plain(stream.scan(columns=COLUMNS)))
    return {
        "committed": {str(shard): end for shard, end in stream.committed().items()},
        "sources": {str(shard): stream.source(shard) for shard in shards},
        "gaps": {str(shard): [*map(list, some)] for shard, some in stream.gaps().items()},
        "dead_letters": {
            str(shard): [[at, raw.hex()] for at, raw in stream.dead_letters(shard)]
            for shard in shards
        },
        "schemas": [[one.registry_id, one.text] for one in stream.schemas()],
        "parts": [[one.shard, one.path.name, one.entry.rows] for one in stream.parts()],
        "counts": [stream.stats().records, stream.stats().dead_letters],
        "rows": rows,
    }


def plain(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """Yield rows as JSON can hold them: bytes in hex."""
    for batch in batches:
        for row in batch.to_pylist():
            if row["headers"] is not None:
                row["headers"] = [[one["key"], _hex(one["value"])] for one in row["headers"]]
            yield row | {name: _hex(row[name]) for name in ("payload", "key")}


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def leave(folder: Path) -> Path:
    """Leave the store in a folder as a killed process left it, and return it."""
    with tempfile.TemporaryDirectory() as scratch, same_chance():
        live, disk = Path(scratch, "live"), FaultyDisk()
        write(live, disk)
        snapshot(live, folder / "store", ignore=shutil.ignore_patterns(*LEFT_OUT))
        disk.bury()
    return folder / "store"


def main(folder: Path) -> None:
    """Write the store and what it says into a folder where neither is yet."""
    store = leave(folder)
    with tempfile.TemporaryDirectory() as scratch:
        opened = shutil.copytree(store, Path(scratch, "opened"))
        answers = {}
        for name in (DEVICES, READINGS):
            with open_later(opened, name) as stream:
                answers[name] = said_by(stream)
    rows: Callable[[dict[str, Any]], str] = lambda said: ",\n".join(map(json.dumps, said["rows"]))  # noqa: E731 - a line
    texts = [
        f'"{name}": {json.dumps(said | {"rows": []})[:-3]}[\n{rows(said)}\n]}}'
        for name, said in answers.items()
    ]
    (folder / "store.json").write_text("{" + ",\n".join(texts) + "}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

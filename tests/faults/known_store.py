"""A small store of known rows with everything in it that a file can hold, and all there is to read.

`build_known_store` is a child process: it writes blocks of equal size, lanes with late rows,
explicit addresses with gaps, tombstones and transactions into two shards; small write buffers
give several SSTs in each family, and the blocks of the larger batches lie in segments. Then it
kills itself: WAL, MANIFEST and marker are those of a live store.

`observe` asks a writer or a reader everything it can be asked. Each answer is a short text; two
stores that answer alike hold the same rows.
"""

import os
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from storage_core import Environment, Stream, StreamOptions, StreamReader
from storage_core.engine.rocksdb import open_store
from tests.faults.workload import Row, feed_row, is_feed_gap, lane_row, transaction_rows
from tests.faults.writer import table_of

STREAM = "known"
SHARDS = 2
BLOCK_RECORDS = 64
_EVEN_BLOCKS = 6
_FEED_ROWS = 500
_LANE_ROWS = 500
_ROUNDS = 5
_APART_BYTES_MIN = 4096
_IDS = (0, 2, 5, 9)

Ask = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """Where the store is made."""

    root: Path


def build_known_store(plan: BuildPlan) -> None:
    """Write everything, commit, and die without closing."""
    store = partial(open_store, write_buffer_bytes=32 * 1024, apart_bytes_min=_APART_BYTES_MIN)
    environment = Environment(open_store=store)
    options = StreamOptions(shards=SHARDS, block_records=BLOCK_RECORDS)
    stream = Stream.create(plan.root, STREAM, options, environment=environment)
    for number in range(_ROUNDS):
        _write_round(stream, number)
    stream.commit()
    os.kill(os.getpid(), signal.SIGKILL)


def _write_round(stream: Stream, number: int) -> None:
    for block in range(_EVEN_BLOCKS):
        start = (number * _EVEN_BLOCKS + block) * BLOCK_RECORDS
        stream.append_batch(table_of([_even_row(start + i) for i in range(BLOCK_RECORDS)]))
    start = stream.commit()[1]
    addresses = [a for a in range(start, start + _FEED_ROWS // _ROUNDS) if not is_feed_gap(a)]
    rows = table_of([feed_row(address) for address in addresses])
    stream.append_batch(rows, shard=1, addresses=np.array(addresses, np.int64))
    lane = table_of([lane_row(number, i) for i in range(_LANE_ROWS // _ROUNDS)])
    for at in range(0, lane.num_rows, 50):
        stream.append_batch(lane.slice(at, 50))
        stream.commit()
    rows_of_transaction = transaction_rows(number)
    with stream.transaction(f"t{number}", len(rows_of_transaction)) as staged:
        staged.append_batch(table_of(rows_of_transaction))
    for i in range(30):
        stream.append(*lane_row(100 + number, i))


def _even_row(number: int) -> Row:
    """Return a row of a block that is as long as its neighbours: ids of shard 0, 32 bytes."""
    return Row(1_400_000_000_000 + number, 1000 + number % 8 * 2, number.to_bytes(32, "big"), 0)


def _digest(batches: Iterable[pa.RecordBatch]) -> str:
    taken = list(batches)
    columns = pa.Table.from_batches(taken).to_pydict() if taken else {}
    rows = sum(batch.num_rows for batch in taken)
    text = repr(sorted(columns.items()))
    return f"{rows} rows {xxhash.xxh3_64_hexdigest(text.encode())}"


def questions() -> dict[str, Ask]:
    """Return every read of a stream, by name."""
    middle = 1_500_000_000_000 + 40 * 100_000
    asks: dict[str, Ask] = {}
    asks["tail 0"] = lambda s: _digest(s.tail(0, 0))
    asks["tail 1"] = lambda s: _digest(s.tail(1, 0))
    asks["scan"] = lambda s: _digest(s.scan())
    asks["read"] = lambda s: _digest(s.read().to_batches())
    asks["read ids"] = lambda s: _digest(s.read(list(_IDS), middle).to_batches())
    asks["read one"] = lambda s: _digest(s.read(1004, limit=7).to_batches())
    asks["latest"] = lambda s: repr(sorted(s.latest().items()))
    asks["latest of"] = lambda s: repr(sorted(s.latest([0, 1, 1002]).items()))
    asks["earliest"] = lambda s: repr(s.earliest(list(_IDS), middle))
    asks["available"] = lambda s: _available(s, middle)
    asks["for each"] = _each
    return asks


def _available(stream: Stream, middle: int) -> str:
    end, rows = stream.available(list(_IDS), middle, 5_000_000)
    return f"{end} {_digest(rows.to_batches())}"


def _each(stream: Stream) -> str:
    records: list[str] = []
    stream.for_each([1, 4], None, None, lambda record: records.append(repr(record)))
    text = "".join(records)
    return f"{len(records)} records {xxhash.xxh3_64_hexdigest(text.encode())}"


def observe(source: Stream | StreamReader) -> dict[str, str]:
    """Ask everything; nothing may fail."""
    return {name: ask(source) for name, ask in questions().items()}

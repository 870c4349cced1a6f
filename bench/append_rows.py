"""Durable appends of large batches, against plain RocksDB and a raw segment file.

All write the same blocks of the same records, and each batch is durable before the next. A
commit of ours makes two syncs, the WAL and then the marker, so the peers do two as well: the
blocks, and a small side file. What they do with one sync is reported beside it.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa

from bench.measure import Contestant, Experiment, Measured, Row, latencies
from bench.peers import (
    SegmentFile,
    SideFile,
    differing_options,
    encoded_blocks,
    plain_store,
)
from bench.records import record_batches
from bench.workspace import empty_directory
from storage_core import Stream, StreamOptions

BATCHES: Final = 200
BATCH_ROWS: Final = 10_000
_OPTIONS: Final = StreamOptions(shards=1)
_Blocks = Sequence[Sequence[tuple[bytes, bytes]]]


def append_batches(
    path: Path, batches: Sequence[pa.RecordBatch], options: StreamOptions = _OPTIONS
) -> Measured:
    """Append and commit each batch to a new stream; return rate and latencies of commits."""
    seconds = []
    with Stream.create(path, "bench", options) as stream:
        for batch in batches:
            start = time.perf_counter()
            stream.append_batch(batch)
            stream.commit()
            seconds.append(time.perf_counter() - start)
        rows = sum(batch.num_rows for batch in batches)
        assert stream.committed() == {0: rows}
    return {"rate": rows / sum(seconds), **latencies(seconds)}


def _put_blocks(path: Path, blocks: _Blocks, *, syncs_side: bool) -> Measured:
    seconds = []
    with closing(SideFile(path / "side")) as side, plain_store(path / "db") as store:
        for items in blocks:
            start = time.perf_counter()
            store.put_durably(items)
            if syncs_side:
                side.sync()
            seconds.append(time.perf_counter() - start)
        assert sum(1 for _ in store.value_sizes()) == sum(map(len, blocks))
    return {"rate": BATCHES * BATCH_ROWS / sum(seconds), **latencies(seconds)}


def _write_segment(path: Path, blocks: _Blocks, *, syncs_side: bool) -> Measured:
    seconds = []
    with closing(SideFile(path / "side")) as side, closing(SegmentFile(path / "data")) as segment:
        for items in blocks:
            start = time.perf_counter()
            segment.append([value for _, value in items])
            if syncs_side:
                side.sync()
            seconds.append(time.perf_counter() - start)
    size = sum(len(value) for items in blocks for _, value in items)
    assert (path / "data").stat().st_size == size
    return {"rate": BATCHES * BATCH_ROWS / sum(seconds), **latencies(seconds)}


@contextmanager
def _contestants(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    batches = list(record_batches(BATCHES, BATCH_ROWS))
    blocks = encoded_blocks(batches, _OPTIONS)
    _check_peer(workspace, batches[:1], blocks[:1])

    def ours() -> Measured:
        with empty_directory(workspace) as path:
            return append_batches(path, batches)

    def rocksdb(*, syncs_side: bool) -> Measured:
        with empty_directory(workspace) as path:
            return _put_blocks(path, blocks, syncs_side=syncs_side)

    def segment(*, syncs_side: bool) -> Measured:
        with empty_directory(workspace) as path:
            return _write_segment(path, blocks, syncs_side=syncs_side)

    yield {
        "ours": ours,
        "rocksdict": lambda: rocksdb(syncs_side=True),
        "raw file": lambda: segment(syncs_side=True),
        "rocksdict, one sync": lambda: rocksdb(syncs_side=False),
        "raw file, one sync": lambda: segment(syncs_side=False),
    }


def _check_peer(workspace: Path, batches: Sequence[pa.RecordBatch], blocks: _Blocks) -> None:
    """Hold the plain store to the options of a shard's."""
    with empty_directory(workspace) as path:
        append_batches(path, batches)
        _put_blocks(path, blocks, syncs_side=False)
        differing = differing_options(path / "bench" / "shard-0000" / "db", path / "db")
    if differing:
        message = "the plain store has other options than a shard's: " + "; ".join(differing)
        raise RuntimeError(message)


_WHAT: Final = "durable append of 10,000-record batches of 100-byte payloads, one shard"
APPEND: Final = Experiment(
    "append",
    (
        Row(
            "append/rocksdict",
            f"{_WHAT}, against plain rocksdict puts of the same blocks with two syncs",
            ("ours", "rate"),
            ("rocksdict", "rate"),
            limit=0.6,
            wanted=0.9,
        ),
        Row(
            "append/raw",
            "the same against one raw segment file with as many fdatasyncs",
            ("ours", "rate"),
            ("raw file", "rate"),
            limit=0.15,
            wanted=0.25,
        ),
        Row(
            "append/p99",
            "its p99 / p50",
            ("ours", "p99"),
            ("ours", "p50"),
            "at most",
            limit=8,
            wanted=3,
        ),
        Row(
            "append/rocksdict-p99",
            "p99 / p50 of the plain rocksdict puts, for comparison",
            ("rocksdict", "p99"),
            ("rocksdict", "p50"),
            "at most",
        ),
        Row(
            "append/rocksdict-one-sync",
            "against rocksdict that syncs once where we sync twice",
            ("ours", "rate"),
            ("rocksdict, one sync", "rate"),
        ),
        Row(
            "append/raw-one-sync",
            "against a raw segment file that syncs once where we sync twice",
            ("ours", "rate"),
            ("raw file, one sync", "rate"),
        ),
    ),
    _contestants,
)

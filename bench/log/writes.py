"""Appends: durable large batches, single records, and the latency of one durable record.

A commit of ours makes two syncs, the WAL and then the marker, so the peers do two as well: plain
RocksDB and a raw segment file write the same blocks of the same records, and a small side file.
One durable record is set against two bare syncs: an append of as many bytes as one record costs
in our WAL, and the side file. Its ids have been seen before the clock starts, as in a stream that
has run for a while.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa

from bench.log.peers import Blocks, SegmentFile, SideFile, new_stream, plain_store
from bench.measure import Contestant, Experiment, Measured, Row, latencies, timed
from bench.records import DEVICES, FIRST_PRIMARY, payload_array, record_batches
from bench.workspace import empty_directory

_BATCHES: Final = 200
_BATCH_ROWS: Final = 10_000
_RECORDS: Final = 500_000
_COMMIT_EVERY: Final = 10_000
_DURABLE_RECORDS: Final = 400
_ONE_RECORD_BYTES: Final = 744
_POOL: Final = 1024


@contextmanager
def _append(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    batches = list(record_batches(_BATCHES, _BATCH_ROWS))
    blocks = _blocks_of(workspace, batches)

    def ours() -> Measured:
        with empty_directory(workspace) as path:
            return _append_batches(path, batches)

    def rocksdict() -> Measured:
        with empty_directory(workspace) as path:
            return _put_blocks(path, blocks)

    def raw_file() -> Measured:
        with empty_directory(workspace) as path:
            return _write_segment(path, blocks)

    yield {"ours": ours, "rocksdict": rocksdict, "raw file": raw_file}


def _append_batches(path: Path, batches: Sequence[pa.RecordBatch]) -> Measured:
    seconds = []
    with new_stream(path) as stream:
        for batch in batches:
            start = time.perf_counter()
            stream.append_batch(batch)
            stream.commit()
            seconds.append(time.perf_counter() - start)
        rows = sum(batch.num_rows for batch in batches)
        assert stream.committed() == {0: rows}
    return {"rate": rows / sum(seconds), **latencies(seconds)}


def _blocks_of(workspace: Path, batches: Sequence[pa.RecordBatch]) -> list[Blocks]:
    """Return for each batch the keys and blocks that a shard holds for it, as many for each."""
    with empty_directory(workspace) as path, plain_store(path, batches) as store:
        items = store.items()
    size, rest = divmod(len(items), len(batches))
    assert not rest
    assert sum(len(value) for _, value in items) > sum(batch.nbytes for batch in batches) // 2
    return [items[at : at + size] for at in range(0, len(items), size)]


def _put_blocks(path: Path, blocks: Sequence[Blocks]) -> Measured:
    seconds = []
    with closing(SideFile(path / "side")) as side, plain_store(path) as store:
        for items in blocks:
            start = time.perf_counter()
            store.put_durably(items)
            side.sync()
            seconds.append(time.perf_counter() - start)
        assert sum(1 for _ in store.value_sizes()) == sum(map(len, blocks))
    return {"rate": _BATCHES * _BATCH_ROWS / sum(seconds)}


def _write_segment(path: Path, blocks: Sequence[Blocks]) -> Measured:
    seconds = []
    with closing(SideFile(path / "side")) as side, closing(SegmentFile(path / "data")) as segment:
        for items in blocks:
            start = time.perf_counter()
            segment.append([value for _, value in items])
            side.sync()
            seconds.append(time.perf_counter() - start)
    size = sum(len(value) for items in blocks for _, value in items)
    assert (path / "data").stat().st_size == size
    return {"rate": _BATCHES * _BATCH_ROWS / sum(seconds)}


@contextmanager
def _single(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    payloads = payload_array(_POOL, 100, seed=1).to_pylist()
    ids = [number * 617 % DEVICES for number in range(_POOL)]

    def ours() -> Measured:
        with empty_directory(workspace) as path, new_stream(path) as stream:
            append = stream.append
            with timed(_RECORDS) as measured:
                for first in range(FIRST_PRIMARY, FIRST_PRIMARY + _RECORDS, _COMMIT_EVERY):
                    for primary in range(first, first + _COMMIT_EVERY):
                        index = primary % _POOL
                        append(primary, ids[index], payloads[index])
                    stream.commit()
            assert stream.committed() == {0: _RECORDS}
        return measured

    yield {"ours": ours}


@contextmanager
def _durable(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    payload = payload_array(1, 100, seed=1)[0].as_py()
    (batch,) = record_batches(1, 10 * DEVICES, shuffled=False)

    def ours() -> Measured:
        seconds = []
        with empty_directory(workspace) as path, new_stream(path) as stream:
            stream.append_batch(batch)
            stream.commit()
            for number in range(batch.num_rows, batch.num_rows + _DURABLE_RECORDS):
                start = time.perf_counter()
                stream.append(FIRST_PRIMARY + number, number % DEVICES, payload)
                stream.commit()
                seconds.append(time.perf_counter() - start)
            assert stream.committed() == {0: batch.num_rows + _DURABLE_RECORDS}
        return latencies(seconds)

    def bare() -> Measured:
        seconds = []
        with (
            empty_directory(workspace) as path,
            closing(SideFile(path / "side")) as side,
            closing(SegmentFile(path / "data")) as segment,
        ):
            piece = [bytes(_ONE_RECORD_BYTES)]
            for _ in range(_DURABLE_RECORDS):
                start = time.perf_counter()
                segment.append(piece)
                side.sync()
                seconds.append(time.perf_counter() - start)
        return latencies(seconds)

    yield {"ours": ours, "two bare syncs": bare}


_MEASURED: Final = "durable append of 10,000-record batches of 100-byte payloads, one shard"
APPEND: Final = Experiment(
    "append",
    (
        Row(
            "append/rocksdict",
            f"{_MEASURED}, against plain rocksdict puts of the same blocks with two syncs",
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
    ),
    _append,
)
SINGLE: Final = Experiment(
    "single",
    (
        Row(
            "single/rate",
            "single-record `append`, 100-byte payloads, 1,000 ids, committed every 10,000",
            ("ours", "rate"),
            limit=300_000,
            wanted=600_000,
        ),
        Row(
            "single/cpu",
            "the same by processor time, RocksDB's threads included",
            ("ours", "cpu_rate"),
        ),
    ),
    _single,
)
DURABLE: Final = Experiment(
    "durable",
    (
        Row(
            "durable/p50",
            "one durable append of one record, p50, against two bare fdatasyncs",
            ("ours", "p50"),
            ("two bare syncs", "p50"),
            "at most",
            limit=2.6,
            wanted=1.5,
        ),
        Row(
            "durable/p99",
            "the same, p99 against p99",
            ("ours", "p99"),
            ("two bare syncs", "p99"),
            "at most",
        ),
    ),
    _durable,
)

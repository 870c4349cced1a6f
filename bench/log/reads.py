"""Reads: full scans, ranges of one id among a thousand, committed from another process.

All is in the page cache; what is measured is the way from there to Arrow.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from bench.child import answer_of, child_process
from bench.log.peers import ONE_SHARD, new_stream, plain_store
from bench.measure import Contestant, Experiment, Measured, Row, latencies, timed
from bench.records import DEVICES, FIRST_PRIMARY, payload_array, record_batches
from bench.workspace import await_compaction, empty_directory
from storage_core import Stream, StreamReader

_SCAN_ROWS: Final = 5_000_000
_SCAN_BATCH_ROWS: Final = 50_000
_RANGE_ROWS: Final = 100
_RANGE_READS: Final = 200
_RANGE_STREAM_ROWS: Final = 1_000_000
_COMMITTED_LOOKS: Final = 4000
_LOOKS_MAX: Final = 1_000_000


@contextmanager
def _scan(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    batches = partial(record_batches, _SCAN_ROWS // _SCAN_BATCH_ROWS, _SCAN_BATCH_ROWS)
    with plain_store(workspace, batches()) as plain, new_stream(workspace) as stream:
        for batch in batches():
            stream.append_batch(batch)
            stream.commit()
        await_compaction(workspace)

        def plain_iteration() -> Measured:
            with timed(_SCAN_ROWS) as measured:
                size = sum(plain.value_sizes())
            assert size > _SCAN_ROWS * 100
            return measured

        yield {
            "ours": lambda: _scan_stream(stream),
            "another process": lambda: answer_of(_scan_as_reader, workspace),
            "plain iteration": plain_iteration,
        }


def _scan_as_reader(root: Path) -> Measured:
    with StreamReader.open(root, "bench") as reader:
        assert reader.refresh() == {0: _SCAN_ROWS}
        return _scan_stream(reader)


def _scan_stream(stream: Stream | StreamReader) -> Measured:
    with timed(_SCAN_ROWS) as measured:
        rows = sum(batch.num_rows for batch in stream.scan())
    assert rows == _SCAN_ROWS
    return measured


@contextmanager
def _committed(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    payload = payload_array(1, 100, seed=1)[0].as_py()

    def another_process() -> Measured:
        with (
            empty_directory(workspace) as path,
            new_stream(path) as stream,
            child_process(_look_at_committed, path) as child,
        ):
            primary = FIRST_PRIMARY
            while child.is_running:
                primary += 1
                stream.append(primary, primary % DEVICES, payload)
                stream.commit()
            return child.answer()

    yield {"another process": another_process}


def _look_at_committed(root: Path) -> Measured:
    """Ask for committed over and over while another process commits."""
    seconds = []
    with StreamReader.open(root, "bench") as reader:
        assert reader.wait(0, 0, 30)
        before = after = reader.committed()[0]
        for look in range(_LOOKS_MAX):
            start = time.perf_counter()
            after = reader.committed()[0]
            seconds.append(time.perf_counter() - start)
            # A loaded machine may not commit once in as many looks.
            if look >= _COMMITTED_LOOKS and after > before:
                break
        assert after > before
    return latencies(seconds)


@contextmanager
def _range(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    with (
        Stream.create(workspace, "interleaved", ONE_SHARD) as interleaved,
        Stream.create(workspace, "adjacent", ONE_SHARD) as adjacent,
    ):
        for batch in record_batches(_RANGE_STREAM_ROWS // 10_000, 10_000, shuffled=False):
            interleaved.append_batch(batch)
            interleaved.commit()
            # Here each hundred in a row have one id.
            ids = (batch.column("primary").to_numpy() - FIRST_PRIMARY) // _RANGE_ROWS % DEVICES
            column = pa.array(ids.astype(np.int32))
            adjacent.append_batch(batch.set_column(1, "secondary", column))
            adjacent.commit()
        await_compaction(workspace)

        yield {
            "interleaved": lambda: _read_ranges(interleaved, _interleaved_ranges()),
            "adjacent": lambda: _read_ranges(adjacent, _adjacent_ranges()),
            "another process": lambda: answer_of(_read_ranges_as_reader, workspace),
        }


def _read_ranges_as_reader(root: Path) -> Measured:
    with StreamReader.open(root, "interleaved") as reader:
        assert reader.refresh() == {0: _RANGE_STREAM_ROWS}
        return _read_ranges(reader, _interleaved_ranges())


def _read_ranges(stream: Stream | StreamReader, ranges: Iterator[tuple[int, int, int]]) -> Measured:
    """Read ranges given as (id, first, last)."""
    seconds = []
    for secondary, first, last in ranges:
        start = time.perf_counter()
        table = stream.read(secondary, first, last)
        seconds.append(time.perf_counter() - start)
        assert table.num_rows == _RANGE_ROWS
    return latencies(seconds)


def _interleaved_ranges() -> Iterator[tuple[int, int, int]]:
    """Yield ranges that hold 100 rows of one id where ids take turns."""
    chance = np.random.default_rng(3)
    turns = _RANGE_STREAM_ROWS // DEVICES
    for secondary in chance.integers(0, DEVICES, _RANGE_READS).tolist():
        turn = int(chance.integers(0, turns - _RANGE_ROWS + 1))
        first = FIRST_PRIMARY + turn * DEVICES + secondary
        yield secondary, first, first + (_RANGE_ROWS - 1) * DEVICES


def _adjacent_ranges() -> Iterator[tuple[int, int, int]]:
    """Yield ranges that hold 100 rows of one id where an id's rows lie together."""
    chance = np.random.default_rng(3)
    for group in chance.integers(0, _RANGE_STREAM_ROWS // _RANGE_ROWS, _RANGE_READS).tolist():
        first = FIRST_PRIMARY + group * _RANGE_ROWS
        yield group % DEVICES, first, first + _RANGE_ROWS - 1


SCAN: Final = Experiment(
    "scan",
    (
        Row(
            "scan/rate",
            "full `scan` of 5 M rows to Arrow, one shard, warm, in the writer's process",
            ("ours", "rate"),
            limit=20_000_000,
            wanted=60_000_000,
        ),
        Row(
            "scan/reader-rate",
            "the same through `StreamReader` in another process",
            ("another process", "rate"),
            limit=20_000_000,
            wanted=60_000_000,
        ),
        Row(
            "scan/cpu",
            "the writer's scan by processor time, for machines that are shared",
            ("ours", "cpu_rate"),
        ),
        Row(
            "scan/plain-cpu",
            "reading the same values from plain rocksdict, undecoded, by processor time",
            ("plain iteration", "cpu_rate"),
            sense=None,
        ),
        Row(
            "scan/plain",
            "the writer's scan against reading the same values from plain rocksdict, undecoded",
            ("ours", "rate"),
            ("plain iteration", "rate"),
        ),
    ),
    _scan,
    bytes_needed=4 * 2**30,
)
COMMITTED: Final = Experiment(
    "committed",
    (
        Row(
            "committed/p50",
            "committed of a shard, from another process while records are committed, p50",
            ("another process", "p50"),
            sense="at most",
            limit=0.001,
            wanted=0.000_05,
        ),
        Row(
            "committed/p99",
            "the same, p99",
            ("another process", "p99"),
            sense="at most",
        ),
    ),
    _committed,
)
RANGE: Final = Experiment(
    "range",
    tuple(
        Row(f"range/{name}-{share}", f"{text}, {share}", (contestant, share), sense="at most")
        for name, contestant, text in (
            ("interleaved", "interleaved", "`read` of 100 rows of one id among 1,000 in turns"),
            ("reader", "another process", "the same through `StreamReader` in another process"),
            ("adjacent", "adjacent", "`read` of 100 rows of one id that lie together"),
        )
        for share in ("p50", "p99")
    ),
    _range,
)

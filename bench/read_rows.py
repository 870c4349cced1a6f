"""Reads: full scans, ranges of one id among a thousand, committed from another process.

All is in the page cache; what is measured is the way from there to Arrow.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from bench.measure import Contestant, Experiment, Measured, Row, latencies, timed
from bench.peers import encoded_blocks, plain_store
from bench.records import DEVICES, FIRST_PRIMARY, payload_array, record_batches
from bench.workspace import await_compaction, child_process, empty_directory
from storage_core import Stream, StreamOptions, StreamReader

SCAN_ROWS: Final = 5_000_000
_SCAN_BATCH_ROWS: Final = 50_000
RANGE_ROWS: Final = 100
RANGE_READS: Final = 200
_RANGE_STREAM_ROWS: Final = 1_000_000
_OPTIONS: Final = StreamOptions(shards=1)


def scan_stream(stream: Stream | StreamReader, rows: int) -> Measured:
    """Scan a whole stream into Arrow batches; return the rate."""
    with timed(rows) as measured:
        found = sum(batch.num_rows for batch in stream.scan())
    assert found == rows
    return measured


@contextmanager
def _scan(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    batches = SCAN_ROWS // _SCAN_BATCH_ROWS
    pattern = list(record_batches(batches, _SCAN_BATCH_ROWS))
    with (
        plain_store(workspace / "plain") as plain,
        Stream.create(workspace, "bench", _OPTIONS) as stream,
    ):
        for batch, blocks in zip(pattern, encoded_blocks(pattern, _OPTIONS), strict=True):
            stream.append_batch(batch)
            stream.commit()
            plain.put_durably(blocks)
        await_compaction(workspace)

        def plain_iteration() -> Measured:
            with timed(SCAN_ROWS) as measured:
                size = sum(plain.value_sizes())
            assert size > SCAN_ROWS * 100
            return measured

        def reader() -> Measured:
            with child_process("scan", workspace, "bench", SCAN_ROWS) as child:
                return child.answer()

        yield {
            "ours": lambda: scan_stream(stream, SCAN_ROWS),
            "another process": reader,
            "plain iteration": plain_iteration,
        }


@contextmanager
def _committed(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    payload = payload_array(1, 100, seed=1)[0].as_py()

    def another_process() -> Measured:
        with (
            empty_directory(workspace) as path,
            Stream.create(path, "bench", _OPTIONS) as stream,
            child_process("committed", path, "bench") as child,
        ):
            primary = FIRST_PRIMARY
            while child.is_running:
                primary += 1
                stream.append(primary, primary % DEVICES, payload)
                stream.commit()
            return child.answer()

    yield {"another process": another_process}


def read_ranges(
    read: Callable[[int, int, int], pa.Table], first_primaries: Iterator[tuple[int, int, int]]
) -> Measured:
    """Read ranges given as (id, start, end) and return their latencies."""
    seconds = []
    for secondary, first, last in first_primaries:
        start = time.perf_counter()
        table = read(secondary, first, last)
        seconds.append(time.perf_counter() - start)
        assert table.num_rows == RANGE_ROWS
    return latencies(seconds)


def interleaved_ranges(rows: int) -> Iterator[tuple[int, int, int]]:
    """Yield ranges that hold 100 rows of one id where ids take turns."""
    chance = np.random.default_rng(3)
    for secondary in chance.integers(0, DEVICES, RANGE_READS).tolist():
        turn = int(chance.integers(0, rows // DEVICES - RANGE_ROWS + 1))
        first = FIRST_PRIMARY + turn * DEVICES + secondary
        yield secondary, first, first + (RANGE_ROWS - 1) * DEVICES


def adjacent_ranges(rows: int) -> Iterator[tuple[int, int, int]]:
    """Yield ranges that hold 100 rows of one id where an id's rows lie together."""
    chance = np.random.default_rng(3)
    for group in chance.integers(0, rows // RANGE_ROWS, RANGE_READS).tolist():
        first = FIRST_PRIMARY + group * RANGE_ROWS
        yield group % DEVICES, first, first + RANGE_ROWS - 1


def fill_adjacent(stream: Stream, rows: int) -> None:
    """Append records of which each hundred in a row have one id."""
    for batch in record_batches(rows // 10_000, 10_000):
        ids = (batch.column("primary").to_numpy() - FIRST_PRIMARY) // RANGE_ROWS % DEVICES
        column = pa.array(ids.astype(np.int32))
        stream.append_batch(batch.set_column(1, "secondary", column))
        stream.commit()


@contextmanager
def _range(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    rows = _RANGE_STREAM_ROWS
    with (
        Stream.create(workspace, "interleaved", _OPTIONS) as interleaved,
        Stream.create(workspace, "adjacent", _OPTIONS) as adjacent,
    ):
        for batch in record_batches(rows // 10_000, 10_000, shuffled=False):
            interleaved.append_batch(batch)
            interleaved.commit()
        fill_adjacent(adjacent, rows)
        await_compaction(workspace)

        def another_process() -> Measured:
            with child_process("ranges", workspace, "interleaved", rows) as child:
                return child.answer()

        yield {
            "interleaved": lambda: read_ranges(interleaved.read, interleaved_ranges(rows)),
            "adjacent": lambda: read_ranges(adjacent.read, adjacent_ranges(rows)),
            "another process": another_process,
        }


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

"""Trimmed rows against blocks: what reads cost where parts alone have the rows.

Two streams have the same rows, a thousand ids taking turns; of one all is sealed and trimmed. Of
both a hundred rows of one id are read, a hundredth of all time, and all in order of arrival; the
hundred rows by a new process, too, which has seen none of the files. Two more have telemetry of ten
fields, whose payloads parts leave out: of each a new process tails a million rows, or as many as
there are if they are fewer. SHARDLOG_BENCH_ROWS says how many rows the others have.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from bench.child import answer_of, memory_peak
from bench.log.indexed import RANGE_ROWS, ROWS, fill, id_in_turns, ranges
from bench.log.peers import ONE_SHARD
from bench.log.sensors import ENTRIES, readings
from bench.measure import Contestant, Experiment, Measured, Row, latencies, timed
from bench.records import FIRST_PRIMARY
from bench.workspace import await_compaction
from storage_core import Stream, StreamReader

_READS: Final = 400
_LONG_RANGES: Final = 10
_LONG_RANGE_SHARE: Final = 100
_READINGS: Final = min(ROWS, 1_000_000)


@contextmanager
def _trimmed(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    with ExitStack() as streams:
        blocks = streams.enter_context(fill(workspace, "blocks", ROWS, id_in_turns))
        trimmed = streams.enter_context(fill(workspace, "trimmed", ROWS, id_in_turns))
        assert trimmed.seal().rows == ROWS
        assert trimmed.trim().rows == ROWS
        for name in ("fields-in-blocks", "fields-in-parts"):
            _fill_with_fields(workspace, name, is_trimmed=name.endswith("parts"))
        await_compaction(workspace)
        yield {
            "blocks": lambda: _reading(blocks),
            "trimmed": lambda: _reading(trimmed),
            "new process": lambda: answer_of(_reading_anew, workspace),
            "fields-in-blocks": lambda: answer_of(_tailing, workspace, "fields-in-blocks"),
            "fields-in-parts": lambda: answer_of(_tailing, workspace, "fields-in-parts"),
        }


def _fill_with_fields(workspace: Path, name: str, *, is_trimmed: bool) -> None:
    with Stream.create(workspace, name, ONE_SHARD) as stream:
        for batch in readings(_READINGS):
            stream.append_batch(batch, schemas=ENTRIES)
            stream.commit()
        if is_trimmed:
            rows = stream.seal().rows
            assert stream.trim().rows == rows


def _tailing(root: Path, name: str) -> Measured:
    with StreamReader.open(root, name) as reader:
        rows = reader.refresh()[0]
        before = memory_peak()
        with timed(rows) as tail:
            assert sum(batch.num_rows for batch in reader.tail(0)) == rows
        grown = memory_peak() - before
        begin = rows // 2
        start = time.perf_counter()
        assert sum(batch.num_rows for batch in reader.tail(0, begin, begin + RANGE_ROWS))
        few = time.perf_counter() - start
    return {"rate": tail["rate"], "bytes": float(grown), "few": few}


def _reading_anew(root: Path) -> Measured:
    with StreamReader.open(root, "trimmed") as reader:
        assert reader.refresh() == {0: ROWS}
        seconds = list(_range_seconds(reader))
    return {"first": seconds[0], **latencies(seconds)}


def _reading(stream: Stream) -> Measured:
    latency = latencies(list(_range_seconds(stream)))
    long_range = float(np.median(list(_long_range_seconds(stream))))
    with timed(ROWS) as tail:
        assert sum(batch.num_rows for batch in stream.tail(0)) == ROWS
    return {**latency, "long range": long_range, "tail": tail["rate"]}


def _range_seconds(stream: Stream | StreamReader) -> Iterator[float]:
    for secondary, first, last in islice(ranges("turns", ROWS), _READS):
        start = time.perf_counter()
        table = stream.read(secondary, first, last)
        yield time.perf_counter() - start
        assert table.num_rows == RANGE_ROWS


def _long_range_seconds(stream: Stream) -> Iterator[float]:
    chance = np.random.default_rng(4)
    rows = ROWS // _LONG_RANGE_SHARE
    for _ in range(_LONG_RANGES):
        first = FIRST_PRIMARY + int(chance.integers(0, ROWS - rows))
        start = time.perf_counter()
        table = stream.read(start=first, end=first + rows - 1)
        yield time.perf_counter() - start
        assert table.num_rows == rows


TRIMMED: Final = Experiment(
    "trimmed",
    (
        Row(
            "trimmed/range-p99",
            f"`read` of 100 trimmed rows of one id of {ROWS // 10**6} M, 1,000 in turns, p99 of "
            "the first 400 of a new process",
            ("new process", "p99"),
            sense="at most",
            limit=0.010,
            wanted=0.003,
        ),
        Row("trimmed/range-p50", "the same, p50", ("new process", "p50"), sense="at most"),
        Row(
            "trimmed/range-first",
            "its first read, which loads what makes blocks again",
            ("new process", "first"),
            sense="at most",
        ),
        Row(
            "trimmed/known-p99",
            "the same by the process that trimmed them, p99",
            ("trimmed", "p99"),
            sense="at most",
        ),
        Row(
            "trimmed/range-growth",
            "its p50 against that of blocks",
            ("trimmed", "p50"),
            ("blocks", "p50"),
            sense="at most",
        ),
        Row(
            "trimmed/time",
            "`read` of a hundredth of all time, trimmed rows against blocks",
            ("trimmed", "long range"),
            ("blocks", "long range"),
            sense="at most",
        ),
        Row(
            "trimmed/tail",
            "`tail` of all, trimmed rows against blocks",
            ("trimmed", "tail"),
            ("blocks", "tail"),
        ),
        Row(
            "trimmed/tail-rate",
            "`tail` of trimmed rows, rows a second",
            ("trimmed", "tail"),
        ),
        Row(
            "trimmed/fields",
            f"`tail` of {_READINGS:,} rows of ten fields, trimmed against blocks",
            ("fields-in-parts", "rate"),
            ("fields-in-blocks", "rate"),
        ),
        Row(
            "trimmed/fields-rate",
            "the same of trimmed rows, rows a second",
            ("fields-in-parts", "rate"),
        ),
        Row(
            "trimmed/fields-memory",
            "bytes by which the memory of its process grows",
            ("fields-in-parts", "bytes"),
            sense="at most",
        ),
        Row(
            "trimmed/fields-few",
            "`tail` of 100 addresses in the middle of them",
            ("fields-in-parts", "few"),
            sense="at most",
        ),
    ),
    _trimmed,
    bytes_needed=6 * 2**30,
)

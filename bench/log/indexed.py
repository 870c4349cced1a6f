"""The sparse index: what it costs who appends, and what it spares who asks for one id.

Ranges of a hundred rows of one id are read where its rows lie together and where a thousand ids
take turns, from a stream and from one of a tenth of its size, all within a day, so that windows of
time tell nothing. SHARDLOG_BENCH_ROWS says how many rows the large one has.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from bench.log.peers import ONE_SHARD
from bench.measure import Contestant, Experiment, Measured, Row, latencies
from bench.records import DEVICES, FIRST_PRIMARY, record_batches
from bench.workspace import await_compaction, empty_directory
from storage_core import IndexOptions, Stream

ROWS: Final = int(os.environ.get("SHARDLOG_BENCH_ROWS", "2000000"))
_BATCHES: Final = 200
_BATCH_ROWS: Final = 10_000
RANGE_ROWS: Final = 100
_READS: Final = 400
_PASSES: Final = 5
_OPENINGS: Final = 5

Range = tuple[int, int, int]


@contextmanager
def _append(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    batches = list(record_batches(_BATCHES, _BATCH_ROWS))

    def appending(*, is_on: bool) -> Measured:
        options = replace(ONE_SHARD, index=IndexOptions(is_on=is_on))
        with (
            empty_directory(workspace) as path,
            Stream.create(path, "bench", options) as stream,
        ):
            start = time.perf_counter()
            for batch in batches:
                stream.append_batch(batch)
                stream.commit()
            seconds = time.perf_counter() - start
            assert (stream.stats().index_entries > 0) is is_on
        return {"rate": _BATCHES * _BATCH_ROWS / seconds}

    yield {"on": lambda: appending(is_on=True), "off": lambda: appending(is_on=False)}


@contextmanager
def _lookup(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    contestants: dict[str, Contestant] = {}
    with ExitStack() as streams:
        for size, rows in (("large", ROWS), ("small", ROWS // 10)):
            for layout, id_of in (("runs", _id_in_runs), ("turns", id_in_turns)):
                name = f"{size}-{layout}"
                fill(workspace, name, rows, id_of).close()
                seconds = _opening(workspace, name)
                stream = streams.enter_context(Stream.open(workspace, name))
                contestants[f"{size} {layout}"] = _reading(stream, layout, rows, seconds)
        await_compaction(workspace)
        yield contestants


def _reading(stream: Stream, layout: str, rows: int, opening_s: float) -> Contestant:
    def pass_over_all() -> Measured:
        seconds = []
        for secondary, first, last in ranges(layout, rows):
            start = time.perf_counter()
            table = stream.read(secondary, first, last)
            seconds.append(time.perf_counter() - start)
            assert table.num_rows == RANGE_ROWS
        return latencies(seconds)

    def read() -> Measured:
        # Four reads make a p99: what the machine interrupts is not told as a read's own.
        passes = [pass_over_all() for _ in range(_PASSES)]
        medians = {name: float(np.median([each[name] for each in passes])) for name in passes[0]}
        return {**medians, "opening": opening_s}

    return read


def fill(
    workspace: Path, name: str, rows: int, id_of: Callable[[np.ndarray], np.ndarray]
) -> Stream:
    """Return a new stream of so many rows, whose ids are told by their places."""
    return filled(Stream.create(workspace, name, ONE_SHARD), rows, id_of)


def filled(
    stream: Stream,
    rows: int,
    id_of: Callable[[np.ndarray], np.ndarray],
    *,
    is_of_partition: bool = False,
) -> Stream:
    """Return a stream that got so many rows in its only shard, which may be a topic's partition."""
    for batch in record_batches(rows // _BATCH_ROWS, _BATCH_ROWS, shuffled=False):
        places = batch.column("primary").to_numpy() - FIRST_PRIMARY
        ids = pa.array(id_of(places).astype(np.int32))
        placed = batch.set_column(1, "secondary", ids)
        if is_of_partition:
            stream.append_batch(placed, shard=0, addresses=places)
        else:
            stream.append_batch(placed)
        stream.commit()
    # What waits would be written once a tick had passed.
    stream.index.drain()
    return stream


def _opening(workspace: Path, name: str) -> float:
    """Return how long it takes to open a stream that was closed, the median of some."""
    seconds = []
    for _ in range(_OPENINGS):
        start = time.perf_counter()
        Stream.open(workspace, name).close()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def _id_in_runs(places: np.ndarray) -> np.ndarray:
    return places // RANGE_ROWS % DEVICES


def id_in_turns(places: np.ndarray) -> np.ndarray:
    """Return the ids of rows where all take turns."""
    return places % DEVICES


def ranges(layout: str, rows: int) -> Iterator[Range]:
    """Yield (id, first, last) of ranges that hold a hundred rows."""
    chance = np.random.default_rng(3)
    for _ in range(_READS):
        if layout == "runs":
            group = int(chance.integers(0, rows // RANGE_ROWS))
            first = FIRST_PRIMARY + group * RANGE_ROWS
            yield group % DEVICES, first, first + RANGE_ROWS - 1
        else:
            secondary = int(chance.integers(0, DEVICES))
            turn = int(chance.integers(0, rows // DEVICES - RANGE_ROWS + 1))
            first = FIRST_PRIMARY + turn * DEVICES + secondary
            yield secondary, first, first + (RANGE_ROWS - 1) * DEVICES


INDEX: Final = Experiment(
    "index",
    (
        Row(
            "index/append",
            "durable appends of 10,000 rows with the index on, against off",
            ("on", "rate"),
            ("off", "rate"),
            limit=0.9,
            wanted=0.97,
        ),
    ),
    _append,
)
LOOKUP: Final = Experiment(
    "lookup",
    (
        Row(
            "lookup/runs-p99",
            f"`read` of 100 rows of one id of {ROWS // 10**6} M, cached, ids in runs, p99",
            ("large runs", "p99"),
            sense="at most",
            limit=0.002,
            wanted=0.000_35,
        ),
        Row(
            "lookup/runs-p50",
            "the same, p50",
            ("large runs", "p50"),
            sense="at most",
        ),
        Row(
            "lookup/turns-p99",
            "the same where 1,000 ids take turns, p99",
            ("large turns", "p99"),
            sense="at most",
            limit=0.010,
            wanted=0.004,
        ),
        *(
            Row(
                f"lookup/{layout}-growth-{share}",
                f"{text}, {share}, against a tenth of the rows",
                (f"large {layout}", share),
                (f"small {layout}", share),
                sense="at most",
                limit=2,
                wanted=1.3,
            )
            for layout, text in (("runs", "ids in runs"), ("turns", "ids in turns"))
            for share in ("p50", "p99")
        ),
        Row(
            "lookup/open-growth",
            "opening a stream that was closed, against one of a tenth of the rows",
            ("large turns", "opening"),
            ("small turns", "opening"),
            sense="at most",
            limit=2,
            wanted=1.3,
        ),
    ),
    _lookup,
    bytes_needed=4 * 2**30,
)

"""Reads of rows whose files only the lake has: what a store costs, and what the cache saves.

A stream's rows are sealed and trimmed, a thousand ids taking turns, and the files of its parts are
let go once they are in a table in a directory of this machine. New processes read a hundred rows
of one id, again and again: with an empty cache, and with what the first one has brought.
SHARDLOG_BENCH_ROWS says how many rows there are.
"""

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Final

from bench.child import answer_of
from bench.log.indexed import RANGE_ROWS, ROWS, fill, id_in_turns, ranges
from bench.measure import Contestant, Experiment, Measured, Row, latencies
from storage_core import StreamReader
from storage_core.lake import publish_stream
from storage_core.lake.absent.lake_parts import CACHE_VARIABLE

_STREAM: Final = "away"
_READS: Final = 400


@contextmanager
def _away(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    root, cache = workspace / "root", workspace / "cache"
    root.mkdir()
    with fill(root, _STREAM, ROWS, id_in_turns) as stream:
        stream.alter(lake=str(workspace / "lake"), keep_local=timedelta(0))
        stream.seal()
        stream.trim()
        publish_stream(root, _STREAM)
        assert not any(part.path.exists() for part in stream.parts())
        yield {
            "cold": lambda: _cold(root, cache),
            "cached": lambda: answer_of(_reading, root, cache),
        }


def _cold(root: Path, cache: Path) -> Measured:
    shutil.rmtree(cache, ignore_errors=True)
    return answer_of(_reading, root, cache)


def _reading(root: Path, cache: Path) -> Measured:
    os.environ[CACHE_VARIABLE] = str(cache)
    with StreamReader.open(root, _STREAM) as reader:
        seconds, cpu = [], []
        for secondary, first, last in islice(ranges("turns", ROWS), _READS):
            start, start_cpu = time.perf_counter(), time.process_time()
            table = reader.read(secondary, first, last)
            seconds.append(time.perf_counter() - start)
            cpu.append(time.process_time() - start_cpu)
            assert table.num_rows == RANGE_ROWS
    return {"first": seconds[0], "cpu": latencies(cpu)["p99"], **latencies(seconds)}


LAKE_READS: Final = Experiment(
    "lake-reads",
    (
        Row(
            "lake-reads/cold-p99",
            f"`read` of 100 rows of one id of {ROWS // 10**6} M that only a lake of this machine "
            "has, p99 of the first 400 of a new process with an empty cache",
            ("cold", "p99"),
            sense="at most",
            limit=0.060,
        ),
        Row(
            "lake-reads/cached-p99",
            "the same of a process that finds in the cache what another has brought",
            ("cached", "p99"),
            sense="at most",
            limit=0.010,
        ),
        Row("lake-reads/cached-p50", "the same, p50", ("cached", "p50"), sense="at most"),
        Row(
            "lake-reads/cached-cpu",
            "the same by processor time, p99",
            ("cached", "cpu"),
            sense="at most",
        ),
        Row(
            "lake-reads/cold-cpu",
            "that with an empty cache",
            ("cold", "cpu"),
            sense="at most",
        ),
        Row(
            "lake-reads/first",
            "the first of all, with an empty cache",
            ("cold", "first"),
            sense=None,
        ),
    ),
    _away,
)

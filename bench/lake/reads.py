"""Reads of rows whose files only the lake has: what a store costs, and what the cache saves.

A partition's rows are sealed and trimmed, a thousand ids taking turns, and the files of its parts
are let go once they are in a table in a directory of this machine. In another root the partition
begins from that table. New processes read a hundred rows of one id, again and again: with an empty
cache, and with what the first one has brought. SHARDLOG_BENCH_ROWS says how many rows there are.
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
from bench.log.indexed import RANGE_ROWS, ROWS, filled, id_in_turns, ranges
from bench.measure import Contestant, Experiment, Measured, Row, latencies
from storage_core import Stream, StreamOptions, StreamOrigin, StreamReader
from storage_core.lake import begin_from_lake, publish_stream
from storage_core.lake.absent.lake_parts import CACHE_VARIABLE

_STREAM: Final = "away"
_ORIGIN: Final = StreamOrigin("kafka", _STREAM, "a-topic-of-its-own", "integer", "timestamp", "raw")
_READS: Final = 400


@contextmanager
def _away(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    options = StreamOptions(lake=str(workspace / "lake"), keep_local=timedelta(0))
    owner, heir = workspace / "owner", workspace / "heir"
    for root in (owner, heir):
        Stream.create(root, _STREAM, options, origin=_ORIGIN).close()
    Stream.add_shards(owner, _STREAM, {0: 0})
    partition = Stream.open(owner, _STREAM)
    with filled(partition, ROWS, id_in_turns, is_of_partition=True) as stream:
        stream.seal()
        stream.trim()
        publish_stream(owner, _STREAM)
        assert not any(part.path.exists() for part in stream.parts())
    assert begin_from_lake(heir, _STREAM, [0])[0].rows == ROWS
    yield {
        "cold": lambda: _cold(owner, workspace / "cache"),
        "cached": lambda: answer_of(_reading, owner, workspace / "cache"),
        "begun cold": lambda: _cold(heir, workspace / "heirs-cache"),
        "begun cached": lambda: answer_of(_reading, heir, workspace / "heirs-cache"),
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


def _rows(prefix: str, of: str, whose: str) -> tuple[Row, ...]:
    return (
        Row(
            f"lake-reads/{prefix}cold-p99",
            f"`read` of 100 rows of one id of {ROWS // 10**6} M {whose}, p99 of the first 400 of a "
            "new process with an empty cache",
            (f"{of}cold", "p99"),
            sense="at most",
            limit=0.060,
        ),
        Row(
            f"lake-reads/{prefix}cached-p99",
            "the same of a process that finds in the cache what another has brought",
            (f"{of}cached", "p99"),
            sense="at most",
            limit=0.010,
        ),
        Row(
            f"lake-reads/{prefix}cached-p50",
            "the same, p50",
            (f"{of}cached", "p50"),
            None,
            "at most",
        ),
        Row(
            f"lake-reads/{prefix}cold-cpu",
            "the first of these by processor time, p99",
            (f"{of}cold", "cpu"),
            sense="at most",
        ),
        Row(
            f"lake-reads/{prefix}cached-cpu",
            "the second by processor time, p99",
            (f"{of}cached", "cpu"),
            sense="at most",
        ),
        Row(
            f"lake-reads/{prefix}first",
            "the first of all, with an empty cache",
            (f"{of}cold", "first"),
            sense="at most",
        ),
    )


LAKE_READS: Final = Experiment(
    "lake-reads",
    (
        *_rows("", "", "that only a lake of this machine has"),
        *_rows("begun-", "begun ", "of a log that began from that lake"),
    ),
    _away,
    bytes_needed=2**30 + ROWS * 300,
)

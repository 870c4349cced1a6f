"""How old a record is when everybody who reads the table can see it.

A worker stores what is produced at a pace, and publishes to a table in a directory of this machine;
another process notes when each version of the table appears. Whose rows a version brought is looked
up afterwards. A row waits for as long as `lake_lag` says, which is SHARDLOG_BENCH_LAKE_LAG_S, ten
seconds if not told; records are produced for six times that. A record's age counts from its
timestamp, which the producer set.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq

from bench.child import answer_of, child_process
from bench.ingest.latency import pace, running_worker
from bench.measure import Contestant, Experiment, Measured, Row, check_pace
from bench.topics import make_topic
from bench.workspace import await_records, empty_directory
from connectors.devtools.broker import BROKER
from connectors.devtools.server import Server
from storage_core import SystemClock

_LAG_S: Final = float(os.environ.get("SHARDLOG_BENCH_LAKE_LAG_S", "10"))
_SECONDS: Final = int(6 * _LAG_S)
_PACE: Final = 2000
_RECORDS: Final = _PACE * _SECONDS
_FIRST: Final = 100
_LOOK_S: Final = 0.02
_BEHIND_MAX_S: Final = 120.0
_CLOCK: Final = SystemClock()


@contextmanager
def _freshness(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    with Server(BROKER, workspace / "broker") as broker:
        numbers = count()

        def ours() -> Measured:
            topic = f"paced{next(numbers)}"
            make_topic(broker.address, topic)
            with empty_directory(workspace) as place:
                settings = {
                    "stream.lake": os.fspath(place / "table"),
                    "stream.lake_lag_seconds": f"{_LAG_S:g}",
                }
                root = place / "root"
                root.mkdir()
                with running_worker(broker.address, topic, root, settings):
                    # A stream is made for the first record.
                    answer_of(pace, broker.address, topic, _FIRST, 1)
                    await_records(root, topic, _FIRST)
                    with child_process(_watch, place / "table", _FIRST + _RECORDS) as seen:
                        seen.answer()
                        check_pace(
                            answer_of(pace, broker.address, topic, _PACE, _SECONDS)["rate"], _PACE
                        )
                        return seen.answer()

        yield {"ours": ours}


def _watch(table: Path, records: int) -> Iterator[Measured]:
    """Note when versions appear until they have all records; tell how old these were then."""
    begin_s = _CLOCK.now_ns() / 1e9
    yield {}
    deadline = _CLOCK.monotonic_s() + _SECONDS + _LAG_S + _BEHIND_MAX_S
    seen: dict[str, int] = {}
    rows = 0
    while rows < records:
        if _CLOCK.monotonic_s() > deadline:
            message = f"{rows} of {records} rows are in the table"
            raise TimeoutError(message)
        _CLOCK.sleep(_LOOK_S)
        paths, now_ns = sorted((table / "_delta_log").glob("*.json")), _CLOCK.now_ns()
        for path in paths:
            if path.name not in seen:
                seen[path.name] = now_ns
                rows += sum(file["rows"] for file in _added(path))
    ages = []
    for name, seen_ns in seen.items():
        for file in _added(table / "_delta_log" / name):
            read = pq.read_table(table / file["path"], columns=["primary"], partitioning=None)
            sent_s = read.column("primary").to_numpy() / 1e3
            ages.append(seen_ns / 1e9 - sent_s[sent_s >= begin_s])
    p50, p99 = np.quantile(np.concatenate(ages), [0.5, 0.99]).tolist()
    yield {"p50": p50, "p99": p99}


def _added(commit: Path) -> list[dict[str, Any]]:
    """Return the files that a commit adds with rows that no version had before."""
    actions = [json.loads(line).get("add") for line in commit.read_text().splitlines()]
    return [
        {"path": added["path"], "rows": json.loads(added["stats"])["numRecords"]}
        for added in actions
        if added is not None and added["dataChange"]
    ]


LAKE_LATENCY: Final = Experiment(
    "lake-latency",
    (
        Row(
            "lake-latency/p50",
            f"produce at {_PACE:,} records/s to a version of the table that has the row, where "
            f"`lake_lag` is {_LAG_S:g} s, p50 in seconds",
            ("ours", "p50"),
            sense="at most",
            limit=_LAG_S + 10,
        ),
        Row("lake-latency/p99", "the same, p99", ("ours", "p99"), sense="at most"),
    ),
    _freshness,
    rounds_max=3,
)

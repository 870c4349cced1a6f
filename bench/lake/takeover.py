"""A partition whose machine is lost: another begins from the lake, and takes the rest from Kafka.

A worker stores the first records of a partition and publishes all; then as many come as
SHARDLOG_BENCH_TAKEOVER_ROWS says, ten million if not told, and its root is gone. A worker with an
empty root begins where the table ends and stores what was never published; beside that one stores
the same topic from its begin, with a table where nothing is. Both seal as they do, and publish
nothing while it is measured.
"""

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final

from bench.child import answer_of
from bench.ingest.rates import fill, ingest
from bench.measure import Contestant, Experiment, Measured, Row
from bench.topics import make_topic
from bench.workspace import committed, empty_directory
from connectors.devtools.broker import BROKER
from connectors.devtools.server import Server
from storage_core import Stream
from storage_core.lake import publish_stream

_ROWS: Final = int(os.environ.get("SHARDLOG_BENCH_TAKEOVER_ROWS", "10000000"))
_PUBLISHED: Final = max(1, _ROWS // 10)
_TOPIC: Final = "taken"
_VALUE_BYTES: Final = 100
# Longer than anything here: rows are published by the bench, or not at all.
_LAG: Final = "stream.lake_lag_seconds=86400"
_AT_ONCE: Final = "lake.revoke_wait_seconds=0"


@contextmanager
def _takeover(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    lost, table = workspace / "lost", workspace / "table"
    lost.mkdir()
    numbers = count()
    with Server(BROKER, workspace / "broker") as broker:
        make_topic(broker.address, _TOPIC, 1)
        answer_of(fill, broker.address, _TOPIC, _PUBLISHED, _VALUE_BYTES, 1)
        answer_of(_ingest, broker.address, lost, table, _PUBLISHED)
        with Stream.open(lost, _TOPIC) as stream:
            stream.seal()
        publish_stream(lost, _TOPIC)
        shutil.rmtree(lost)
        answer_of(fill, broker.address, _TOPIC, _ROWS, _VALUE_BYTES, 1)

        def stored(*, is_begun: bool) -> Measured:
            with empty_directory(workspace) as place:
                if is_begun:
                    shutil.copytree(table, place / "table")
                root = place / f"root-{next(numbers)}"
                root.mkdir()
                rows = _ROWS if is_begun else _PUBLISHED + _ROWS
                answer = answer_of(_ingest, broker.address, root, place / "table", rows)
                assert answer["appended"] == rows
                assert committed(root, _TOPIC) == {0: _PUBLISHED + _ROWS}
                return answer

        yield {
            "taken over": lambda: stored(is_begun=True),
            "from Kafka alone": lambda: stored(is_begun=False),
        }


def _ingest(bootstrap: str, root: Path, table: Path, rows: int) -> Measured:
    more = (f"stream.lake={table}", _LAG, _AT_ONCE)
    start = time.perf_counter()
    answer = ingest(bootstrap, _TOPIC, root, rows, [0], more=more)
    return {
        "rate": answer["rate"],
        "cpu": answer["cpu"],
        "appended": answer["appended"],
        "before": answer["start_s"] - start,
        "seconds": answer["end_s"] - start,
    }


LAKE_TAKEOVER: Final = Experiment(
    "lake-takeover",
    (
        Row(
            "lake-takeover/rate",
            f"rows a second of {_ROWS:,} that were not published, once the first comes, of a "
            "partition that begins from the lake, against one from Kafka alone",
            ("taken over", "rate"),
            ("from Kafka alone", "rate"),
            limit=0.85,
        ),
        Row(
            "lake-takeover/cpu",
            "the same by processor time a row",
            ("taken over", "cpu"),
            ("from Kafka alone", "cpu"),
            sense="at most",
        ),
        Row(
            "lake-takeover/begin",
            f"by how many seconds the first record comes later, where {_PUBLISHED:,} rows are "
            "published",
            ("taken over", "before"),
            ("from Kafka alone", "before"),
            sense="at most",
            compared="difference",
        ),
        Row(
            "lake-takeover/seconds",
            "seconds from an empty root to all rows",
            ("taken over", "seconds"),
            sense="at most",
        ),
    ),
    _takeover,
    rounds_max=3,
    bytes_needed=2**30 + (_PUBLISHED + _ROWS) * 600,
)

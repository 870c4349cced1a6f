"""Spark's source over a server against the same by the path of the root, in one session.

The server is a process of its own on the machine of Spark's tasks, so it takes its share of the
same processors: on a cluster it would not.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.child import child_process
from bench.measure import Contestant, Experiment, Row
from bench.records import PARTITIONS, record_batches
from bench.serve.process import serve
from bench.spark import queries
from bench.spark.rates import SHARDS, ours, spark_process, warmed
from bench.workspace import await_compaction
from storage_core import Stream

_ROWS: Final = 2_000_000
_BATCH_ROWS: Final = 10_000
_NAME: Final = "bench"


@contextmanager
def _source(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    root = workspace / "root"
    root.mkdir()
    with Stream.create(root, _NAME, SHARDS) as stream:
        for batch in record_batches(_ROWS // _BATCH_ROWS, _BATCH_ROWS, shuffled=False):
            stream.append_batch(batch)
            stream.commit()
    await_compaction(root)
    with child_process(serve, root) as server, spark_process(workspace) as spark:
        address = f"127.0.0.1:{int(server.answer()['port'])}"

        def of(options: Mapping[str, str]) -> Contestant:
            return lambda: spark.run(
                queries.drain, workspace, source="shardlog", options=options, rows=_ROWS
            )

        by_path = ours(root, _NAME)
        by_server = {**{k: v for k, v in by_path.items() if k != "path"}, "server": address}
        yield warmed({"server": of(by_server), "path": of(by_path)})


SPARK_SERVED: Final = Experiment(
    "spark-served",
    (
        Row(
            "spark-served/source",
            f"our source over a server against by path, {_ROWS // 10**6} M rows of "
            f"{PARTITIONS} shards",
            ("server", "rate"),
            ("path", "rate"),
            limit=0.8,
            wanted=0.95,
        ),
        Row(
            "spark-served/source-cpu",
            "the same by Spark's processor time",
            ("server", "cpu_rate"),
            ("path", "cpu_rate"),
        ),
    ),
    _source,
    bytes_needed=2 * 2**30,
)

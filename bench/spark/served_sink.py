"""Spark's sink over a server against the same by the path of the root, in one session.

The server is a process of its own on the machine of Spark's tasks, so it takes its share of the
same processors: on a cluster it would not.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final

from bench.child import child_process
from bench.measure import Contestant, Experiment, Measured, Row
from bench.records import PARTITIONS
from bench.serve.process import serve
from bench.spark import queries
from bench.spark.rates import ROWS, SHARDS, spark_process, warmed, write_files
from storage_core import StagingArea, Stream, drop_stream
from storage_core.roots import make_root

_LOCK_WAIT_S: Final = 60.0


@contextmanager
def _sink(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    files, root = workspace / "files", workspace / "root"
    write_files(files)
    make_root(root)
    numbers = count()
    with (
        child_process(serve, root, is_writable=True) as server,
        spark_process(workspace) as spark,
    ):
        address = f"127.0.0.1:{int(server.answer()['port'])}"

        def run(**door: str) -> Measured:
            name = f"filled-{next(numbers)}"
            Stream.create(root, name, SHARDS).close()
            options = {**door, "stream": name}
            try:
                return spark.run(
                    queries.fill,
                    workspace,
                    sink="shardlog",
                    options=options,
                    files=files,
                    rows=ROWS,
                )
            finally:
                # Who has written it last keeps its shards for some seconds, unless somebody waits.
                area = StagingArea.open(root, name)
                area.open_shards(range(PARTITIONS), _LOCK_WAIT_S).close()
                drop_stream(root, name)

        yield warmed({"server": lambda: run(server=address), "path": lambda: run(path=str(root))})


SPARK_SERVED_SINK: Final = Experiment(
    "spark-served-sink",
    (
        Row(
            "spark-served-sink/rate",
            f"our sink over a server against by path, {ROWS // 10**6} M rows into "
            f"{PARTITIONS} shards",
            ("server", "rate"),
            ("path", "rate"),
            wanted=0.8,
        ),
        Row(
            "spark-served-sink/cpu",
            "the same by Spark's processor time",
            ("server", "cpu_rate"),
            ("path", "cpu_rate"),
        ),
    ),
    _sink,
    bytes_needed=8 * 2**30,
)

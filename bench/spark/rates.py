"""Spark, where much comes at once: the source against Kafka's, the sink against Parquet.

Both sides of a pair run in one session, one after the other: the same JVM, equally warm, the same
two task slots; each once before the clock counts. The same rows lie in the topic and in the shards:
a worker has stored them.
"""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.child import ChildProcess, answer_of
from bench.ingest.rates import filled_topic, ingest
from bench.measure import Contestant, Experiment, Measured, Row, VoidError, fast_enough
from bench.records import FIRST_PRIMARY, PARTITIONS, payload_array
from bench.spark import queries
from bench.workspace import await_compaction, empty_directory
from storage_core import Stream, StreamOptions
from tests.broker.support.spark_kafka import connector_jars

SHARDS: Final = StreamOptions(shards=PARTITIONS)
ROWS: Final = 2_000_000
_KAFKA_RATE_MIN: Final = 200_000
_KAFKA_COLUMNS: Final = "key,value,topic,partition,offset,timestamp,timestampType"
_DEVICES_A_FILE: Final = 250


@contextmanager
def spark_process(
    workspace: Path,
    jars: Sequence[str] = (),
    more: Mapping[str, str] | None = None,
    packages: Path | None = None,
) -> Iterator[ChildProcess]:
    """Start a session that ends with the block; void where there is no JVM.

    Args:
        workspace: For what Spark writes, and what it says.
        jars: Jars beside its own.
        more: Settings besides.
        packages: Where another PySpark lies.
    """
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        message = "Spark needs a JVM, 17 or later: install one, or set JAVA_HOME"
        raise VoidError(message)
    spark = ChildProcess(workspace / "spark.log", packages)
    try:
        spark.run(queries.start, workspace, jars, more)
        yield spark
    finally:
        spark.end()


def ours(root: Path, stream: str, **options: str) -> dict[str, str]:
    """Return the options that name a stream from its begin."""
    return {"path": str(root), "stream": stream, "startingOffsets": "earliest", **options}


def kafkas(bootstrap: str, topic: str) -> dict[str, str]:
    """Return the options that name a topic from its begin."""
    return {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
    }


def warmed(contestants: Mapping[str, Contestant], rounds: int = 1) -> Mapping[str, Contestant]:
    """Let each run so many times, and return them."""
    for _ in range(rounds):
        for contestant in contestants.values():
            contestant()
    return contestants


@contextmanager
def _source(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    root = workspace / "root"
    root.mkdir()
    with (
        filled_topic(workspace, ROWS, 100) as (bootstrap, topic),
        spark_process(workspace, connector_jars()) as spark,
    ):
        answer_of(ingest, bootstrap, topic, root, ROWS)
        await_compaction(root)

        def of(source: str, options: Mapping[str, str]) -> Contestant:
            return lambda: spark.run(
                queries.drain, workspace, source=source, options=options, rows=ROWS
            )

        kafka = of("kafka", kafkas(bootstrap, topic))
        yield warmed(
            {
                "ours": of("shardlog", ours(root, topic)),
                "kafka": lambda: fast_enough(kafka, _KAFKA_RATE_MIN, "Spark's Kafka source"),
                "ours, Kafka's columns": of("shardlog", ours(root, topic, columns=_KAFKA_COLUMNS)),
            }
        )


@contextmanager
def _sink(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    files = workspace / "files"
    write_files(files)
    with spark_process(workspace) as spark:

        def run(sink: str, **options: str) -> Measured:
            return spark.run(
                queries.fill, workspace, sink=sink, options=options, files=files, rows=ROWS
            )

        def shardlog() -> Measured:
            with empty_directory(workspace) as root:
                Stream.create(root, "filled", SHARDS).close()
                return run("shardlog", path=str(root), stream="filled")

        def parquet() -> Measured:
            with empty_directory(workspace) as place:
                return run("parquet", path=str(place))

        yield warmed({"ours": shardlog, "parquet": parquet})


def write_files(place: Path) -> None:
    """Write records as Parquet, the rows of an id in one file and in order."""
    place.mkdir()
    count = ROWS // PARTITIONS
    for number in range(PARTITIONS):
        places = np.arange(count)
        ids = number * _DEVICES_A_FILE + places % _DEVICES_A_FILE
        table = pa.table(
            {
                "primary": pa.array(FIRST_PRIMARY + places * PARTITIONS + number),
                "secondary": pa.array(ids.astype(np.int32)),
                "value": payload_array(count, 100, seed=number),
            }
        )
        options: dict[str, Any] = {"compression": "none", "use_dictionary": False}
        pq.write_table(table, place / f"{number}.parquet", **options)


def _against(experiment: str, peer: str, text: str, limit: float, wanted: float) -> tuple[Row, ...]:
    """Return the rows of ours against a peer: its batches' time, the query's, the processors'."""
    return (
        Row(
            f"{experiment}/{peer}",
            text,
            ("ours", "rate"),
            (peer, "rate"),
            limit=limit,
            wanted=wanted,
        ),
        *(
            Row(
                f"{experiment}/{peer}-{kind}",
                f"the same {of_what}",
                ("ours", f"{kind}_rate"),
                (peer, f"{kind}_rate"),
            )
            for kind, of_what in (
                ("query", "from the start of a query to its end"),
                ("cpu", "by Spark's processor time"),
            )
        ),
    )


SPARK_SOURCE: Final = Experiment(
    "spark-source",
    (
        *_against(
            "spark-source",
            "kafka",
            "our source against Spark's Kafka source on the topic the rows came from",
            limit=2,
            wanted=4,
        ),
        Row(
            "spark-source/columns",
            "the same where ours gives Kafka's seven columns and no more",
            ("ours, Kafka's columns", "rate"),
            ("kafka", "rate"),
        ),
    ),
    _source,
    bytes_needed=6 * 2**30,
)
SPARK_SINK: Final = Experiment(
    "spark-sink",
    _against(
        "spark-sink",
        "parquet",
        "our sink, durable and exactly once, against Spark's Parquet sink",
        limit=0.4,
        wanted=1,
    ),
    _sink,
    bytes_needed=4 * 2**30,
)

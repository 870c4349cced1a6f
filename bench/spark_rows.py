"""Spark: the source against Kafka's and against nothing, the sink against Parquet, small batches.

Both sides of a pair run in one session (bench/spark_process.py), each once before the clock
counts. The same rows lie in the topic and in the shards: a worker has stored them.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.ingest_rows import filled_topic
from bench.measure import Contestant, Experiment, Measured, Row
from bench.records import FIRST_PRIMARY, PARTITIONS, payload_array
from bench.spark_process import spark_process
from bench.void import fast_enough
from bench.workspace import KAFKA_TASKS, await_compaction, child_process, empty_directory
from storage_core import Stream, StreamOptions
from tests.broker.spark_kafka import connector_jars

SOURCE_ROWS: Final = 2_000_000
SINK_ROWS: Final = 2_000_000
KAFKA_RATE_MIN: Final = 200_000
_KAFKA_COLUMNS: Final = "key,value,topic,partition,offset,timestamp,timestampType"
_DEVICES_A_FILE: Final = 250


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


@contextmanager
def _source(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    root = workspace / "root"
    root.mkdir()
    with (
        filled_topic(workspace, SOURCE_ROWS, 100) as (bootstrap, topic),
        spark_process(workspace, connector_jars()) as spark,
    ):
        arguments = ("ingest", bootstrap, topic, root, SOURCE_ROWS)
        with child_process(*arguments, module=KAFKA_TASKS) as child:
            child.answer()
        await_compaction(root)

        def of(source: str, options: Mapping[str, str]) -> Contestant:
            return lambda: spark.run("drain", source=source, options=options, rows=SOURCE_ROWS)

        kafka = of("kafka", kafkas(bootstrap, topic))
        contestants = {
            "ours": of("shardlog", ours(root, topic)),
            "kafka": lambda: fast_enough(kafka, KAFKA_RATE_MIN, "Spark's Kafka source"),
            "synthetic": of("synthetic", {"rows": str(SOURCE_ROWS)}),
            "ours, Kafka's columns": of("shardlog", ours(root, topic, columns=_KAFKA_COLUMNS)),
        }
        yield warmed(contestants)


def warmed(contestants: Mapping[str, Contestant], rounds: int = 1) -> Mapping[str, Contestant]:
    """Let each run so many times, and return them."""
    for _ in range(rounds):
        for contestant in contestants.values():
            contestant()
    return contestants


@contextmanager
def _sink(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    files = workspace / "files"
    write_files(files, SINK_ROWS)
    with spark_process(workspace) as spark:

        def run(sink: str, **options: str) -> Measured:
            arguments: dict[str, Any] = {"sink": sink, "options": options}
            return spark.run("fill", **arguments, files=str(files), rows=SINK_ROWS)

        def shardlog() -> Measured:
            with empty_directory(workspace) as root:
                Stream.create(root, "filled", StreamOptions(shards=PARTITIONS)).close()
                return run("shardlog", path=str(root), stream="filled")

        def parquet() -> Measured:
            with empty_directory(workspace) as place:
                return run("parquet", path=str(place))

        yield warmed({"ours": shardlog, "parquet": parquet})


def write_files(place: Path, rows: int) -> None:
    """Write records as Parquet, the rows of an id in one file and in order."""
    place.mkdir()
    count = rows // PARTITIONS
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


SPARK_SOURCE: Final = Experiment(
    "spark-source",
    (
        Row(
            "spark-source/kafka",
            "our source against Spark's Kafka source on the topic the rows came from",
            ("ours", "rate"),
            ("kafka", "rate"),
            limit=2,
            wanted=4,
        ),
        Row(
            "spark-source/kafka-query",
            "the same from the start of a query to its end",
            ("ours", "query_rate"),
            ("kafka", "query_rate"),
        ),
        Row(
            "spark-source/kafka-cpu",
            "the same by Spark's processor time, the broker's left out",
            ("ours", "cpu_rate"),
            ("kafka", "cpu_rate"),
        ),
        Row(
            "spark-source/columns",
            "the same where ours gives Kafka's seven columns and no more",
            ("ours, Kafka's columns", "rate"),
            ("kafka", "rate"),
        ),
        Row(
            "spark-source/synthetic",
            "our source against a Python source of ready Arrow batches, as many and as wide",
            ("ours", "rate"),
            ("synthetic", "rate"),
            limit=0.5,
            wanted=0.9,
        ),
        Row(
            "spark-source/synthetic-cpu",
            "the same by processor time",
            ("ours", "cpu_rate"),
            ("synthetic", "cpu_rate"),
        ),
    ),
    _source,
    bytes_needed=6 * 2**30,
)
SPARK_SINK: Final = Experiment(
    "spark-sink",
    (
        Row(
            "spark-sink/parquet",
            "our sink, durable and exactly once, against Spark's Parquet sink",
            ("ours", "rate"),
            ("parquet", "rate"),
            limit=0.4,
            wanted=1,
        ),
        Row(
            "spark-sink/parquet-query",
            "the same from the start of a query to its end",
            ("ours", "query_rate"),
            ("parquet", "query_rate"),
        ),
        Row(
            "spark-sink/parquet-cpu",
            "the same by processor time",
            ("ours", "cpu_rate"),
            ("parquet", "cpu_rate"),
        ),
    ),
    _sink,
    bytes_needed=4 * 2**30,
)

"""Spark, where little comes at a time: micro-batches, latency; and the memory of a worker.

A micro-batch costs Spark much by itself. What ours add to that is a difference: the median time
of a micro-batch with us in it less that of one without, in one session.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Final

from bench.child import answer_of, child_process
from bench.ingest.rates import ingest
from bench.log.large import write_much
from bench.measure import Contestant, Experiment, Measured, Row, check_pace
from bench.records import PARTITIONS, record_batches
from bench.spark import queries
from bench.spark.rates import SHARDS, kafkas, ours, spark_process, warmed
from bench.topics import make_topic
from bench.workspace import await_shards, empty_directory
from connectors.devtools.broker import BROKER
from connectors.devtools.server import Server
from storage_core import Stream
from tests.broker.support.spark_kafka import connector_jars

_BATCHES: Final = 12
_STREAM_BATCHES: Final = 100
_PACE: Final = 1000
_PACE_SECONDS: Final = 12
# A micro-batch of either side takes half the time once the JVM has compiled a hundred of them.
_LATENCY_WARM_ROUNDS: Final = 3


@contextmanager
def _small_source(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    root = workspace / "root"
    with Stream.create(root, "filled", SHARDS) as stream:
        for batch in record_batches(_STREAM_BATCHES, queries.SMALL_ROWS):
            stream.append_batch(batch)
            stream.commit()
    tail = ours(root, "filled", maxOffsetsPerTrigger=str(queries.SMALL_ROWS))
    idle = {**ours(root, "filled"), "startingOffsets": "latest"}
    with spark_process(workspace) as spark:

        def run(
            source: str, options: Mapping[str, str] | None = None, shape: str = "rows"
        ) -> Contestant:
            return lambda: spark.run(
                queries.small_batches,
                workspace,
                source=source,
                options=options,
                batches=_BATCHES,
                shape=shape,
            )

        yield warmed(
            {
                "built in": run("rate-micro-batch"),
                "ours": run("shardlog", tail),
                "idle": run("shardlog", idle, "beside"),
            }
        )


@contextmanager
def _small_sink(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    with spark_process(workspace) as spark:

        def into(sink: str, shape: str) -> Contestant:
            def contestant() -> Measured:
                with empty_directory(workspace) as place:
                    named = {"stream": "written"} if sink == "shardlog" else {}
                    return spark.run(
                        queries.small_batches,
                        workspace,
                        sink=sink,
                        sink_options={"path": str(place), **named},
                        batches=_BATCHES,
                        shape=shape,
                    )

            return contestant

        yield warmed(
            {
                "ours": into("shardlog", "rows"),
                "parquet": into("parquet", "rows"),
                "ours, empty": into("shardlog", "none"),
                "parquet, empty": into("parquet", "none"),
            }
        )


@contextmanager
def _latency(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    numbers = count()
    with (
        Server(BROKER, workspace / "broker") as broker,
        spark_process(workspace, connector_jars()) as spark,
    ):

        def follow(*, is_ours: bool = False, through_files: bool = False) -> Measured:
            topic = f"paced{next(numbers)}"
            make_topic(broker.address, topic)
            with ExitStack() as running:
                options = kafkas(broker.address, topic)
                if is_ours:
                    root = running.enter_context(empty_directory(workspace))
                    arguments = (broker.address, topic, root, _PACE * _PACE_SECONDS)
                    running.enter_context(child_process(ingest, *arguments))
                    await_shards(root, topic, PARTITIONS)
                    options = ours(root, topic)
                measured = spark.run(
                    queries.follow,
                    workspace,
                    source="shardlog" if is_ours else "kafka",
                    options=options,
                    bootstrap=broker.address,
                    topic=topic,
                    rate=_PACE,
                    seconds=_PACE_SECONDS,
                    through_files=through_files,
                )
            check_pace(measured["pace_rate"], _PACE)
            return measured

        yield warmed(
            {
                "ours": lambda: follow(is_ours=True),
                "kafka": follow,
                "files": lambda: follow(through_files=True),
            },
            _LATENCY_WARM_ROUNDS,
        )


@contextmanager
def _memory(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    rows = int(answer_of(write_much, workspace)["records"])
    with spark_process(workspace) as spark:
        options = ours(workspace, "bench")
        yield {
            "worker": lambda: spark.run(
                queries.worker_memory, workspace, options=options, rows=rows
            )
        }


def _added(name: str, text: str, top: str, bottom: str) -> Row:
    return Row(
        f"spark-small-{name}",
        text,
        (top, "seconds"),
        (bottom, "seconds"),
        "at most",
        limit=0.1,
        wanted=0.02,
        compared="difference",
    )


SPARK_SMALL_SOURCE: Final = Experiment(
    "spark-small-source",
    (
        _added(
            "source/rows",
            "a micro-batch of 1,000 rows from our source, less one from rate-micro-batch",
            *("ours", "built in"),
        ),
        _added(
            "source/idle",
            "the same where our source has nothing new beside the built-in one",
            *("idle", "built in"),
        ),
    ),
    _small_source,
)
SPARK_SMALL_SINK: Final = Experiment(
    "spark-small-sink",
    (
        _added(
            "sink/rows",
            "a micro-batch of 1,000 rows into our sink, less one into Parquet",
            *("ours", "parquet"),
        ),
        _added(
            "sink/empty",
            "a micro-batch of no rows into our sink, less one into Parquet",
            *("ours, empty", "parquet, empty"),
        ),
    ),
    _small_sink,
)
SPARK_LATENCY: Final = Experiment(
    "spark-latency",
    (
        Row(
            "spark-latency/p50",
            "produce to `foreachBatch` at 1,000 records/s through a worker, against Kafka's source",
            ("ours", "p50"),
            ("kafka", "p50"),
            "at most",
            limit=1.5,
            wanted=1.15,
        ),
        *(
            Row(
                f"spark-latency/{name}-{share}",
                f"{text}, {share}",
                (name, share),
                sense="at most" if name == "ours" else None,
            )
            for name, text in (
                ("ours", "produce to `foreachBatch` through a worker and our source"),
                ("kafka", "the same through Spark's Kafka source"),
                ("files", "the same through Kafka's source, Parquet and a second query"),
            )
            for share in ("p50", "p99")
        ),
    ),
    _latency,
)
SPARK_MEMORY: Final = Experiment(
    "spark-memory",
    (
        Row(
            "spark-memory/worker",
            "peak memory of a Python worker of Spark that reads 5 GB",
            ("worker", "memory_bytes"),
            sense="at most",
            limit=500 * 10**6,
            wanted=300 * 10**6,
        ),
    ),
    _memory,
    rounds_max=1,
    bytes_needed=12 * 2**30,
)

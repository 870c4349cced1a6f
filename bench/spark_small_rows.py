"""Spark, where little comes at a time: micro-batches, latency; and the memory of a worker.

A micro-batch costs Spark much by itself. What ours add to that is a difference: the median time
of a micro-batch with us in it less that of one without, in one session.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import count
from pathlib import Path
from typing import Any, Final

from bench.measure import Contestant, Experiment, Measured, Row
from bench.records import PARTITIONS, record_batches
from bench.spark_process import spark_process
from bench.spark_rows import kafkas, ours, warmed
from bench.stored import await_shards
from bench.void import check_pace
from bench.workspace import KAFKA_TASKS, child_process, empty_directory
from connectors.dev_stack.broker import BROKER
from connectors.dev_stack.server import Server
from connectors.kafka_client import create_topic
from storage_core import Stream, StreamOptions, StreamReader
from tests.broker.spark_kafka import connector_jars

BATCHES: Final = 12
PACE: Final = 1000
PACE_SECONDS: Final = 12
MEMORY_BYTES: Final = 5 * 10**9
# A micro-batch of either side takes half the time once the JVM has compiled a hundred of them.
_LATENCY_WARM_ROUNDS: Final = 3
_SMALL_ROWS: Final = 1000
_STREAM_ROWS: Final = 100_000


@contextmanager
def _small_source(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    root = workspace / "root"
    with Stream.create(root, "filled", StreamOptions(shards=PARTITIONS)) as stream:
        for batch in record_batches(_STREAM_ROWS // _SMALL_ROWS, _SMALL_ROWS):
            stream.append_batch(batch)
            stream.commit()
    tail = ours(root, "filled", maxOffsetsPerTrigger=str(_SMALL_ROWS))
    idle = {**ours(root, "filled"), "startingOffsets": "latest"}
    ready = {"rows": str(_STREAM_ROWS), "step": str(_SMALL_ROWS)}
    with spark_process(workspace) as spark:

        def of(**arguments: object) -> Contestant:
            return lambda: spark.run("small", batches=BATCHES, **arguments)

        yield warmed(
            {
                "built in": of(),
                "ours": of(source="shardlog", options=tail),
                "idle": of(source="shardlog", options=idle, shape="beside"),
                "synthetic": of(source="synthetic", options=ready),
                "synthetic, one task": of(source="synthetic", options={**ready, "tasks": "1"}),
            }
        )


@contextmanager
def _small_sink(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    with spark_process(workspace) as spark:

        def into(sink: str, shape: str) -> Contestant:
            def contestant() -> Measured:
                with empty_directory(workspace) as place:
                    named = {"stream": "written"} if sink == "shardlog" else {}
                    options = {"path": str(place), **named}
                    return spark.run(
                        "small", batches=BATCHES, sink=sink, sink_options=options, shape=shape
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
            create_topic(broker.address, topic, PARTITIONS)
            with empty_directory(workspace) as root:
                worker: AbstractContextManager[Any] = nullcontext()
                if is_ours:
                    arguments = ("ingest", broker.address, topic, root, PACE * PACE_SECONDS)
                    worker = child_process(*arguments, module=KAFKA_TASKS)
                with worker:
                    if is_ours:
                        await_shards(root, topic, PARTITIONS)
                    measured = spark.run(
                        "follow",
                        source="shardlog" if is_ours else "kafka",
                        options=ours(root, topic) if is_ours else kafkas(broker.address, topic),
                        bootstrap=broker.address,
                        topic=topic,
                        rate=PACE,
                        seconds=PACE_SECONDS,
                        through_files=through_files,
                    )
            check_pace(measured["pace_rate"], PACE)
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
    Stream.create(workspace, "bench", StreamOptions(shards=1)).close()
    with child_process("write_much", workspace, "bench", MEMORY_BYTES) as child:
        child.answer()
    with StreamReader.open(workspace, "bench") as reader:
        rows = sum(reader.committed().values())
    with spark_process(workspace) as spark:
        yield {
            "worker": lambda: spark.run("memory", options=ours(workspace, "bench"), rows=rows),
        }


def _added(name: str, text: str, top: str, bottom: str, *, is_judged: bool = True) -> Row:
    return Row(
        f"spark-small-{name}",
        text,
        (top, "seconds"),
        (bottom, "seconds"),
        "at most",
        limit=0.1 if is_judged else None,
        wanted=0.02 if is_judged else None,
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
        _added(
            "source/synthetic",
            "a micro-batch of 1,000 rows from our source, less one from a Python source of nothing",
            *("ours", "synthetic"),
            is_judged=False,
        ),
        _added(
            "source/tasks",
            "1,000 rows from a Python source of nothing in four tasks, less as many in one",
            *("synthetic", "synthetic, one task"),
            is_judged=False,
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
            Row(f"spark-latency/{name}-{share}", f"{text}, {share}", (name, share), sense="at most")
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
        Row(
            "spark-memory/rate",
            "what it reads, payloads of one kilobyte",
            ("worker", "rate"),
        ),
    ),
    _memory,
    rounds_max=1,
    bytes_needed=12 * 2**30,
)

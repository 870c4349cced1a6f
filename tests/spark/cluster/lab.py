"""The words of tests of a cluster: a stream that is served, and what a driver does with it.

    lab.log.create(); lab.log.append(10)    the writer's side, in this process
    lab.options(ids="3")                    options that name the stream by its server
    driver.do(numbers, lab.options())       what a batch reads, there
    driver.do(start_query, …)               a query into another stream of the server
    lab.landed()                            the numbers of its rows, as often as they are

What drivers do is below; they run it, not this process.
"""

from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from storage_core import StreamReader, list_streams
from tests.spark.cluster.driver import Driver
from tests.spark.cluster.serving import ServeCommand
from tests.unit.streaming_jobs.source.source_lab import SourceLab
from tests.waiting import await_that

# The stream that queries write to.
INTO: Final = "landed"
EARLY: Final = {"startingOffsets": "earliest"}
WRITE_TOKEN: Final = "of-those-who-write"  # noqa: S105 - of a test
# A job of a crowded machine.
JOB_MAX_S: Final = 600.0
Options = dict[str, str]


class ClusterLab:
    """One stream on a disk that no machine sees, and its server."""

    def __init__(self, place: Path, known_tokens: Path) -> None:
        place.mkdir()
        self.place = place
        self._into: StreamReader | None = None
        self.log = SourceLab(place / "root")
        self.server = ServeCommand(self.log.root, "--write-token-file", str(known_tokens))

    def serve(self) -> None:
        """Serve the root, which some stream has made."""
        self.server.start()
        self.log.servers = self.server.address

    def options(self, **options: object) -> Options:
        """Return options that name the stream, and these."""
        return self.log.options(**options)

    def landed_count(self) -> int:
        """Return how many rows are in the stream that queries write to; asked often."""
        if self._into is None:
            if INTO not in list_streams(self.log.root):
                return 0
            self._into = StreamReader.open(self.log.root, INTO)
        return sum(self._into.refresh().values())

    def landed(self) -> list[int]:
        """Return the numbers in the stream that queries write to, as often as they are, sorted."""
        if INTO not in list_streams(self.log.root):
            return []
        with StreamReader.open(self.log.root, INTO) as reader:
            payloads: Any = reader.read(columns=["payload"]).column("payload")
            return sorted(int(payload) for payload in payloads.to_pylist())

    def end(self) -> None:
        """Let the writer, the reader and the server go."""
        if self._into is not None:
            self._into.close()
        self.server.kill()
        self.log.close()


def await_landed(driver: Driver, lab: ClusterLab, count: int) -> None:
    """Wait until so many rows have landed by a query, which must not fail."""

    def have_landed() -> bool:
        if lab.landed_count() >= count:
            return True
        error = driver.do(failure)
        assert error is None, error
        return False

    await_that(have_landed, lambda: f"{count} rows: {lab.landed()}", JOB_MAX_S)


# --- what drivers do --------------------------------------------------------------------------


def frame_of(spark: SparkSession, options: Options) -> DataFrame:
    """Return a batch."""
    return spark.read.format("shardlog").options(**options).load()


def rows(spark: SparkSession, options: Options, columns: list[str]) -> list[list[Any]]:
    """Return columns of a batch, sorted."""
    return sorted([*row] for row in frame_of(spark, options).select(*columns).collect())


def numbers(spark: SparkSession, options: Options) -> list[int]:
    """Return the numbers that the values of a batch tell, sorted."""
    return sorted(int(row.value) for row in frame_of(spark, options).select("value").collect())


def write_numbers(spark: SparkSession, options: Options) -> None:
    """Write rows that tell their numbers, 1000 to 1009, from two tasks."""
    frame = spark.range(1000, 1010, 1, 2).selectExpr(
        "id as primary", "cast(id as int) as secondary", "cast(id as string) as value"
    )
    frame.write.format("shardlog").options(**options).mode("append").save()


def start_query(spark: SparkSession, options: Options, into: Options, checkpoint: str) -> None:
    """Start a query that writes what it reads to another stream."""
    frame = spark.readStream.format("shardlog").options(**options).load()
    writer = frame.select("primary", "secondary", "value").writeStream.format("shardlog")
    writer = writer.options(**into).option("checkpointLocation", checkpoint)
    writer.trigger(processingTime="0 seconds").start()


def failure(spark: SparkSession) -> str | None:
    """Return why a query has failed; None while all go on."""
    for query in spark.streams.active:
        error = query.exception()
        if error is not None:
            return str(error)
    return None if spark.streams.active else "no query runs"


def finish_queries(spark: SparkSession) -> None:
    """Let each query take what there is by now, and stop."""
    for query in spark.streams.active:
        query.processAllAvailable()
        query.stop()


def stop_queries(spark: SparkSession) -> None:
    """Stop each query."""
    for query in spark.streams.active:
        query.stop()


def machines(spark: SparkSession, disk: str, lacked: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return what each machine of two has: one task on each, at the same time."""

    def look(_: Any) -> Any:
        import os  # noqa: PLC0415 - runs where there are no tests
        import socket  # noqa: PLC0415
        from importlib.util import find_spec  # noqa: PLC0415

        import storage_core  # noqa: PLC0415

        try:
            seen: Any = os.listdir(disk)  # noqa: PTH208
        except PermissionError:
            seen = []
        yield {
            "host": socket.gethostname(),
            "work": os.getcwd(),  # noqa: PTH109
            "disk": seen,
            "lacks": [name for name in lacked if find_spec(name) is None],
            "shipped as": storage_core.__file__,
            "token file": os.environ.get("SHARDLOG_SERVER_TOKEN_FILE"),
        }

    two = spark.sparkContext.parallelize(range(2), 2)
    return two.barrier().mapPartitions(look).collect()

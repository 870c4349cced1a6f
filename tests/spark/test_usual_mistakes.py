"""Usual mistakes of Spark's users: each ends with the line in docs/SPARK.md, and lands no row.

Most are refused by Spark itself, before it calls anything of a Python source but its name. So the
document says what Spark says, and what to write instead; each of its rows is a scenario here, by
the text of the first cell, and runs on each PySpark (`make spark-versions`).
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from streaming_jobs.common.spark_features import HAS_ADMISSION
from tests.spark.support.lab import first_line
from tests.spark.support.sink_lab import NAME, QUERY_SECONDS_MAX, SinkLab, files_of
from tests.tidy.tree import ROOT

DOCUMENT: Final = ROOT / "docs/SPARK.md"
ROW: Final = re.compile(r"\| (?P<written>.+?) \| (?P<said>.+?) \| .+ \|")
HEADS: Final = ("---", "written")
# Of these tests/spark/source/test_servers.py has scenarios.
OF_SERVERS: Final = {"a server that is not there", "no token, or TLS to a server without"}
WORDS: Final = re.compile(r"`` ?(?P<words>.+?) ?``|`(?P<word>[^`]+)`")


@dataclass(frozen=True)
class Mistakes:
    """A stream of one row, files to stream from, and checkpoints of each mistake's own."""

    sink: SinkLab
    place: Path

    @property
    def spark(self) -> SparkSession:
        return self.sink.spark

    @property
    def root(self) -> str:
        return str(self.sink.root)

    def batch(self, mode: str | None = "append") -> Any:
        """Return a writer of a batch, as far as it is right."""
        writer = self.sink.frame([2]).write.format("shardlog").options(**self.sink.options())
        return writer if mode is None else writer.mode(mode)

    def load(self) -> Any:
        """Return a reader of batches that has no options yet."""
        return self.spark.read.format("shardlog")

    def tail(self, stream: str = NAME) -> DataFrame:
        """Return a stream of the root as a stream."""
        reader = self.spark.readStream.format("shardlog").option("startingOffsets", "earliest")
        return reader.options(path=self.root, stream=stream).load()

    def files(self) -> DataFrame:
        """Return files as a stream."""
        return files_of(self.spark, self.sink.input)

    def run(
        self,
        frame: DataFrame,
        *,
        into: str = "noop",
        output: str = "append",
        checkpoint: Path | None = None,
        **trigger: Any,
    ) -> None:
        """Run a query to its end; by a checkpoint of its own unless one is given."""
        writer = frame.writeStream.format(into).outputMode(output)
        if into == "shardlog":
            writer = writer.options(**self.sink.options())
        writer = writer.option("checkpointLocation", str(checkpoint or self.place / "checkpoint"))
        query = writer.trigger(**(trigger or {"availableNow": True})).start()
        try:
            assert query.awaitTermination(QUERY_SECONDS_MAX), "the query goes on"
        finally:
            query.stop()

    def run_in_turn(self, *frames: DataFrame) -> None:
        """Run queries over frames by one checkpoint, one after the other."""
        for frame in frames:
            self.run(frame)


def _counted(frame: DataFrame) -> DataFrame:
    return frame.groupBy("primary").count()


def _without_checkpoint(lab: Mistakes) -> None:
    writer = lab.files().writeStream.format("shardlog").options(**lab.sink.options())
    writer.trigger(availableNow=True).start()


SCENARIOS: Final[dict[str, Callable[[Mistakes], object]]] = {
    "`.partitionBy(…).save()`": lambda lab: lab.batch().partitionBy("secondary").save(),
    "`.clusterBy(…).save()`": lambda lab: lab.batch().clusterBy("secondary").save(),
    "`.bucketBy(…).save()`": lambda lab: lab.batch().bucketBy(4, "secondary").save(),
    "`.save()` without a mode": lambda lab: lab.batch(None).save(),
    '`mode("errorifexists")`': lambda lab: lab.batch("errorifexists").save(),
    '`mode("ignore")`': lambda lab: lab.batch("ignore").save(),
    '`mode("overwrite")`': lambda lab: lab.batch("overwrite").save(),
    '`outputMode("update")`': lambda lab: lab.run(lab.files(), into="shardlog", output="update"),
    '`outputMode("complete")`': lambda lab: lab.run(
        lab.files(), into="shardlog", output="complete"
    ),
    '`outputMode("complete")` of an aggregation': lambda lab: lab.run(
        _counted(lab.files()), into="shardlog", output="complete"
    ),
    "an aggregation without a watermark": lambda lab: lab.run(
        _counted(lab.files()), into="shardlog"
    ),
    "a query without `checkpointLocation`": _without_checkpoint,
    "`trigger(continuous=…)`": lambda lab: lab.run(lab.tail(), continuous="1 second"),
    "`trigger(realTime=…)`, from 4.2": lambda lab: lab.run(
        lab.tail(), into="shardlog", realTime="5 seconds"
    ),
    "`write` of a stream": lambda lab: lab.tail().write.format("noop").mode("append").save(),
    "`writeStream` of a batch": lambda lab: lab.sink.frame([2]).writeStream.format("shardlog"),
    "a checkpoint of another source": lambda lab: lab.run_in_turn(lab.files(), lab.tail()),
    "our checkpoint for another source": lambda lab: lab.run_in_turn(lab.tail(), lab.files()),
    "our checkpoint for another stream": lambda lab: lab.run_in_turn(lab.tail(), lab.tail("other")),
    "a query with one source more than its checkpoint": lambda lab: lab.run_in_turn(
        lab.files(), lab.files().union(lab.files())
    ),
    "`load()` without options": lambda lab: lab.load().load(),
    "`load()` without a path": lambda lab: lab.load().option("stream", "s").load(),
    "`load(path)` without a stream": lambda lab: lab.load().load(lab.root),
    "`load([one, other])`": lambda lab: lab.load().load([lab.root, "/other"]),
    "`.schema(…)`": lambda lab: (
        lab.load().schema("a int").option("stream", "s").load(lab.root).count()
    ),
    "`path` and `server`": lambda lab: (
        lab.load().options(path=lab.root, server="a:8085", stream="s").load()
    ),
    "`token`, `caFile` and their like as options": lambda lab: (
        lab.load().options(server="a:8085", stream="s").option("token", "x").load()
    ),
}


def rows_of_the_document() -> Iterator[tuple[str, list[str]]]:
    """Yield what each row of the table has in its first cell, and the words of its second."""
    _, _, after = DOCUMENT.read_text(encoding="utf-8").partition("\n## Usual mistakes\n")
    section, _, _ = after.partition("\n## ")
    for row in ROW.finditer(section):
        if row["written"] not in HEADS:
            words = WORDS.finditer(row["said"])
            yield row["written"], [word["words"] or word["word"] for word in words]


SAID: Final = dict(rows_of_the_document())


@pytest.fixture(scope="module")
def sink(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SinkLab:
    """One stream that all mistakes are made beside."""
    lab = SinkLab(spark, tmp_path_factory.mktemp("mistakes"))
    lab.write([1])
    lab.write([1], stream="other")
    lab.feed(2)
    return lab


def test_each_row_of_the_table_is_a_scenario():
    assert SAID.keys() == SCENARIOS.keys() | OF_SERVERS


@pytest.mark.parametrize("written", sorted(SCENARIOS))
def test_mistake_ends_with_the_line_of_the_table_and_lands_no_row(sink, tmp_path, written):
    if written.endswith("from 4.2") and not HAS_ADMISSION:
        pytest.skip("this PySpark has no such trigger")
    with pytest.raises(PySparkException) as raised:
        SCENARIOS[written](Mistakes(sink, tmp_path))
    said = first_line(raised.value)
    assert SAID[written]
    assert [words for words in SAID[written] if words not in said] == []
    assert (sink.stored, sink.staged) == ([1], [])


PARTING: Final[dict[str, Callable[[Any], Any]]] = {
    "partitionBy": lambda writer: writer.partitionBy("secondary"),
    "clusterBy": lambda writer: writer.clusterBy("secondary"),
    "bucketBy": lambda writer: writer.bucketBy(4, "secondary"),
}


@pytest.mark.parametrize("name", PARTING)
def test_table_that_is_parted_by_a_column_lands_its_rows_where_they_belong(lab, tmp_path, name):
    """Spark tells no sink of it, nor of the mode: a row's shard is the log's."""
    sink = SinkLab(lab.spark, tmp_path / "written")
    writer = sink.frame([2]).write.format("shardlog").options(**sink.options())
    PARTING[name](writer).saveAsTable("made")
    assert sink.stored == [2]


@pytest.mark.parametrize("name", ["partitionBy", "clusterBy"])
def test_query_that_is_parted_by_a_column_lands_its_rows_where_they_belong(spark, tmp_path, name):
    sink = SinkLab(spark, tmp_path)
    sink.feed(2)
    writer = files_of(spark, sink.input).writeStream.format("shardlog").options(**sink.options())
    writer = PARTING[name](writer).option("checkpointLocation", str(sink.checkpoint))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(QUERY_SECONDS_MAX), "the query goes on"
    assert sink.stored == [2]

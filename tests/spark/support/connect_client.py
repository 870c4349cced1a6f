"""A client of Spark Connect: what a user's program does there, with what it saw as JSON.

    python -m tests.spark.support.connect_client SERVER PLACE ROOT SERVERS

The stream is in ROOT, and SERVERS are over it; checkpoints and files are in PLACE.
"""

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streaming_jobs.jobs.drain_late import drain_late
from streaming_jobs.jobs.land_topic import land_topic
from streaming_jobs.jobs.roll_up import roll_up
from streaming_jobs.jobs.roots import options_of
from streaming_jobs.jobs.stream_query import start_to_end
from tests.spark.support.lab import NAME, SECONDS_MAX, TO_END, first_line
from tests.spark.support.rollup_lab import FIELD
from tests.spark.support.rollup_lab import NAME as READINGS

ROWS_A_BATCH = 7


class Client:
    """One session, and the stream by a way to its root."""

    def __init__(self, spark: SparkSession, place: Path, root: str) -> None:
        self.spark = spark
        self.place = place
        self.root = root

    def batch(self) -> list[int]:
        """Read what is there."""
        return numbers_of(self.reader().load())

    def reader(self, **options: Any) -> Any:
        return self.spark.read.format("shardlog").options(
            **options_of(self.root), stream=NAME, **options
        )

    def sunk(self, stream: str) -> None:
        """Read as a stream, in batches, and write each to another."""
        to_end: dict[str, Any] = TO_END
        source = self.spark.readStream.format("shardlog").options(**to_end)
        source = source.options(startingOffsets="earliest", maxOffsetsPerTrigger=ROWS_A_BATCH)
        frame = source.options(**options_of(self.root), stream=NAME).load()
        writer = frame.writeStream.format("shardlog").options(**options_of(self.root))
        writer = writer.option("checkpointLocation", str(self.place / stream))
        ended(start_to_end(writer.option("stream", stream)))

    def written_twice(self, stream: str) -> None:
        """Write a batch, and the same again."""
        for _ in range(2):
            writer = self.reader().load().write.format("shardlog").mode("append")
            writer = writer.options(**options_of(self.root), stream=stream)
            writer.options(txnAppId="connect", txnVersion=1).save()

    def landed(self) -> None:
        """Land the stream as files."""
        options: dict[str, Any] = {"once": True, "max_rows": ROWS_A_BATCH}
        ended(land_topic(self.spark, self.root, NAME, self.place / "lake", **options))

    def drained(self) -> None:
        """Write the late rows as corrections."""
        ended(drain_late(self.spark, self.root, NAME, checkpoint=self.place / "late", once=True))

    def rolled_up(self) -> None:
        """Roll readings up."""
        options: dict[str, Any] = {"levels": "hour", "zone": "Europe/Berlin", "once": True}
        checkpoint = self.place / "rolled"
        ended(roll_up(self.spark, self.root, READINGS, FIELD, checkpoint=checkpoint, **options))

    def mistake(self) -> str:
        """Name an option that is none; return what is told."""
        try:
            self.reader(maxRows=1).load().collect()
        except PySparkException as error:
            return first_line(error)
        return ""


def numbers_of(frame: DataFrame) -> list[int]:
    return sorted(int(row.value) for row in frame.select("value").collect())


def ended(query: StreamingQuery) -> None:
    assert query.awaitTermination(SECONDS_MAX), "the query goes on"


def main(address: str, place: Path, root: str, servers: str) -> None:
    """Do all once."""
    spark = SparkSession.Builder().remote(address).getOrCreate()
    by_path, by_server = (Client(spark, place, one) for one in (root, servers))
    seen: dict[str, object] = {"kind": type(spark).__module__}
    seen["batches"] = [by_path.batch(), by_server.batch()]
    seen["mistake"] = by_path.mistake()
    by_path.written_twice("written")
    by_server.sunk("sunk")
    by_server.landed()
    by_server.drained()
    by_path.rolled_up()
    print(json.dumps(seen))  # noqa: T201 - the test reads it
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])

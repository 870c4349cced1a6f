"""A client of Spark Connect: what a user's program does there, with what it saw as JSON.

    python -m tests.spark.support.connect_client SERVER PLACE ROOT SERVERS

The streams are in ROOT, and SERVERS are over it; checkpoints and files are in PLACE. Until it calls
jobs no module of shardlog can be imported here, as where a client has none.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

_SHARDLOG: Final = ("storage_core", "connectors", "streaming_jobs", "pyspark_shardlog")
_STREAM: Final = "events"
_ROWS_A_BATCH: Final = 7
_SECONDS_MAX: Final = 600


class NotInstalled:
    """A finder by which there is no shardlog."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Refuse its modules; leave others to others."""
        del path, target
        if name.partition(".")[0] in _SHARDLOG:
            message = f"a client of Connect imports {name}"
            raise ModuleNotFoundError(message, name=name)


class Client:
    """One session, and a way to the root as the options of a source or a sink."""

    def __init__(self, spark: SparkSession, place: Path, **root: str) -> None:
        self.spark = spark
        self.place = place
        self.root = root

    def batch(self) -> list[int]:
        """Read what is there."""
        return numbers_of(self.reader().load())

    def reader(self, **options: Any) -> Any:
        return self.spark.read.format("shardlog").options(**self.root, stream=_STREAM, **options)

    def sunk(self, stream: str) -> None:
        """Read as a stream, in batches, and write each to another."""
        source = self.spark.readStream.format("shardlog").options(**self.root, stream=_STREAM)
        source = source.options(startingOffsets="earliest", maxOffsetsPerTrigger=_ROWS_A_BATCH)
        frame = source.load()
        writer = frame.writeStream.format("shardlog").options(**self.root)
        writer = writer.option("checkpointLocation", str(self.place / stream))
        query = writer.option("stream", stream).start()
        query.processAllAvailable()
        query.stop()

    def written_twice(self, stream: str) -> None:
        """Write a batch, and the same again."""
        for _ in range(2):
            writer = self.reader().load().write.format("shardlog").mode("append")
            writer = writer.options(**self.root, stream=stream)
            writer.options(txnAppId="connect", txnVersion=1).save()

    def mistake(self) -> str:
        """Name an option that is none; return what is told."""
        try:
            self.reader(maxRows=1).load().collect()
        except PySparkException as error:
            return str(error).partition("\n")[0]
        return ""


def numbers_of(frame: DataFrame) -> list[int]:
    return sorted(int(row.value) for row in frame.select("value").collect())


def ended(query: StreamingQuery) -> None:
    assert query.awaitTermination(_SECONDS_MAX), "the query goes on"


def main(address: str, place: Path, root: str, servers: str) -> None:
    """Do all once."""
    not_installed: Any = NotInstalled()
    sys.meta_path.insert(0, not_installed)
    spark = SparkSession.Builder().remote(address).getOrCreate()
    by_path = Client(spark, place, path=root)
    by_server = Client(spark, place, server=servers)
    seen: dict[str, object] = {"kind": type(spark).__module__}
    seen["batches"] = [by_path.batch(), by_server.batch()]
    seen["mistake"] = by_path.mistake()
    by_path.written_twice("written")
    by_server.sunk("sunk")
    sys.meta_path.remove(not_installed)
    # A job's caller has shardlog.
    from tests.spark.support.connect_jobs import run_jobs  # noqa: PLC0415

    seen["landed"] = run_jobs(spark, place, root, servers)
    print(json.dumps(seen))  # noqa: T201 - the test reads it
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])

"""The vocabulary of the sink's Spark tests: frames written, queries run to their end, rows seen.

lab.write([1, 2], txnAppId="a")     one batch write
lab.feed(1, 2)                      a file that the next micro-batch reads
lab.run(queryName="q")              a query over the files, to its end, on one checkpoint
lab.fails()                         the same; what its error says
lab.forget_commit(0)                as if the driver had died before batch 0 was committed
lab.forget_batch(1)                 as if the checkpoint had been restored from before batch 1
lab.stored                          the primaries that a reader outside Spark sees
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from storage_core import StagingArea, Stream, StreamReader
from tests.log.served import DOORS, served

NAME = "s"
# They end hangs; whoever is to find a shard held asks with a lockWait of its own.
OPEN_WAIT_S = 60
QUERY_SECONDS_MAX = 600
# A test of a `lab` that `lab_by` makes.
BY_EACH_DOOR = pytest.mark.parametrize("lab", DOORS, indirect=True)
_FIRST_FED_S = 1_700_000_000


class SinkLab:
    """One root, one checkpoint, one folder of input; written by path, or over servers."""

    def __init__(self, spark: SparkSession, place: Path, servers: str | None = None) -> None:
        self.spark = spark
        self.servers = servers
        self.place = place
        self.root = place / "root"
        self.checkpoint = place / "checkpoint"
        self.input = place / "input"
        self.input.mkdir(parents=True, exist_ok=True)
        self._files = 0

    # --- batch writes ----------------------------------------------------------------------

    def frame(self, primaries: Iterable[int]) -> DataFrame:
        """Return rows with these primaries, each of an id of its own."""
        rows = [(primary, primary, f"{primary}".encode()) for primary in primaries]
        return self.spark.createDataFrame(rows, "primary long, secondary int, value binary")

    def options(self, **options: object) -> dict[str, str]:
        """Return options that name the stream, and these."""
        door = {"path": self.root} if self.servers is None else {"server": self.servers}
        chosen = {**door, "stream": NAME, "lockWait": OPEN_WAIT_S, **options}
        return {name: str(value) for name, value in chosen.items()}

    def write(self, rows: Iterable[int] | DataFrame, mode: str = "append", **options: Any) -> None:
        """Write once."""
        frame = rows if isinstance(rows, DataFrame) else self.frame(rows)
        frame.write.format("shardlog").options(**self.options(**options)).mode(mode).save()

    # --- queries ---------------------------------------------------------------------------

    def feed(self, *primaries: int) -> None:
        """Put rows where the query finds them, as one micro-batch."""
        table = pa.table(
            {
                "primary": pa.array(primaries, pa.int64()),
                "secondary": pa.array(primaries, pa.int32()),
                "value": pa.array([b"v"] * len(primaries), pa.binary()),
            }
        )
        path = self.input / f"{self._files:04d}.parquet"
        self._files += 1
        pq.write_table(table, self.place / "draft")
        # Spark takes files by their times, in milliseconds, and two may be fed within one.
        os.utime(self.place / "draft", (_FIRST_FED_S + self._files, _FIRST_FED_S + self._files))
        (self.place / "draft").rename(path)

    def run(self, where: str = "true", sink: str = "shardlog", **options: object) -> None:
        """Run a query over what is there to its end."""
        query = self.start(where, sink, **options)
        assert query.awaitTermination(QUERY_SECONDS_MAX), "the query goes on"

    def start(
        self, where: str = "true", sink: str = "shardlog", **options: object
    ) -> StreamingQuery:
        """Start a query over what is there."""
        frame = files_of(self.spark, self.input).where(where)
        writer = frame.writeStream.format(sink).options(**self.options(**options))
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        return writer.trigger(availableNow=True).start()

    def fails(self, **options: object) -> str:
        """Run a query that must fail; return what it says."""
        with pytest.raises(StreamingQueryException) as raised:
            self.run(**options)  # type: ignore[arg-type]  # never `where`
        return str(raised.value)

    def forget_commit(self, batch: int) -> None:
        """Let it be as if the driver had died before a batch was committed."""
        for name in (str(batch), f".{batch}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)

    def forget_batch(self, batch: int) -> None:
        """Set the checkpoint back to before a batch was planned."""
        for folder in ("offsets", "commits", "sources/0"):
            for name in (str(batch), f".{batch}.crc"):
                (self.checkpoint / folder / name).unlink(missing_ok=True)

    def unfeed(self, batch: int) -> None:
        """Take the file of one micro-batch away."""
        (self.input / f"{batch:04d}.parquet").unlink()

    def delete_checkpoint(self) -> None:
        """Remove what Spark knows of the query."""
        shutil.rmtree(self.checkpoint)

    # --- seen from outside -----------------------------------------------------------------

    @property
    def stored(self) -> list[int]:
        """The primaries in the stream, sorted."""
        with StreamReader.open(self.root, NAME) as reader:
            primaries: Any = reader.read().column("primary")
            return sorted(primaries.to_pylist())

    @property
    def staged(self) -> list[str]:
        """What lies in staging."""
        return sorted(path.name for path in (self.root / NAME / "staging").rglob("*"))

    def holding(self) -> Any:
        """Return a writer that holds all shards."""
        area = StagingArea.open(self.root, NAME)
        return area.open_shards(range(area.shards), OPEN_WAIT_S)


@contextmanager
def lab_by(door: str, spark: SparkSession, place: Path) -> Iterator[SinkLab]:
    """Return a lab that writes by path, or over a server in this process."""
    lab = SinkLab(spark, place)
    if door == "path":
        yield lab
        return
    # A server is over a root that is there.
    with Stream.create(lab.root, "other"):
        pass
    with served(lab.root, is_writable=True) as address:
        lab.servers = address.removeprefix("shardlog://")
        yield lab


def files_of(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the files of a folder as a stream, one a micro-batch, in the order they came."""
    reader = spark.readStream.schema("primary long, secondary int, value binary")
    return reader.option("maxFilesPerTrigger", 1).parquet(str(folder))

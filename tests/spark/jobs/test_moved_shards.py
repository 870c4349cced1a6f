"""Jobs over a shard that began from the lake go on as the refusal of their checkpoint says."""

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

from storage_core import InvalidRequestError, Stream, StreamReader
from storage_core.lake import begin_from_lake, publish_stream
from streaming_jobs.jobs.drain_late import ORIGIN, drain_late
from tests.spark.support.rollup_lab import NAME as READINGS
from tests.spark.support.rollup_lab import RollupLab, readings
from tests.unit.streaming_jobs.source.source_lab import FIRST_MS, NAME

SECONDS_MAX = 600
LATE_ID = 7


def begin_again(writer: Stream, root: Path, name: str, lake: Path) -> None:
    """Let all shards of a stream begin from its lake, and its writer be closed."""
    writer.alter(lake=f"file://{lake}")
    writer.seal()
    publish_stream(root, name)
    shards = list(writer.committed())
    writer.close()
    assert begin_from_lake(root, name, shards).keys() == {*shards}


def starting_of(refused: Callable[[], object]) -> str:
    """Return the offsets that a refused query is told to begin with."""
    with pytest.raises(StreamingQueryException, match="by a reset or from the lake") as raised:
        refused()
    starting = re.search(r"startingOffsets=(\{.*?\}\})", str(raised.value))
    assert starting is not None
    return starting[1]


def test_corrections_go_on_and_none_is_written_twice(lab, tmp_path):
    def job(checkpoint: str, **options: Any) -> None:
        where = {"checkpoint": tmp_path / checkpoint, "once": True}
        query = drain_late(lab.spark, lab.log.root, NAME, **where, **options)
        assert query.awaitTermination(SECONDS_MAX), "the query goes on"

    def put_late(first: int) -> None:
        times = pa.array([FIRST_MS + first + 10, FIRST_MS + first])
        lab.log.put(0, range(first, first + 2), primary=times)

    lab.log.create_topic({0: 0})
    put_late(0)
    job("before")
    begin_again(lab.log.writer, lab.log.root, NAME, tmp_path / "lake")
    lab.log.open()
    put_late(100)
    starting = starting_of(lambda: job("before"))
    job("behind", starting=starting)
    with StreamReader.open(lab.log.root, f"{NAME}-late") as reader:
        rows = reader.read(columns=["headers"]).to_pylist()
    origins = [{one["key"]: one["value"] for one in row["headers"]}[ORIGIN] for row in rows]
    assert sorted(origins) == [b"orders/0/1", b"orders/0/101"]


def test_roll_ups_go_on_and_are_those_of_all_rows(spark, tmp_path):
    rolled = RollupLab(tmp_path)
    chance = random.Random(5)
    rolled.create_topic()
    rolled.measure(readings(chance, 120))
    rolled.roll_up(spark)
    assert rolled.writer is not None
    begin_again(rolled.writer, rolled.root, READINGS, tmp_path / "lake")
    rolled.writer = Stream.open(rolled.root, READINGS)
    rolled.measure(readings(chance, 120))
    starting = starting_of(lambda: rolled.roll_up(spark))
    with pytest.raises(InvalidRequestError, match="from these offsets on, windows above"):
        rolled.roll_up(spark, "others", into="others", starting=starting)
    rolled.roll_up(spark, "behind", starting=starting)
    rolled.check()
    rolled.close()

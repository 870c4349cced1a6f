"""Expiry beside Spark: what expires before its turn is a loss that is told, never fewer rows."""

from datetime import timedelta

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from streaming_jobs.jobs.stream_query import start_to_end
from tests.spark.support.lab import SECONDS_MAX, TO_END, SparkLab, numbers_of
from tests.unit.streaming_jobs.source.source_lab import FIRST_MS

HOUR_MS = 3_600_000
KEPT = 5
EARLY = {"startingOffsets": "earliest"}


def put(lab: SparkLab, hour: int, first: int, count: int = 10) -> None:
    """Commit a block of rows of an hour whose payloads tell their number."""
    for number in range(first, first + count):
        lab.log.writer.append(FIRST_MS + hour * HOUR_MS + number, number, b"%d" % number)
    lab.log.writer.commit()


def expire(lab: SparkLab, hour: int) -> int:
    """Let what is older than so many hours go; return how many blocks went."""
    return lab.log.writer.expire(FIRST_MS + (hour + KEPT) * HOUR_MS).blocks


@pytest.fixture
def retained(lab: SparkLab) -> SparkLab:
    """A lab whose stream keeps five hours, with ten rows in each of four."""
    lab.log.create(shards=1, retention=timedelta(hours=KEPT))
    for hour in range(4):
        put(lab, hour, 10 * hour)
    return lab


def overtaken(lab: SparkLab, batches: list[list[int]], *, is_planned: bool, **options: object):
    """Run a query of ten rows a batch beside which two hours expire; add what batches see."""
    reader = lab.spark.readStream.format(lab.format)
    options = {"maxOffsetsPerTrigger": 10, **TO_END, **EARLY, **options}
    frame = reader.options(**lab.log.options(**options)).load()

    def note(batch: DataFrame, _: int) -> None:
        if is_planned:
            # Its tasks are planned, and have not run.
            expire(lab, 2)
        batches.append(numbers_of(batch))
        expire(lab, 2)

    writer = frame.writeStream.foreachBatch(note)
    writer = writer.option("checkpointLocation", str(lab.checkpoint))
    assert start_to_end(writer).awaitTermination(SECONDS_MAX), "the query goes on"


@pytest.mark.parametrize(
    ("is_planned", "before", "lost", "rest"),
    [
        (False, [list(range(10))], r"\[10, 20\)", [[]]),
        (True, [], r"\[0, 10\)", [[], []]),
    ],
    ids=["between batches", "under a batch"],
)
def test_query_that_expiry_overtakes_ends_or_goes_on_with_what_is_left(
    retained, is_planned, before, lost, rest
):
    seen: list[list[int]] = []
    with pytest.raises(StreamingQueryException, match=f"data were lost.*{lost}"):
        overtaken(retained, seen, is_planned=is_planned)
    assert seen == before
    overtaken(retained, seen, is_planned=is_planned, failOnDataLoss="false")
    assert seen == [*before, *rest, list(range(20, 30)), list(range(30, 40))]

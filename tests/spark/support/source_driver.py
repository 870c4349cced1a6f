"""A query that notes each batch in a ledger, a file a batch; also in a driver about to die.

The moments of a batch are: planned, nothing is read; seen, its rows are read; noted, they are in
the ledger, and the batch is not committed. The stream is in PLACE/root.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from streaming_jobs.jobs.stream_query import start_to_end
from tests.spark.support.lab import TO_END
from tests.unit.streaming_jobs.source.source_lab import NAME

OFFSETS_A_BATCH = 100
ONE = f"subscribe={NAME}"
PATTERN = f"subscribePattern=^{NAME}"
PHASES = ("noted", "seen", "planned")


def see_until(
    spark: SparkSession, place: Path, reach: Callable[[str, int], None], subscription: str
) -> None:
    """Run the query to its end; each phase of a batch is told as it is reached."""
    ledger = place / "ledger"
    ledger.mkdir(parents=True, exist_ok=True)

    def note(frame: DataFrame, number: int) -> None:
        reach("planned", number)
        rows = sorted(int(row.value) for row in frame.select("value").collect())
        reach("seen", number)
        part = ledger / f"{number}.part"
        part.write_text(json.dumps(rows))
        part.replace(ledger / f"{number}.json")
        reach("noted", number)

    choice, _, chosen = subscription.partition("=")
    options: dict[str, Any] = {
        "path": str(place / "root"),
        choice: chosen,
        "startingOffsets": "earliest",
    }
    options["maxOffsetsPerTrigger"] = str(OFFSETS_A_BATCH)
    options |= TO_END
    frame = spark.readStream.format("shardlog").options(**options).load()
    query = frame.writeStream.foreachBatch(note).option(
        "checkpointLocation", str(place / "checkpoint")
    )
    start_to_end(query).awaitTermination()


def see_all(spark: SparkSession, place: Path, subscription: str) -> None:
    """Run the query to its end."""
    see_until(spark, place, lambda _phase, _batch: None, subscription)

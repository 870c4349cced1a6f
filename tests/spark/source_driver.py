"""A driver of its own, to be killed: it notes each batch of a query in a ledger, a file a batch.

    python -m tests.spark.source_driver PLACE PHASE BATCH SUBSCRIPTION

At a phase of a batch (planned: nothing read; seen: rows read; noted: in the ledger, not yet
committed) it says so and waits for its end. The stream is in PLACE/root.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tests.spark.session import make_session
from tests.unit.streaming_jobs.source.source_lab import NAME

OFFSETS_A_BATCH = 100
ONE = f"subscribe={NAME}"
PATTERN = f"subscribePattern=^{NAME}"


def see_all(
    spark: SparkSession,
    place: Path,
    subscription: str,
    reach: Callable[[str, int], None] = lambda _phase, _batch: None,
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
    options = {"path": str(place / "root"), choice: chosen, "startingOffsets": "earliest"}
    options["maxOffsetsPerTrigger"] = str(OFFSETS_A_BATCH)
    frame = spark.readStream.format("shardlog").options(**options).load()
    query = frame.writeStream.foreachBatch(note).option(
        "checkpointLocation", str(place / "checkpoint")
    )
    query.trigger(availableNow=True).start().awaitTermination()


def main(place: Path, phase: str, batch: int, subscription: str) -> None:
    """Run the query until the phase asked for."""

    def reach(reached: str, number: int) -> None:
        if (reached, number) == (phase, batch):
            print("reached", flush=True)  # noqa: T201 - the test waits for it
            sys.stdin.read()

    see_all(make_session(place), place, subscription, reach)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4])

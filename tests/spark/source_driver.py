"""A driver of its own, to be killed: it notes each batch of a query in a ledger, a file a batch.

    python -m tests.spark.source_driver ROOT PLACE PHASE BATCH SUBSCRIPTION

At a phase of a batch (planned: nothing read; seen: rows read; noted: in the ledger, not yet
committed) it says so and waits for its end. It ends by itself once the query has seen all.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame

from tests.spark.session import make_session
from tests.unit.streaming_jobs.source.source_lab import NAME

OFFSETS_A_BATCH = 100
ONE = f"subscribe={NAME}"
PATTERN = f"subscribePattern=^{NAME}"


def main(root: str, place: Path, phase: str, batch: int, subscription: str) -> None:
    """Run the query to its end, or to the phase asked for."""
    ledger = place / "ledger"
    ledger.mkdir(parents=True, exist_ok=True)

    def reach(reached: str, number: int) -> None:
        if (reached, number) == (phase, batch):
            print("reached", flush=True)  # noqa: T201 - the test waits for it
            sys.stdin.read()

    def note(frame: DataFrame, number: int) -> None:
        reach("planned", number)
        rows = sorted(int(row.value) for row in frame.select("value").collect())
        reach("seen", number)
        part = ledger / f"{number}.part"
        part.write_text(json.dumps(rows))
        part.replace(ledger / f"{number}.json")
        reach("noted", number)

    choice, _, chosen = subscription.partition("=")
    options = {"path": root, choice: chosen, "startingOffsets": "earliest"}
    options["maxOffsetsPerTrigger"] = str(OFFSETS_A_BATCH)
    frame = make_session(place).readStream.format("shardlog").options(**options).load()
    query = frame.writeStream.foreachBatch(note).option(
        "checkpointLocation", str(place / "checkpoint")
    )
    query.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5])

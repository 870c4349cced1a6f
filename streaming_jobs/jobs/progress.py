"""How a query comes along, as lines: one for each batch that had rows, and one at the end."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One batch: its number, its rows, and how long it took."""

    number: int
    rows: int
    seconds: float


def progress_of(progress: Any) -> BatchProgress:  # noqa: ANN401 - Spark's, which the stubs leave open
    """Return what Spark's progress tells of a batch."""
    return BatchProgress(progress.batchId, progress.numInputRows, progress.batchDuration / 1000)


class Progress:
    """What has been told so far."""

    def __init__(self) -> None:
        self.ended = -1
        self._batches = self._rows = 0

    def line(self, batch: BatchProgress) -> str | None:
        """Return what to say of a batch; None if it was told, or had no rows."""
        if batch.number <= self.ended or not batch.rows:
            return None
        self.ended = batch.number
        self._batches += 1
        self._rows += batch.rows
        rate = f", {batch.rows / batch.seconds:,.0f} a second" if batch.seconds else ""
        return f"batch {batch.number}: {batch.rows:,} rows in {batch.seconds:.1f} s{rate}"

    def closing(self, *, is_asked: bool) -> str:
        """Return what to say at the end."""
        why = "asked to stop" if is_asked else "all that was there"
        if not self._batches:
            return f"done, {why}: no new rows"
        batches = "1 batch" if self._batches == 1 else f"{self._batches:,} batches"
        return f"done, {why}: {self._rows:,} rows in {batches}"

"""How a query comes along, as lines: one for each batch that had rows, and one at the end."""

from typing import Any


class Progress:
    """What was reported so far."""

    def __init__(self) -> None:
        self.ended = -1
        self._batches = self._rows = 0

    def line(self, batch: Any) -> str | None:  # noqa: ANN401 - Spark's, which the stubs leave open
        """Return a line on a batch; None if it was reported before, or had no rows."""
        number, rows, seconds = batch.batchId, batch.numInputRows, batch.batchDuration / 1000
        if number <= self.ended or not rows:
            return None
        self.ended = number
        self._batches += 1
        self._rows += rows
        rate = f", {rows / seconds:,.0f} a second" if seconds else ""
        return f"batch {number}: {rows:,} rows in {seconds:.1f} s{rate}"

    def closing(self, *, is_asked: bool) -> str:
        """Return what to say at the end."""
        why = "asked to stop" if is_asked else "all that was there"
        if not self._batches:
            return f"done, {why}: no new rows"
        batches = "1 batch" if self._batches == 1 else f"{self._batches:,} batches"
        return f"done, {why}: {self._rows:,} rows in {batches}"

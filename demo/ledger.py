"""What must be equal in the end: produced, stored, seen by Spark, counted and read back."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from demo.job import COUNTS, TELEMETRY
from storage_core import State, StreamReader


@dataclass(frozen=True, slots=True)
class Ledger:
    """Records at each station of their way.

    Attributes:
        produced: Acknowledged by the broker.
        stored: In the shards, and shown.
        expired: Gone from the shards by their age, or too old as they came.
        late: Of those stored, the ones that came late.
        seen: Brought to Spark by the source.
        counted: The sum of the counts that went through the sink, read back.
    """

    produced: int
    stored: int
    expired: int
    late: int
    seen: int
    counted: int

    @property
    def is_balanced(self) -> bool:
        """Tell whether no record was lost or doubled on the way."""
        return (
            self.produced == self.stored + self.expired and self.stored == self.seen == self.counted
        )

    def lines(self) -> list[str]:
        """Return it as a table."""
        rows = (
            ("produced, acknowledged by the broker", self.produced),
            ("stored in the shards", self.stored),
            ("  of them late, in their right place", self.late),
            ("expired, older than the stream keeps", self.expired),
            ("seen by Spark through the source", self.seen),
            ("counted, through the sink, read back", self.counted),
        )
        verdict = "balanced" if self.is_balanced else "DOES NOT BALANCE"
        width = max(len(text) for text, _ in rows)
        return [*(f"  {text:<{width}}  {count:>9,}" for text, count in rows), f"  {verdict}"]


def read_ledger(root: Path, produced: int, seen: int) -> Ledger:
    """Count what lies in the streams, row by row."""
    counted = 0
    expired, states = what_became(root)
    with StreamReader.open(root, COUNTS) as reader:
        for batch in reader.scan(columns=["payload"]):
            counts = pc.cast(pc.cast(batch.column("payload"), pa.string()), pa.int64())
            counted += pc.sum(counts).as_py() or 0
    return Ledger(produced, int(states.sum()), expired, int(states[State.LATE]), seen, counted)


def what_became(root: Path) -> tuple[int, npt.NDArray[np.int64]]:
    """Return how many records have expired, and how many there are of each other state.

    What came before the floor had moved past it goes by windows, and the log begins behind it. What
    came after lies in the log, marked, until the log's start passes it. Offsets have no gaps here.
    """
    expired, states = 0, np.zeros(State.EXPIRED + 1, np.int64)
    with StreamReader.open(root, TELEMETRY) as reader:
        for shard in reader.committed():
            expired += reader.start(shard) - reader.born(shard)
            for batch in reader.tail(shard, columns=["state"]):
                states += np.bincount(batch.column("state").to_numpy(), minlength=len(states))
    return expired + int(states[State.EXPIRED]), states[: State.EXPIRED]

"""What a worker has counted since it began."""

from collections import Counter
from dataclasses import dataclass, field

from connectors.commit_round import RoundReport
from connectors.kafka_client import Partition


@dataclass(slots=True)
class WorkerCounts:
    """Counts of one worker; its own thread writes them.

    Attributes:
        consumed: Records Kafka brought.
        appended: Records made durable.
        late: Of those, records that came late.
        duplicates: Records that were stored already.
        dead_letters: Records kept raw.
        rounds: Rounds made durable.
        dropped_rounds: How often records were dropped before they were durable, and fetched
            again.
        reopens: By partition, how often in a row its shard was reopened after a failed write;
            one that takes writes again has no entry.
    """

    consumed: int = 0
    appended: int = 0
    late: int = 0
    duplicates: int = 0
    dead_letters: int = 0
    rounds: int = 0
    dropped_rounds: int = 0
    reopens: Counter[Partition] = field(default_factory=Counter)

    def add(self, report: RoundReport) -> None:
        """Add a round; one of which nothing became durable counts as none."""
        self.rounds += bool(report.moved)
        self.appended += report.appended.appended
        self.late += report.appended.late
        self.duplicates += report.appended.duplicates
        self.dead_letters += report.appended.dead_letters
        for partition in report.moved:
            self.reopens.pop(partition, None)

    @property
    def totals(self) -> dict[str, int]:
        """What a line that ends a run tells."""
        return {
            "consumed": self.consumed,
            "appended": self.appended,
            "late": self.late,
            "duplicates": self.duplicates,
            "dead_letters": self.dead_letters,
            "rounds": self.rounds,
        }

    def reopened(self, partition: Partition) -> int:
        """Count a reopening and return how many there were in a row."""
        self.reopens[partition] += 1
        return self.reopens[partition]

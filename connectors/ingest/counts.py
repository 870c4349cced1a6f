"""What a worker has counted since it began."""

from collections import Counter
from dataclasses import dataclass, field

from connectors.ingest.commit_round import RoundReport
from connectors.kafka_client import Partition


@dataclass(slots=True)
class WorkerCounts:
    """Counts of one worker; its own thread writes them.

    Attributes:
        brought: Records Kafka brought, those on their way into a round too.
        consumed: Records Kafka brought, once it is known what became of them: the sum of those
            appended, duplicates, dead letters and let go.
        appended: Records made durable.
        late: Of those, records that came late.
        duplicates: Records that were stored already.
        dead_letters: Records kept raw.
        let_go: Records dropped before they were known to be durable; whoever has the partition
            next fetches them again.
        rounds: Rounds made durable.
        dropped_rounds: How often records were dropped before they were durable, and fetched
            again.
        expired: Rows that expiry took.
        reopens: By partition, how often in a row its shard was reopened after a failed write;
            one that takes writes again has no entry.
    """

    brought: int = 0
    consumed: int = 0
    appended: int = 0
    late: int = 0
    duplicates: int = 0
    dead_letters: int = 0
    let_go: int = 0
    rounds: int = 0
    dropped_rounds: int = 0
    expired: int = 0
    reopens: Counter[Partition] = field(default_factory=Counter)

    def add(self, report: RoundReport) -> None:
        """Add a round; one of which nothing became durable counts as none."""
        self.rounds += bool(report.moved)
        self.appended += report.appended.appended
        self.late += report.appended.late
        self.duplicates += report.appended.duplicates
        self.dead_letters += report.appended.dead_letters
        self.consumed += report.records
        self.let_go += report.let_go
        for partition in report.moved:
            self.reopens.pop(partition, None)

    def drop(self, records: int) -> None:
        """Count records that are let go of."""
        self.consumed += records
        self.let_go += records

    @property
    def totals(self) -> dict[str, int]:
        """What a line that ends a run tells."""
        return {
            "consumed": self.consumed,
            "appended": self.appended,
            "late": self.late,
            "duplicates": self.duplicates,
            "dead_letters": self.dead_letters,
            "let_go": self.let_go,
            "rounds": self.rounds,
            "expired": self.expired,
        }

    def reopened(self, partition: Partition) -> int:
        """Count a reopening and return how many there were in a row."""
        self.reopens[partition] += 1
        return self.reopens[partition]

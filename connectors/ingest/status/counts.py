"""What a worker has counted since it began."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from connectors.dlq.record import reason_word
from connectors.ingest.commit_round import RoundReport
from connectors.ingest.status.histograms import Histogram
from connectors.kafka import Partition
from storage_core import Clock

_COMMIT_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_LATENESS_BOUNDS_S: Final = (0.0, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 3600.0, 86_400.0)


@dataclass(slots=True)
class WorkerCounts:
    """Counts of one worker; its own thread writes them.

    Attributes:
        received: Records that fetches brought, those on their way into a round too.
        fetched: Of these, the records whose outcome is known: the sum of those appended,
            duplicates, dead letters and discarded.
        appended: Records made durable.
        late: Of those, records that came late.
        duplicates: Records that were stored already.
        dead_letters: Records kept raw.
        discarded: Records discarded before they were known to be durable; whoever has the
            partition next fetches them again.
        commit_rounds: Commit rounds made durable.
        commit_rounds_dropped: How often records were dropped before they were durable, and fetched
            again.
        expired: Rows that expiry deleted.
        sealed: Rows that maintenance wrote to parts.
        compacted: Rows of parts that it rewrote to merge small parts.
        maintenance_skipped: Passes of it that were left out, since the worker fell behind or
            another process was at it, or the part builder died just before.
        maintenance_failed: How often it failed in a shard.
        part_builders_died: How often the process that builds parts died.
        publishers_died: How often the process that publishes died.
        lake_rows: By topic, rows that were published to its lake.
        lake_bytes: By topic, bytes of the files that were.
        lake_failures: By topic, how often publishing failed.
        lake_begun_shards: By topic, how many shards began from its lake.
        reopens: By partition, how often in a row its shard was reopened after a failed write;
            one that takes writes again has no entry.
        reasons: Dead letters by topic and word for the reason.
        commit_s: How long rounds took to be durable, those without records apart.
        lateness_s: How long after their timestamps records were durable, where it is measured.
        measures_lateness: Whether somebody may ask for it, which costs a look at each record.
    """

    received: int = 0
    fetched: int = 0
    appended: int = 0
    late: int = 0
    duplicates: int = 0
    dead_letters: int = 0
    discarded: int = 0
    commit_rounds: int = 0
    commit_rounds_dropped: int = 0
    expired: int = 0
    sealed: int = 0
    compacted: int = 0
    maintenance_skipped: int = 0
    maintenance_failed: int = 0
    part_builders_died: int = 0
    publishers_died: int = 0
    lake_rows: Counter[str] = field(default_factory=Counter)
    lake_bytes: Counter[str] = field(default_factory=Counter)
    lake_failures: Counter[str] = field(default_factory=Counter)
    lake_begun_shards: Counter[str] = field(default_factory=Counter)
    reopens: Counter[Partition] = field(default_factory=Counter)
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    commit_s: Histogram = field(default_factory=partial(Histogram, _COMMIT_BOUNDS_S))
    lateness_s: Histogram = field(default_factory=partial(Histogram, _LATENESS_BOUNDS_S))
    measures_lateness: bool = False

    def add(self, report: RoundReport, clock: Clock) -> None:
        """Add a round; one of which nothing became durable counts as none."""
        if self.measures_lateness:
            self.note_lateness(report.timestamps, clock.now_ns() // 10**6)
        self.commit_rounds += bool(report.moved)
        self.appended += report.appended.appended
        self.late += report.appended.late
        self.duplicates += report.appended.duplicates
        self.dead_letters += report.appended.dead_letters
        self.fetched += report.records
        self.discarded += report.discarded
        if report.moved and report.records:
            self.commit_s.note(report.took_s)
        for partition, dead_letters in report.dead_letters.items():
            words = Counter(reason_word(raw) for raw in dead_letters.values())
            self.reasons.update({(partition.topic, word): n for word, n in words.items()})
        for partition in report.moved:
            self.reopens.pop(partition, None)

    def note_lateness(self, timestamps: Iterable["pa.Array[Any]"], now_ms: int) -> None:
        """Count how old records are that have become durable; those without a time do not count.

        One that is ahead of the clock is 0 old: a sum that falls is no counter's, and one record
        of the far future would hide all others.
        """
        for column in timestamps:
            stamps = column.to_numpy()
            timed = stamps if not len(stamps) or stamps.min() >= 0 else stamps[stamps >= 0]
            self.lateness_s.note_many(np.maximum(now_ms - timed, 0) / 1000)

    def discard(self, records: int) -> None:
        """Count records that are discarded."""
        self.fetched += records
        self.discarded += records

    @property
    def totals(self) -> dict[str, int]:
        """What a line that ends a run tells."""
        return {
            "fetched": self.fetched,
            "appended": self.appended,
            "late": self.late,
            "duplicates": self.duplicates,
            "dead_letters": self.dead_letters,
            "discarded": self.discarded,
            "commit_rounds": self.commit_rounds,
            "expired": self.expired,
            "sealed": self.sealed,
        }

    def reopened(self, partition: Partition) -> int:
        """Count a reopening and return how many there were in a row."""
        self.reopens[partition] += 1
        return self.reopens[partition]

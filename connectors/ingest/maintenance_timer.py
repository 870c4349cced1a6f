"""Maintenance in a worker: rows that waited become parts, and small parts larger ones, in turns.

The files of parts are made in a process beside the worker, which ends with it. It takes a core
while it lasts, so a turn is skipped where the worker falls behind: where more records wait in Kafka
than a round takes, and more than at the turn before; and for a while where that process died. Where
more rows wait in a shard than its turn sealed the next one comes at once, so that what waits does
not grow for ever. One worker does so at a time in a root.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from connectors.ingest.assignment.partition_writer import ShardFeed
from connectors.ingest.status.counts import WorkerCounts
from connectors.ingest.status.failure_lines import FailureLines
from connectors.ingest.turns import Turns
from connectors.kafka import Partition
from storage_core import DirectoryLock, PartBuilder, Stream, TieringReport

# What holds it is locked while a turn's shard is; no stream can have the name.
_PLACE: Final = "~maintained"


class MaintenanceTimer:
    """Does what is due in the parts of the worker's shards."""

    def __init__(
        self,
        root: Path,
        every_s: float,
        lag_max: int,
        counts: WorkerCounts,
        log: Any,  # noqa: ANN401 - a structlog logger has no better type
    ) -> None:
        """Wait for the first turn.

        Args:
            root: The directory that holds the streams.
            every_s: The time between the begins of two turns; 0 for none at all.
            lag_max: So many records may wait in Kafka whether they become more or not.
            counts: Where rows are counted.
            log: Where it is told.
        """
        self._turns: Turns[TieringReport | None] = Turns(
            "shardlog-maintenance", every_s, self._maintain
        )
        self._builder = PartBuilder()
        # Of the turn's thread while one is under way, else of the worker's.
        self._is_behind = False
        self._place = root / _PLACE
        self._lag_max = lag_max
        self._lag: int | None = None
        self._counts = counts
        self._log = log
        self._failures = FailureLines("maintenance failed", log.warning)
        self._now_s = 0.0

    def look(
        self,
        feeds: Mapping[Partition, ShardFeed],
        ends_of: Callable[[list[Partition]], Mapping[Partition, int]],
        now_s: float,
    ) -> None:
        """Tell what was done, and begin a turn if one is due and the worker keeps up.

        `ends_of` says where partitions end in Kafka, of those of which it is known.
        """
        self._now_s = now_s
        self.tell()
        if self._is_behind and not self.is_under_way:
            self._is_behind = False
            self._turns.hasten()
        if not self._turns.is_due(now_s):
            return
        ends = ends_of(list(feeds))
        lag = sum(max(0, ends[at] - feed.next) for at, feed in feeds.items() if at in ends)
        before, self._lag = self._lag, lag
        if lag > max(self._lag_max, lag if before is None else before):
            self._counts.maintenance_skipped += 1
            return
        self._turns.begin({at: feed.stream for at, feed in feeds.items()})

    @property
    def is_under_way(self) -> bool:
        """Tell whether a turn is."""
        return self._turns.is_under_way

    def tell(self) -> None:
        """Tell of the shards that were done since, and count their rows."""
        self._counts.builders_died = self._builder.deaths
        for partition, outcome in self._turns.outcomes():
            if outcome is None:
                self._counts.maintenance_skipped += 1
            elif not isinstance(outcome, TieringReport):
                self._counts.maintenance_failed += 1
                self._failures.note(partition, str(outcome), self._now_s)
            elif not outcome.is_idle:
                self._counts.sealed += outcome.rows_sealed
                self._counts.compacted += outcome.rows_compacted
                self._log.info(
                    "maintained",
                    topic=partition.topic,
                    shard=partition.number,
                    sealed=outcome.rows_sealed,
                    compacted=outcome.rows_compacted,
                    trimmed=outcome.rows_trimmed,
                    bytes=outcome.bytes_built,
                )

    def settle(self, wait_s: float) -> None:
        """Wait for the turn under way, for so long, and tell what was done."""
        self._turns.settle(wait_s)
        self.tell()

    def close(self, wait_s: float) -> None:
        """Drop what is being made, wait so long for the turn, and tell what was done."""
        self._builder.close()
        self.settle(wait_s)

    def _maintain(self, stream: Stream) -> TieringReport | None:
        """Do what is due in a stream's shards; None where that has to wait for another turn."""
        if self._builder.is_paused:
            return None
        self._place.mkdir(exist_ok=True)
        lock = DirectoryLock.if_free(self._place)
        if lock is None:
            return None
        with lock:
            report = stream.maintain(self._builder)
        self._is_behind |= 0 < report.rows_sealed < sum(stream.unsealed().values())
        return report

"""Maintenance in a worker: seals, compacts and trims its shards, a pass every so often.

Parts are built in a process beside the worker, which ends with it. It takes a core while it lasts,
so a pass is skipped where the worker falls behind: where more records wait in Kafka than a round
takes, and more than at the pass before; and for a while where that process died. Where more rows
wait in a shard than its pass sealed the next one comes at once, so that the backlog does not grow
for ever. One worker does so at a time in a root. What is published to a lake is sealed in time for
that: passes come as often as `lake_lag`, and none is skipped for rows that have waited too long.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from connectors.ingest.assignment.partition_writer import PartitionWriter
from connectors.ingest.background_passes import BackgroundPasses, every_of
from connectors.ingest.status.counts import WorkerCounts
from connectors.ingest.status.failure_lines import FailureLines
from connectors.kafka import Partition
from storage_core import DirectoryLock, PartBuilder, Stream, TieringReport

# This directory is locked while a shard is maintained; no stream can have the name.
_LOCK_DIRECTORY: Final = "~maintained"


class MaintenanceTimer:
    """Maintains the parts of the worker's shards."""

    def __init__(  # noqa: PLR0913 - what maintenance concerns
        self,
        root: Path,
        every_s: float,
        lag_max: int,
        counts: WorkerCounts,
        log: Any,  # noqa: ANN401 - a structlog logger has no better type
        built: Callable[[], object] = lambda: None,
    ) -> None:
        """Wait for the first pass.

        Args:
            root: The directory that holds the streams.
            every_s: The longest time between the starts of two passes; 0 for none at all.
            lag_max: So many records may wait in Kafka whether they become more or not.
            counts: Where rows are counted.
            log: Where it is logged.
            built: Called where a shard has other parts than before.
        """
        self._passes: BackgroundPasses[Partition, Stream, TieringReport | None] = BackgroundPasses(
            "shardlog-maintenance", every_s, lambda _, stream: self._maintain(stream)
        )
        self._every_s = every_s
        self._builder = PartBuilder()
        # Of the pass's thread while one is under way, else of the worker's.
        self._is_behind = False
        self._lock_directory = root / _LOCK_DIRECTORY
        self._lag_max = lag_max
        self._lag: int | None = None
        self._counts = counts
        self._log = log
        self._built = built
        self._failures = FailureLines("maintenance failed", log.warning)
        self._now_s = 0.0

    def tick(
        self,
        writers: Mapping[Partition, PartitionWriter],
        ends_of: Callable[[list[Partition]], Mapping[Partition, int]],
        now_s: float,
        is_urgent: Callable[[Partition, Stream], bool] = lambda _partition, _stream: False,
    ) -> None:
        """Log what was done, and start a pass if one is due and the worker keeps up.

        Args:
            writers: The partitions whose shards are open.
            ends_of: Says where partitions end in Kafka, of those of which it is known.
            now_s: The time.
            is_urgent: Tells whether a shard is maintained although the worker falls behind.
        """
        self._now_s = now_s
        self.report()
        if self._is_behind and not self.is_under_way:
            self._is_behind = False
            self._passes.hasten()
        streams = {at: writer.stream for at, writer in writers.items()}
        if not self._passes.is_due(now_s, every_of(self._every_s, streams.values())):
            return
        ends = ends_of(list(writers))
        lag = sum(max(0, ends[at] - writer.next) for at, writer in writers.items() if at in ends)
        before, self._lag = self._lag, lag
        if lag > max(self._lag_max, lag if before is None else before):
            self._counts.maintenance_skipped += 1
            streams = {at: stream for at, stream in streams.items() if is_urgent(at, stream)}
        self._passes.start(streams)

    @property
    def is_under_way(self) -> bool:
        """Whether a pass is."""
        return self._passes.is_under_way

    def report(self) -> None:
        """Log the shards that were done since, and count their rows."""
        self._counts.part_builders_died = self._builder.deaths
        for partition, outcome in self._passes.outcomes():
            if outcome is None:
                self._counts.maintenance_skipped += 1
            elif not isinstance(outcome, TieringReport):
                self._counts.maintenance_failed += 1
                self._failures.note(partition, str(outcome), self._now_s)
            elif not outcome.is_idle:
                self._counts.sealed += outcome.rows_sealed
                self._counts.compacted += outcome.rows_compacted
                self._built()
                self._log.info(
                    "maintained",
                    topic=partition.topic,
                    shard=partition.number,
                    sealed=outcome.rows_sealed,
                    compacted=outcome.rows_compacted,
                    trimmed=outcome.rows_trimmed,
                    bytes=outcome.bytes_built,
                )

    def build_all(self, stream: Stream) -> None:
        """Make parts of all that is committed in a stream's shards. Any thread.

        Raises:
            ShardlogError: It cannot be, or not now.
        """
        stream.seal(builder=self._builder)

    def settle(self, wait_s: float) -> None:
        """Wait for the pass under way, for so long, and log what was done."""
        self._passes.settle(wait_s)
        self.report()

    def close(self, wait_s: float) -> None:
        """Stop building, wait so long for the pass, and log what was done."""
        self._builder.close()
        self.settle(wait_s)

    def _maintain(self, stream: Stream) -> TieringReport | None:
        """Do what is due in a stream's shards; None where that has to wait for another pass."""
        if self._builder.is_paused:
            return None
        self._lock_directory.mkdir(exist_ok=True)
        lock = DirectoryLock.if_free(self._lock_directory)
        if lock is None:
            return None
        with lock:
            report = stream.maintain(self._builder)
        self._is_behind |= 0 < report.rows_sealed < sum(stream.unsealed().values())
        return report

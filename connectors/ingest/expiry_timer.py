"""Expiry in a worker: deletes what its shards no longer keep, a pass every so often.

A failure is logged, and is that shard's alone.
"""

from collections.abc import Mapping
from typing import Any

from connectors.ingest.assignment.partition_writer import PartitionWriter
from connectors.ingest.background_passes import BackgroundPasses
from connectors.ingest.status.counts import WorkerCounts
from connectors.ingest.status.failure_lines import FailureLines
from connectors.kafka import Partition
from storage_core import ExpiryReport, Stream


class ExpiryTimer:
    """Expires rows of the worker's shards."""

    def __init__(self, every_s: float, counts: WorkerCounts, log: Any) -> None:  # noqa: ANN401 - a structlog logger has no better type
        """Wait for the first pass.

        Args:
            every_s: The time between the starts of two passes; 0 for none at all.
            counts: Where expired rows are counted.
            log: Where it is logged.
        """
        self._passes: BackgroundPasses[Partition, Stream, ExpiryReport] = BackgroundPasses(
            "shardlog-expiry", every_s, lambda _, stream: stream.expire()
        )
        self._counts = counts
        self._log = log
        self._failures = FailureLines("expiry failed", log.warning)
        self._now_s = 0.0

    def tick(self, writers: Mapping[Partition, PartitionWriter], now_s: float) -> None:
        """Log what expired, and start a pass if one is due and none under way."""
        self._now_s = now_s
        self.report()
        if self._passes.is_due(now_s):
            # Those that keep all are not asked: that may change only while no worker has them.
            streams = {
                partition: writer.stream
                for partition, writer in writers.items()
                if _is_bounded(writer.stream)
            }
            self._passes.start(streams)

    @property
    def is_under_way(self) -> bool:
        """Whether a pass is."""
        return self._passes.is_under_way

    def report(self) -> None:
        """Log the shards that were done since, and count their rows."""
        for partition, outcome in self._passes.outcomes():
            if not isinstance(outcome, ExpiryReport):
                self._failures.note(partition, str(outcome), self._now_s)
                continue
            self._counts.expired += outcome.rows
            if outcome.rows or outcome.blocks:
                self._log.info(
                    "expired",
                    topic=partition.topic,
                    shard=partition.number,
                    windows=outcome.windows,
                    rows=outcome.rows,
                    late=outcome.late_rows,
                    blocks=outcome.blocks,
                    bytes=outcome.bytes,
                    start=outcome.shards[partition.number].start_after,
                )

    def settle(self, wait_s: float) -> None:
        """Wait for the pass under way, for so long, and log what went."""
        self._passes.settle(wait_s)
        self.report()


def _is_bounded(stream: Stream) -> bool:
    options = stream.options
    return (options.retention, options.records_max, options.bytes_max) != (None, None, None)

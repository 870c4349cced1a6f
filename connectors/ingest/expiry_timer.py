"""Expiry in a worker: what its shards no longer keep goes, in turns.

What fails is told, and is that shard's alone.
"""

from collections.abc import Mapping
from typing import Any

from connectors.ingest.assignment.partition_writer import PartitionWriter
from connectors.ingest.status.counts import WorkerCounts
from connectors.ingest.status.failure_lines import FailureLines
from connectors.ingest.turns import Turns
from connectors.kafka import Partition
from storage_core import ExpiryReport, Stream


class ExpiryTimer:
    """Lets what the worker's shards no longer keep expire."""

    def __init__(self, every_s: float, counts: WorkerCounts, log: Any) -> None:  # noqa: ANN401 - a structlog logger has no better type
        """Wait for the first turn.

        Args:
            every_s: The time between the begins of two turns; 0 for none at all.
            counts: Where rows that went are counted.
            log: Where it is told.
        """
        self._turns: Turns[ExpiryReport] = Turns(
            "shardlog-expiry", every_s, lambda stream: stream.expire()
        )
        self._counts = counts
        self._log = log
        self._failures = FailureLines("expiry failed", log.warning)
        self._now_s = 0.0

    def look(self, writers: Mapping[Partition, PartitionWriter], now_s: float) -> None:
        """Tell what went, and begin a turn if one is due and none under way."""
        self._now_s = now_s
        self.tell()
        if self._turns.is_due(now_s):
            # Those that keep all are not asked: that may change only while no worker has them.
            streams = {
                at: writer.stream for at, writer in writers.items() if _is_bounded(writer.stream)
            }
            self._turns.begin(streams)

    @property
    def is_under_way(self) -> bool:
        """Tell whether a turn is."""
        return self._turns.is_under_way

    def tell(self) -> None:
        """Tell of the shards that were done since, and count their rows."""
        for partition, outcome in self._turns.outcomes():
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
        """Wait for the turn under way, for so long, and tell what went."""
        self._turns.settle(wait_s)
        self.tell()


def _is_bounded(stream: Stream) -> bool:
    options = stream.options
    return (options.retention, options.records_max, options.bytes_max) != (None, None, None)

"""Expiry in a worker: every so often, on a thread of its own, shard after shard.

Fetching, gathering and rounds go on beside it; a round waits for it no longer than for one write.
A shard that is closed meanwhile is let be, and one that is busy comes again with the next turn.
What fails is told, and is that shard's alone: if its disk fails, the next round finds it poisoned.

Belongs to the worker's thread; its own thread touches streams only.
"""

import threading
from collections.abc import Mapping
from queue import SimpleQueue
from typing import Any

from connectors.ingest.counts import WorkerCounts
from connectors.ingest.shard_feed import ShardFeed
from connectors.kafka_client import Partition
from storage_core import ClosedError, ExpiryReport, ShardlogError, Stream

_Outcome = tuple[Partition, ExpiryReport | ShardlogError | OSError]


class ExpiryTimer:
    """Lets what the worker's shards no longer keep expire."""

    def __init__(self, every_s: float, counts: WorkerCounts, log: Any) -> None:  # noqa: ANN401 - a structlog logger has no better type
        """Wait for the first turn.

        Args:
            every_s: The time between the begins of two turns; 0 for none at all.
            counts: Where rows that went are counted.
            log: Where it is told.
        """
        self._every_s = every_s
        self._counts = counts
        self._log = log
        self._begun_s: float | None = None
        self._thread: threading.Thread | None = None
        self._outcomes: SimpleQueue[_Outcome] = SimpleQueue()

    def look(self, feeds: Mapping[Partition, ShardFeed], now_s: float) -> None:
        """Tell what went, and begin a turn if one is due and none under way."""
        self.tell()
        if not self._every_s or self.is_under_way:
            return
        if self._begun_s is None:
            self._begun_s = now_s
        if now_s - self._begun_s < self._every_s:
            return
        self._begun_s = now_s
        # Those that keep all are not asked: that may change only while no worker has them.
        streams = {at: feed.stream for at, feed in feeds.items() if _is_bounded(feed.stream)}
        if streams:
            # A daemon: the end of a process does not wait for a disk that hangs.
            self._thread = threading.Thread(
                target=self._expire, args=(streams,), name="shardlog-expiry", daemon=True
            )
            self._thread.start()

    @property
    def is_under_way(self) -> bool:
        """Tell whether a turn is."""
        return self._thread is not None and self._thread.is_alive()

    def tell(self) -> None:
        """Tell of the shards that were done since, and count their rows."""
        while not self._outcomes.empty():
            partition, outcome = self._outcomes.get()
            where = {"topic": partition.topic, "shard": partition.number}
            if not isinstance(outcome, ExpiryReport):
                self._log.warning("expiry failed", **where, reason=str(outcome))
                continue
            self._counts.expired += outcome.rows
            if outcome.rows or outcome.blocks:
                self._log.info(
                    "expired",
                    **where,
                    windows=outcome.windows,
                    rows=outcome.rows,
                    late=outcome.late_rows,
                    blocks=outcome.blocks,
                    bytes=outcome.bytes,
                    start=outcome.shards[partition.number].start_after,
                )

    def settle(self, wait_s: float) -> None:
        """Wait for the turn under way, for so long, and tell what went."""
        if self._thread is not None:
            self._thread.join(wait_s)
        self.tell()

    def _expire(self, streams: Mapping[Partition, Stream]) -> None:
        for partition, stream in streams.items():
            try:
                self._outcomes.put((partition, stream.expire()))
            except ClosedError:
                continue
            except (ShardlogError, OSError) as error:
                self._outcomes.put((partition, error))


def _is_bounded(stream: Stream) -> bool:
    options = stream.options
    return (options.retention, options.records_max, options.bytes_max) != (None, None, None)

"""What a running worker does, in one line: every thirty seconds, and when somebody asks.

A first line comes soon after the first records, so that whoever started it sees that they come.

Rates are those since the line before. The lag is what Kafka said last of each partition's end,
with the records it brought, so that asking costs no round trip; that of partitions that are not
fetched is asked for (unfetched.py). Partitions of unknown lag are counted instead; where that is
all of them, there is no lag. While the broker is away the line says since when in its place.
Belongs to the worker's thread; `request` may be called from any.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from connectors.ingest.assignment.partition_writer import PartitionWriter
from connectors.ingest.assignment.unfetched import UnfetchedPartition
from connectors.ingest.status.broker_watch import BrokerWatch
from connectors.ingest.status.counts import WorkerCounts
from connectors.ingest.status.log_lines import tell_library_lines_left_out
from connectors.kafka import Partition

LOG_EVERY_S: Final = 30.0
# After the first records.
LOG_FIRST_AFTER_S: Final = 3.0


class Progress:
    """Logs how a worker gets on."""

    def __init__(
        self,
        counts: WorkerCounts,
        ends: Callable[[Collection[Partition]], Mapping[Partition, int]],
        broker: BrokerWatch,
        now_s: float,
        log: Any,  # noqa: ANN401 - a structlog logger has no better type
    ) -> None:
        """Log from now on; `ends` returns what was heard last of the ends of partitions."""
        self._counts = counts
        self._ends = ends
        self._broker = broker
        self._log = log
        self._logged_s = now_s
        self._reported_received = 0
        self._first_due_s: float | None = None
        self._is_requested = False

    def request(self) -> None:
        """Have it logged with the next tick. From any thread, or a signal handler."""
        self._is_requested = True

    def tick(  # noqa: PLR0913 - what the line says
        self,
        now_s: float,
        writers: Mapping[Partition, PartitionWriter],
        unfetched: Callable[[], Collection[UnfetchedPartition]],
        *,
        waiting: int,
        quarantined: int,
        paused: int,
    ) -> None:
        """Log if it is time.

        Args:
            now_s: The time.
            writers: The partitions whose shards are open.
            unfetched: Returns the states of those that are held and not fetched.
            waiting: How many partitions wait for their shard.
            quarantined: How many are quarantined.
            paused: How many are paused, and not quarantined.
        """
        if not self._is_requested and not self._is_due(now_s):
            return
        self._is_requested = False
        tell_library_lines_left_out()
        away_since = self._broker.away_since
        ends = self._ends(list(writers))
        behind = [max(ends[at] - writer.next, 0) for at, writer in writers.items() if at in ends]
        behind += [state.lag for state in unfetched() if state.lag is not None]
        unknown = len(writers) + waiting + quarantined + paused - len(behind)
        is_known = away_since is None and (behind or not unknown)
        received = self._counts.received - self._reported_received
        elapsed_s = now_s - self._logged_s
        self._log.info(
            "progress",
            shards=len(writers),
            **({"waiting": waiting} if waiting else {}),
            **({"quarantined": quarantined} if quarantined else {}),
            **({"paused": paused} if paused else {}),
            records_s=round(received / elapsed_s) if elapsed_s > 0 else received,
            lag=sum(behind) if is_known else None,
            **({} if away_since is None else {"away_since": away_since}),
            **({"lag_unknown": unknown} if unknown else {}),
            **self._counts.totals,
        )
        self._logged_s, self._reported_received = now_s, self._counts.received

    def _is_due(self, now_s: float) -> bool:
        if now_s - self._logged_s >= LOG_EVERY_S:
            return True
        if self._reported_received or not self._counts.received:
            return False
        if self._first_due_s is None:
            self._first_due_s = now_s + LOG_FIRST_AFTER_S
        return now_s >= self._first_due_s

"""What a running worker does, in one line: every thirty seconds, and when somebody asks.

Whoever has just started it is told once soon after the first records came, that they do come.

Rates are those since the line before. The lag is what Kafka said last of each partition's end,
with the records it brought, so that asking costs no round trip; that of partitions that wait for
their shard or are set aside is asked for (unfetched.py). One of which nobody knows it is counted
instead; where that is all of them, there is no lag. While the broker is away nobody knows it, and
since when is told in its place. Belongs to the worker's thread; `ask` may be called from any.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from connectors.ingest.assignment.partition_writer import PartitionWriter
from connectors.ingest.assignment.unfetched import UnfetchedPartition
from connectors.ingest.status.broker_watch import BrokerWatch
from connectors.ingest.status.counts import WorkerCounts
from connectors.ingest.status.log_lines import tell_library_lines_left_out
from connectors.kafka import Partition

TELL_EVERY_S: Final = 30.0
# After the first records.
TELL_FIRST_AFTER_S: Final = 3.0


class Progress:
    """Tells how a worker gets on."""

    def __init__(
        self,
        counts: WorkerCounts,
        ends: Callable[[Collection[Partition]], Mapping[Partition, int]],
        broker: BrokerWatch,
        now_s: float,
        log: Any,  # noqa: ANN401 - a structlog logger has no better type
    ) -> None:
        """Tell from now on; `ends` returns what was heard last of the ends of partitions."""
        self._counts = counts
        self._ends = ends
        self._broker = broker
        self._log = log
        self._told_s = now_s
        self._told_brought = 0
        self._first_due_s: float | None = None
        self._is_asked = False

    def ask(self) -> None:
        """Have it told with the next look. From any thread, or a signal handler."""
        self._is_asked = True

    def look(
        self,
        now_s: float,
        writers: Mapping[Partition, PartitionWriter],
        unfetched: Callable[[], Collection[UnfetchedPartition]],
        *,
        waiting: int,
        set_aside: int,
    ) -> None:
        """Tell if it is time.

        Args:
            now_s: The time.
            writers: The partitions whose shards are open.
            unfetched: Returns how those stand that wait for their shard or are set aside.
            waiting: How many partitions wait for their shard.
            set_aside: How many are set aside.
        """
        if not self._is_asked and not self._is_due(now_s):
            return
        self._is_asked = False
        tell_library_lines_left_out()
        away_since = self._broker.away_since
        ends = self._ends(list(writers))
        behind = [max(ends[at] - writer.next, 0) for at, writer in writers.items() if at in ends]
        behind += [each.lag for each in unfetched() if each.lag is not None]
        unknown = len(writers) + waiting + set_aside - len(behind)
        is_known = away_since is None and (behind or not unknown)
        brought = self._counts.brought - self._told_brought
        elapsed_s = now_s - self._told_s
        self._log.info(
            "progress",
            shards=len(writers),
            **({"waiting": waiting} if waiting else {}),
            **({"set_aside": set_aside} if set_aside else {}),
            records_s=round(brought / elapsed_s) if elapsed_s > 0 else brought,
            lag=sum(behind) if is_known else None,
            **({} if away_since is None else {"away_since": away_since}),
            **({"lag_unknown": unknown} if unknown else {}),
            **self._counts.totals,
        )
        self._told_s, self._told_brought = now_s, self._counts.brought

    def _is_due(self, now_s: float) -> bool:
        if now_s - self._told_s >= TELL_EVERY_S:
            return True
        if self._told_brought or not self._counts.brought:
            return False
        if self._first_due_s is None:
            self._first_due_s = now_s + TELL_FIRST_AFTER_S
        return now_s >= self._first_due_s

"""The partitions that wait for their shards: when each is tried next, and until when.

A shard takes up to a second to open where Kafka is asked about it. Many that are due at once, as
after a `group resume` of a whole stream, are opened in turns of at most `TURN_MAX_S`, the rest in
the next: between two turns the worker fetches and stores what others have.

Belongs to the worker's thread.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from connectors.kafka import Partition
from storage_core import Clock, ShardPoisonedError

TURN_MAX_S: Final = 0.5
_RETRY_EVERY_S: Final = 0.25


@dataclass(slots=True)
class Waiting:
    """A partition that is ours but whose shard cannot be opened yet; what poisoned it, if so."""

    # None before the first try, where its turn may be long in coming.
    until_s: float | None
    next_try_s: float
    poison: ShardPoisonedError | None = None
    # Whether the log says already why it waits.
    is_logged: bool = True


class WaitingPartitions:
    """Which partitions wait, and which of them are tried now."""

    def __init__(self, wait_s: float, clock: Clock) -> None:
        """Have none; one may wait for `wait_s`."""
        self._wait_s = wait_s
        self._clock = clock
        self._waiting: dict[Partition, Waiting] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._waiting)

    def retry(
        self,
        partition: Partition,
        after_s: float = _RETRY_EVERY_S,
        poison: ShardPoisonedError | None = None,
    ) -> None:
        """Have a partition wait whose shard was tried just now, or failed."""
        now_s = self._clock.monotonic_s()
        until_s = now_s + self._wait_s
        self._waiting[partition] = Waiting(until_s, min(now_s + after_s, until_s), poison)

    def queue(self, partition: Partition) -> None:
        """Have a partition wait for its turn; only where that fails, it is told to wait."""
        self._waiting[partition] = Waiting(None, self._clock.monotonic_s(), is_logged=False)

    def drop(self, partition: Partition) -> None:
        """Have a partition wait no longer, if it does."""
        self._waiting.pop(partition, None)

    def due(self, now_s: float) -> list[Partition]:
        """Return those that are due, in the order in which their turn comes."""
        due = [at for at, waiting in self._waiting.items() if now_s >= waiting.next_try_s]
        # One that has just failed is behind those that were not tried yet.
        return sorted(due, key=lambda at: self._waiting[at].next_try_s)

    def turn(self, now_s: float) -> Iterator[tuple[Partition, Waiting]]:
        """Yield those that are due, one at least, until the turn's time is over."""
        end_s = self._clock.monotonic_s() + TURN_MAX_S
        for partition in self.due(now_s):
            waiting = self._waiting.get(partition)
            if waiting is None:
                # Another's fault was its topic's.
                continue
            yield partition, waiting
            if self._clock.monotonic_s() >= end_s:
                return

    def has_more_time(self, waiting: Waiting, now_s: float) -> bool:
        """Tell whether one that failed may be tried again; then it is due a little later."""
        failed_s = self._clock.monotonic_s()
        if waiting.until_s is None:
            waiting.until_s = failed_s + self._wait_s
        waiting.next_try_s = failed_s + _RETRY_EVERY_S
        return now_s < waiting.until_s

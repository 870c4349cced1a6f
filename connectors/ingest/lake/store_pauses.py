"""How long nothing is published after a failure: a second, then twice as long each time.

A store that does not answer, or refuses, does so for all shards of a stream, so they pause together
and its time-outs are paid once a pause. What fails in one shard, as a damaged part or another
owner, is that shard's alone, and says so.
"""

from typing import Final

from connectors.kafka import Partition
from storage_core import Clock, ShardlogError

FIRST_S: Final = 1.0
LONGEST_S: Final = 60.0

# A topic, or one partition of it.
_Place = str | Partition


class StorePauses:
    """Which streams and shards pause. One thread changes it at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._in_a_row: dict[_Place, int] = {}
        self._until_s: dict[_Place, float] = {}

    def has(self, partition: Partition) -> bool:
        """Tell whether a partition's stream pauses, or its shard alone."""
        now_s = self._clock.monotonic_s()
        places: tuple[_Place, ...] = (partition.topic, partition)
        return any(now_s < self._until_s.get(place, now_s) for place in places)

    def failed(self, partition: Partition, error: ShardlogError) -> None:
        """Begin a pause, or a longer one."""
        place = partition if is_of_shard(error) else partition.topic
        failures = self._in_a_row.get(place, 0)
        self._in_a_row[place] = failures + 1
        self._until_s[place] = self._clock.monotonic_s() + min(FIRST_S * 2**failures, LONGEST_S)

    def succeeded(self, partition: Partition) -> None:
        """Forget the failures of a partition and of its stream."""
        for place in (partition.topic, partition):
            self._in_a_row.pop(place, None)
            self._until_s.pop(place, None)


def is_of_shard(error: BaseException) -> bool:
    """Tell whether a failure is one shard's, and not that of the stream's table or its store."""
    return isinstance(error, ShardlogError) and error.shard is not None

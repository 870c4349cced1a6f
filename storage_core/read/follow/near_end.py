"""The end of a reader's snapshot, proven to have no hole.

A reader's store may lack a piece that its write-ahead logs should have had: one was cut, or it was
flushed and cleared away while it was read. The state of the shard then comes from behind the hole,
and whatever lies in it is missing in windows, late copies and heads alike: a read that is bounded
by these would not even come near it. So before anything is asked, the chain of zones is followed
back from its end over all that the logs can hold; what lies before came from tables, which are
there whole or not at all. Later snapshots of the same store need only what is new.
"""

from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from storage_core.format.keys import INT64_MAX
from storage_core.format.zone import ZoneChunk
from storage_core.read.snapshot import ShardSnapshot

_SPAN_FIRST: Final = 4096
_SPAN_GROWS: Final = 4


def log_sizes(database: Path) -> dict[str, int]:
    """Return the sizes of the write-ahead logs that are there."""
    sizes = {}
    for path in files_of(database, "*.log"):
        with suppress(FileNotFoundError):
            sizes[path.name] = path.stat().st_size
    return sizes


def files_of(database: Path, pattern: str) -> list[Path]:
    """Return a store's files of a kind; none where it was moved away, which the marker tells."""
    try:
        return list(database.glob(pattern))
    except FileNotFoundError:
        # NOTE: pathlib (3.11) looks whether the directory is there first, and then reads it.
        return []


def bytes_in_logs(before: Mapping[str, int], after: Mapping[str, int]) -> int:
    """Return how much a store can have read of logs, between two readings of their sizes."""
    return sum(max(before.get(name, 0), after.get(name, 0)) for name in {*before, *after})


def prove_near_end(snapshot: ShardSnapshot, proven: int | None, log_bytes: int) -> int:
    """Prove that no zone is missing between what came from tables and the end of the snapshot.

    Args:
        snapshot: The snapshot; its marker was read before it was taken.
        proven: Where the chain ended that the same store proved before; None for a new store.
        log_bytes: The most that a new store can have taken from write-ahead logs.

    Returns:
        Where the chain ends.

    Raises:
        CorruptionError: A zone is missing.
    """
    end = reached = snapshot.state.tail.blocks_end
    begin = max(snapshot.state.start, proven or 0)
    left = log_bytes if proven is None else INT64_MAX
    span = _SPAN_FIRST
    while reached > begin and left >= 0:
        zones = _Zones(reached)
        deque(snapshot.zones(max(begin, reached - span), reached, zones.take), maxlen=0)
        if zones.first == reached:
            break
        left -= zones.stored_bytes + snapshot.stored_bytes(zones.first, reached)
        reached = zones.first
        span *= _SPAN_GROWS
    return end


class _Zones:
    """Counts the zones that it is given, and wants none of them."""

    def __init__(self, end: int) -> None:
        """Count those in front of an address."""
        self.first = end
        self.stored_bytes = 0
        self._end = end

    def take(self, chunk: ZoneChunk) -> npt.NDArray[np.bool_]:
        """Count neighbouring zones."""
        first = chunk.fields["first"]
        inside = int(first.searchsorted(self._end))
        if inside:
            self.first = min(self.first, int(first[0]))
            self.stored_bytes += sum(map(len, chunk.values[:inside]))
        return np.zeros(len(first), np.bool_)

"""What the log takes from outside: time, its stores and its markers.

Tests pass others: a clock turned by hand, a disk that fails at the N-th call.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from storage_core.ground.clock import Clock, SystemClock
from storage_core.store import marker, rocks
from storage_core.store.key_value import KeyValueStore, Recovery
from storage_core.store.marker import MarkerWriter


@dataclass(frozen=True, slots=True)
class Environment:
    """The outside of one stream.

    `purpose` is told to those who find its shards locked. Without `has_index_worker` entries
    of the index are written only when `Stream.index` is told to.
    """

    clock: Clock = SystemClock()
    open_store: Callable[[Path, Recovery], KeyValueStore] = rocks.open_store
    open_marker: Callable[[Path], tuple[MarkerWriter | None, int]] = marker.open_marker
    purpose: str = ""
    has_index_worker: bool = True

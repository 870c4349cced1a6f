"""What the log takes from outside: time, its stores and its markers.

Tests pass others: a clock turned by hand, a disk that fails at the N-th call.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from storage_core.engine import commit_marker, stores
from storage_core.engine.commit_marker import MarkerWriter
from storage_core.engine.key_value import KeyValueStore, Recovery
from storage_core.platform.clock import Clock, SystemClock


@dataclass(frozen=True, slots=True)
class Environment:
    """The outside of one stream.

    `purpose` is told to those who find its shards locked. Without `has_index_worker` entries
    of the index are written only when `Stream.index` is told to. `once_locked` is called when the
    lock of a shard is held, before anything of it is opened; what it raises ends the opening.
    """

    clock: Clock = SystemClock()
    open_store: Callable[[Path, Recovery], KeyValueStore] = stores.open_store
    open_marker: Callable[[Path], tuple[MarkerWriter | None, int]] = commit_marker.open_marker
    purpose: str = ""
    has_index_worker: bool = True
    once_locked: Callable[[], None] = lambda: None

"""What tests of code that uses shardlog need: time turned by hand, disks that fail on cue.

Shipped with the package; nothing here is used by it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from storage_core.engine import commit_marker, rocksdb
from storage_core.engine.commit_marker import MarkerWriter
from storage_core.engine.environment import Environment
from storage_core.engine.key_value import Batch, KeyValueStore, Recovery, StoreSnapshot
from storage_core.engine.segments import APART_BYTES_MIN, SEGMENT_BYTES
from storage_core.format.marker_slot import MarkerState
from storage_core.platform.clock import SystemClock

# How long a call of a store may take at most, and how often its end is looked for.
_CALL_MAX_S = 60.0
_LOOK_EVERY_S = 0.001


class SimulatedCrash(BaseException):
    """The process is taken to have died at this call."""


@dataclass(slots=True)
class ManualClock:
    """A clock that moves when told; `sleep` moves it too."""

    wall_ns: int = 1_700_000_000 * 10**9
    elapsed_s: float = 0.0

    def now_ns(self) -> int:
        """Return wall time in nanoseconds since the epoch."""
        return self.wall_ns

    def monotonic_s(self) -> float:
        """Return seconds that never run backwards."""
        return self.elapsed_s

    def sleep(self, seconds: float) -> None:
        """Move time on."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Move time on."""
        self.elapsed_s += seconds
        self.wall_ns += round(seconds * 10**9)


@dataclass(slots=True)
class FaultyDisk:
    """Stores and markers that crash at a chosen call.

    Calls that write are counted over all stores and markers opened through it: a write, a
    sync, a flush, a marker's publication. The call at which it crashes does not happen; from
    then on none does.

    Attributes:
        calls: How many writing calls were made.
        crash_at: The call that crashes, counted from 1; None for never.
        apart_bytes_min: A batch with so many bytes of blocks writes them to a segment.
        segment_bytes: A segment with so many is followed by the next.
    """

    calls: int = 0
    crash_at: int | None = None
    apart_bytes_min: int = APART_BYTES_MIN
    segment_bytes: int = SEGMENT_BYTES
    _closers: list[Callable[[], None]] = field(init=False, default_factory=list)

    def environment(self, clock: ManualClock) -> Environment:
        """Return an environment whose disk this is, in which nobody but its caller writes."""
        return Environment(clock, self.open_store, self.open_marker, has_index_worker=False)

    def open_store(self, path: Path, recovery: Recovery) -> KeyValueStore:
        """Open a store that crashes on cue."""
        store = rocksdb.open_store(
            path,
            recovery,
            apart_bytes_min=self.apart_bytes_min,
            segment_bytes=self.segment_bytes,
        )
        self._closers.append(store.close)
        return _FaultyStore(self, store)

    def open_marker(self, path: Path) -> tuple[MarkerWriter | None, int]:
        """Open a marker that crashes on cue."""
        opened, valid = commit_marker.open_marker(path)
        return (None if opened is None else _FaultyMarker(self, opened)), valid

    def count(self) -> None:
        """Count a writing call; crash if it is the one, or came after it."""
        self.calls += 1
        if self.crash_at is not None and self.calls >= self.crash_at:
            message = f"crashed at writing call {self.crash_at}"
            raise SimulatedCrash(message)

    def bury(self) -> None:
        """Let go of what the dead process held, as the kernel would."""
        for close in self._closers:
            _close_once_free(close)
        self._closers.clear()


def _close_once_free(close: Callable[[], None]) -> None:
    """Close a store once no other thread is within a call of it, as one of the dead may be."""
    clock = SystemClock()
    until_s = clock.monotonic_s() + _CALL_MAX_S
    while True:
        try:
            return close()
        except RuntimeError as error:
            if "borrowed" not in str(error) or clock.monotonic_s() >= until_s:
                raise
            clock.sleep(_LOOK_EVERY_S)


class _FaultyStore:
    def __init__(self, disk: FaultyDisk, store: KeyValueStore) -> None:
        self._disk = disk
        self._store = store

    def write(self, batch: Batch) -> None:
        self._disk.count()
        self._store.write(batch)

    def sync(self) -> None:
        self._disk.count()
        self._store.sync()

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        return self._store.get_many(keys)

    def snapshot(self) -> StoreSnapshot:
        return self._store.snapshot()

    def flush(self) -> None:
        self._disk.count()
        self._store.flush()

    def free(
        self,
        blocks: Sequence[tuple[bytes, bytes]],
        segments: Sequence[int],
        files: Sequence[Path] = (),
    ) -> None:
        self._disk.count()
        self._store.free(blocks, segments, files)

    def close(self) -> None:
        self._store.close()


class _FaultyMarker:
    def __init__(self, disk: FaultyDisk, opened: MarkerWriter) -> None:
        self._disk = disk
        self._marker = opened

    @property
    def state(self) -> MarkerState:
        return self._marker.state

    def publish(self, committed: int) -> None:
        self._disk.count()
        self._marker.publish(committed)

    def write_both(self, state: MarkerState) -> None:
        self._disk.count()
        self._marker.write_both(state)

    def close(self) -> None:
        self._marker.close()

"""A witness behind each shard's disk: it holds the writer to its order on every call.

Nothing is published that was not written before the last finished sync began; committed never
falls. What happens during a sync can be set, so that a test writes in the middle of one.
"""

from collections.abc import Callable
from pathlib import Path

from storage_core.format.keys import FAMILY_DEFAULT
from storage_core.format.marker_slot import MarkerState
from storage_core.format.shard_state import KEY_NEXT, decode_tail
from storage_core.store.key_value import Batch, KeyValueStore, Recovery, StoreView
from storage_core.store.marker import MarkerWriter
from storage_core.testing import FaultyDisk


class Witness:
    """One shard's disk, and what its writer has done there in which order."""

    def __init__(self) -> None:
        self.disk = FaultyDisk()
        self.during_sync: Callable[[], object] | None = None
        self._written = 0
        self._durable = 0

    def open_store(self, path: Path, recovery: Recovery) -> KeyValueStore:
        """Open the shard's store; nothing that a dead process left counts as synced."""
        store = self.disk.open_store(path, recovery)
        (value,) = store.get_many([KEY_NEXT])
        self._written = 0 if value is None else decode_tail(value).next
        self._durable = 0
        return _WitnessedStore(self, store)

    def open_marker(self, path: Path) -> tuple[MarkerWriter | None, int]:
        """Open the shard's marker."""
        opened, valid = self.disk.open_marker(path)
        return (None if opened is None else _WitnessedMarker(self, opened)), valid

    def saw_write(self, batch: Batch) -> None:
        """Note the tail that a batch wrote."""
        for family, key, value in batch.puts:
            if family == FAMILY_DEFAULT and key == KEY_NEXT:
                self._written = decode_tail(value).next

    def sync(self, store: KeyValueStore) -> None:
        """Sync; what is written meanwhile does not count as durable."""
        written = self._written
        meanwhile, self.during_sync = self.during_sync, None
        if meanwhile is not None:
            meanwhile()
        store.sync()
        self._durable = written

    def check(self, before: int, after: int) -> None:
        """Hold a publication against what was synced."""
        assert after >= before, f"committed fell from {before} to {after}"
        assert after in (before, self._durable), f"{after} published, {self._durable} was synced"


class _WitnessedStore:
    def __init__(self, witness: Witness, store: KeyValueStore) -> None:
        self._witness = witness
        self._store = store

    def write(self, batch: Batch) -> None:
        self._store.write(batch)
        self._witness.saw_write(batch)

    def sync(self) -> None:
        self._witness.sync(self._store)

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        return self._store.get_many(keys)

    def view(self) -> StoreView:
        return self._store.view()

    def flush(self) -> None:
        self._store.flush()

    def close(self) -> None:
        self._store.close()


class _WitnessedMarker:
    def __init__(self, witness: Witness, opened: MarkerWriter) -> None:
        self._witness = witness
        self._marker = opened

    @property
    def state(self) -> MarkerState:
        return self._marker.state

    def publish(self, committed: int) -> None:
        self._witness.check(self.state.committed, committed)
        self._marker.publish(committed)

    def write_both(self, state: MarkerState) -> None:
        self._witness.check(self.state.committed, state.committed)
        self._marker.write_both(state)

    def close(self) -> None:
        self._marker.close()

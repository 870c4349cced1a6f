"""A witness behind each shard's disk: it holds the writer to its order on every call.

Nothing is published that was not written before the last finished sync began; committed never
falls. What happens during a sync can be set, so that a test writes in the middle of one.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from storage_core.engine.key_value import Batch, KeyValueStore, Recovery
from storage_core.format.keys import FAMILY_DEFAULT
from storage_core.format.shard_state import KEY_NEXT, decode_tail
from storage_core.testing import FaultyDisk
from tests.log.batches import puts_of
from tests.log.hooked_disk import HookedDisk


class Witness(HookedDisk):
    """One shard's disk, and what its writer has done there in which order."""

    def __init__(self) -> None:
        # Small enough for batches of a few records to be large, and for single ones not to be.
        self.disk = FaultyDisk(apart_bytes_min=600)
        super().__init__(self.disk.open_store, self.disk.open_marker)
        self.during_sync: Callable[[], object] | None = None
        self._written = 0
        self._durable = 0

    def open_store(self, path: Path, recovery: Recovery) -> KeyValueStore:  # type: ignore[explicit-override]  # needs Python 3.12
        """Open the shard's store; nothing that a dead process left counts as synced."""
        store = super().open_store(path, recovery)
        (value,) = store.get_many([KEY_NEXT])
        self._written = 0 if value is None else decode_tail(value).next
        self._durable = 0
        return store

    def passes(self, name: str, call: Callable[..., Any], *arguments: Any) -> Any:  # type: ignore[explicit-override]  # needs Python 3.12
        """Pass a call on, and hold a publication against what was synced.

        What is written during a sync does not count as durable by it.
        """
        written = self._written
        if name == "sync":
            meanwhile, self.during_sync = self.during_sync, None
            if meanwhile is not None:
                meanwhile()
        elif name in ("publish", "write_both"):
            marker: Any = call
            self._check(
                marker.__self__.state.committed, getattr(arguments[0], "committed", arguments[0])
            )
        answer = super().passes(name, call, *arguments)
        if name == "sync":
            self._durable = written
        elif name == "write":
            self._saw_write(*arguments)
        return answer

    def _saw_write(self, batch: Batch) -> None:
        """Note the tail that a batch wrote."""
        for family, key, value in puts_of(batch):
            if family == FAMILY_DEFAULT and key == KEY_NEXT:
                self._written = decode_tail(value).next

    def _check(self, before: int, after: int) -> None:
        assert after >= before, f"committed fell from {before} to {after}"
        assert after in (before, self._durable), f"{after} published, {self._durable} was synced"

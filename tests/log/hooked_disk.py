"""A disk that calls back, in the caller's own thread, before or after a call passes.

    disk.on("after publish", look)      look() once, when the next publication has happened
    disk.calls                          what was asked of it so far, in order

What another thread would do at that moment, a test does there: no race, no waiting. The store
and the marker behind it are real ones. Calls are `write`, `sync`, `get_many`, `snapshot`, `flush`
and `close` of a store, `publish`, `write_both` and a look at `state` of a marker, `strict` and
`point_in_time` for the opening of a store.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from storage_core import Environment, UnavailableError
from storage_core.engine import commit_marker, rocksdb
from storage_core.engine.commit_marker import MarkerWriter
from storage_core.engine.key_value import KeyValueStore, Recovery
from storage_core.testing import ManualClock

OpenStore = Callable[[Path, Recovery], KeyValueStore]
OpenMarker = Callable[[Path], tuple[MarkerWriter | None, int]]


def full(call: str) -> UnavailableError:
    """Return the error of a call for which a disk has no space."""
    message = f"IO error: no space left ({call})"
    return UnavailableError(message)


class HookedDisk:
    """Stores and markers that pass each call on, and tell of it."""

    def __init__(
        self,
        open_store: OpenStore = rocksdb.open_store,
        open_marker: OpenMarker = commit_marker.open_marker,
    ) -> None:
        """Stand before real stores and markers, or before those of another disk."""
        self.clock = ManualClock()
        self.calls: list[str] = []
        self._open_store, self._open_marker = open_store, open_marker
        self._hooks: dict[str, Callable[[], object]] = {}

    @property
    def environment(self) -> Environment:
        """Return an environment with this disk and a clock turned by hand."""
        return Environment(self.clock, self.open_store, self.open_marker, has_index_worker=False)

    def on(self, moment: str, call: Callable[[], object]) -> None:
        """Make a call once, at the next such moment: `before sync`, `after publish`."""
        self._hooks[moment] = call

    def fail(self, call: str, passes: int = 0) -> None:
        """Let a call fail as a disk does, once so many of them have passed."""

        def refuse() -> None:
            if passes:
                self.fail(call, passes - 1)
                return
            raise full(call)

        self.on(f"before {call}", refuse)

    def before(self, behind: Any) -> Any:
        """Stand before something else that is asked: a store, a marker, however it was opened."""
        return _Hooked(self, behind)

    def passes(self, name: str, call: Callable[..., Any], *given: Any) -> Any:
        """Pass a call on, with what is to happen before and after it."""
        self.reached(f"before {name}")
        self.calls.append(name)
        answer = call(*given)
        self.reached(f"after {name}")
        return answer

    def reached(self, moment: str) -> None:
        hook = self._hooks.pop(moment, None)
        if hook is not None:
            hook()

    def open_store(self, path: Path, recovery: Recovery) -> KeyValueStore:
        store = self.passes(recovery, self._open_store, path, recovery)
        hooked: KeyValueStore = self.before(store)
        return hooked

    def open_marker(self, path: Path) -> tuple[MarkerWriter | None, int]:
        opened, valid = self._open_marker(path)
        if opened is None:
            return None, valid
        hooked: MarkerWriter = self.before(opened)
        return hooked, valid


class _Hooked:
    def __init__(self, disk: HookedDisk, behind: Any) -> None:
        self._disk = disk
        self._behind = behind

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._behind, name)
        if not callable(found):
            self._disk.reached(f"before {name}")
            return getattr(self._behind, name)
        return lambda *given: self._disk.passes(name, found, *given)

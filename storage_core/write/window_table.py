"""The writer's bounded memory of window summaries, over what the store holds.

One thread at a time (the shard's append lock).
"""

from collections.abc import Callable
from typing import Final

from storage_core.format.keys import window_key
from storage_core.format.window import Window, decode_window

WINDOWS_MAX: Final = 4096


class WindowTable:
    """Summaries of the windows written last."""

    def __init__(self, load: Callable[[list[bytes]], list[bytes | None]]) -> None:
        """Remember none yet; `load` looks any that is not known up in the writer's store."""
        self._load = load
        self._windows: dict[int, Window] = {}

    def widen(self, added: dict[int, Window]) -> dict[int, Window]:
        """Return the windows as they will be, without remembering them yet."""
        missing = [number for number in added if number not in self._windows]
        stored = self._load([window_key(number) for number in missing]) if missing else ()
        before = {
            number: decode_window(data)
            for number, data in zip(missing, stored, strict=True)
            if data is not None
        }
        return {
            number: (self._windows.get(number) or before.get(number) or Window()).widened(window)
            for number, window in added.items()
        }

    def accept(self, windows: dict[int, Window]) -> None:
        """Remember windows that were written."""
        self._windows.update(windows)
        while len(self._windows) > WINDOWS_MAX:
            del self._windows[next(iter(self._windows))]

    def forget(self) -> None:
        """Forget all: some are gone."""
        self._windows = {}

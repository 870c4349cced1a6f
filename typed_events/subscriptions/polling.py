"""How often live readers look for rows of other processes: together so often, however many.

Rows that this process stores are told of (LiveReader.wake); nobody looks for them.
"""

import threading
from typing import Final

# So long a look takes about; all together are to take no more than some hundredths of a processor.
_PAUSE_OF_EACH_S: Final = 0.001
_PAUSE_MAX_S: Final = 0.1


class Polling:
    """How the live readers of a root poll. Any thread."""

    def __init__(self, pause_s: float) -> None:
        """Let few readers pause so long before each looks again."""
        self._pause_s = pause_s
        self._lock = threading.Lock()
        self._readers = 0

    def begin(self) -> None:
        """Count one more reader."""
        with self._lock:
            self._readers += 1

    def end(self) -> None:
        """Count one reader less."""
        with self._lock:
            self._readers -= 1

    @property
    def pause_s(self) -> float:
        """How long a reader that found nothing pauses at most."""
        return max(self._pause_s, min(self._readers * _PAUSE_OF_EACH_S, _PAUSE_MAX_S))

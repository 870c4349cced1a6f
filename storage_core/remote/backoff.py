"""How long is tried what nobody could answer, and the pauses between, which grow."""

from typing import Final

from storage_core.errors import ShardlogError
from storage_core.platform.clock import Clock

_PAUSE_FIRST_S: Final = 0.05
_PAUSE_MAX_S: Final = 1.0


class Backoff:
    """The pauses between tries, within a time. Of one thread."""

    def __init__(self, clock: Clock, retry_for_s: float) -> None:
        """Begin with all of the time."""
        self._clock = clock
        self._retry_for_s = retry_for_s
        self.reset()

    def reset(self) -> None:
        """Begin anew, since there was progress."""
        self._deadline_s = self._clock.monotonic_s() + self._retry_for_s
        self._pause_s = _PAUSE_FIRST_S

    def pause(self, error: ShardlogError) -> None:
        """Wait before the next try.

        Raises:
            ShardlogError: The time is over; what the last try failed with.
        """
        left_s = self._deadline_s - self._clock.monotonic_s()
        if left_s <= 0:
            raise error
        self._clock.sleep(min(self._pause_s, left_s))
        self._pause_s = min(2 * self._pause_s, _PAUSE_MAX_S)

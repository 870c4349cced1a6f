"""Waiting for what another process does: bounded, and told when it does not come."""

from collections.abc import Callable

from storage_core import SystemClock

# It ends hangs: a worker that starts takes a second alone, and half a minute among many others.
WAIT_MAX_S = 120.0
_LOOK_EVERY_S = 0.02
_CLOCK = SystemClock()


def await_that(
    condition: Callable[[], bool],
    description: str | Callable[[], str],
    wait_s: float = WAIT_MAX_S,
) -> None:
    """Wait until something holds, bounded; what is long to say is asked for when it does not."""
    deadline = _CLOCK.monotonic_s() + wait_s
    while not condition():
        if _CLOCK.monotonic_s() >= deadline:
            missing = description if isinstance(description, str) else description()
            message = f"not within {wait_s:g} s: {missing}"
            raise AssertionError(message)
        _CLOCK.sleep(_LOOK_EVERY_S)

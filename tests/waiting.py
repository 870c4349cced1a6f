"""Waiting for what another process does: bounded, and told when it does not come."""

from collections.abc import Callable

from storage_core import SystemClock

# It ends hangs: a worker that starts takes a second alone, and half a minute among many others.
WAIT_MAX_S = 120.0
# What takes longer to ask is asked less often, so that it leaves the processor to what is awaited.
_LOOK_EVERY_S = 0.02
_PAUSE_MAX_S = 0.25
_CLOCK = SystemClock()


def await_that(
    condition: Callable[[], bool],
    description: str | Callable[[], str],
    wait_s: float = WAIT_MAX_S,
) -> None:
    """Wait until something holds, bounded; what is long to say is asked for when it does not."""
    deadline = _CLOCK.monotonic_s() + wait_s
    began = _CLOCK.monotonic_s()
    while not condition():
        now = _CLOCK.monotonic_s()
        if now >= deadline:
            missing = description if isinstance(description, str) else description()
            message = f"not within {wait_s:g} s: {missing}"
            raise AssertionError(message)
        _CLOCK.sleep(min(max(now - began, _LOOK_EVERY_S), _PAUSE_MAX_S))
        began = _CLOCK.monotonic_s()

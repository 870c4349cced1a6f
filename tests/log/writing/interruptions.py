"""Calls that are interrupted everywhere: an exception out of a signal handler at each place.

A tracer trips a signal before one instruction of the call; the interpreter itself then decides
where its handler runs, as it does for a signal that comes from outside: at the next place where
it looks. Only instructions at which it looks are chosen, so that each place comes once.
"""

import ctypes
import dis
import gc
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import CodeType, FrameType
from typing import Any

import storage_core

_OURS = storage_core.__path__[0]
_PLACES_MAX = 10_000
_LOOKS = ("CALL", "RESUME", "JUMP_BACKWARD")


class Interruption(BaseException):
    """What the signal's handler raises."""


class _Trip:
    # An operator, since signals are looked for behind a call and not behind it.
    __neg__ = ctypes.pythonapi.PyErr_SetInterrupt


@cache
def _looking(code: CodeType) -> frozenset[int]:
    """Return the offsets of the instructions at which signals are looked for."""
    if not code.co_filename.startswith(_OURS):
        return frozenset()
    return frozenset(
        instruction.offset
        for instruction in dis.get_instructions(code)
        if any(name in instruction.opname for name in _LOOKS)
    )


class _Tracer:
    """Trips the signal at the n-th place."""

    def __init__(self, place: int, counts: Callable[[], bool]) -> None:
        self._left = place
        self._counts = counts
        self._trip = _Trip()
        self.has_tripped = False

    def __call__(self, frame: FrameType, event: str, _argument: object) -> Any:
        offsets = _looking(frame.f_code)
        if not offsets or self.has_tripped:
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        is_place = event == "call" or (event == "opcode" and frame.f_lasti in offsets)
        if is_place and self._counts():
            self._left -= 1
            if self._left < 0:
                self.has_tripped = True
                # IMPORTANT: no call behind the trip, here or as a tracer; it would be the one
                # that is interrupted.
                sys.settrace(None)
                _ = -self._trip
        return self


@contextmanager
def _handled() -> Iterator[None]:
    def interrupt(*_: object) -> None:
        raise Interruption

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def interrupted_everywhere(
    call: Callable[[int], object], every: int = 1, counts: Callable[[], bool] = lambda: True
) -> Iterator[int]:
    """Call again and again, each time interrupted further on, until there is no place left.

    Args:
        call: What is interrupted; it is given the number of the place.
        every: Take only each so many-th place of a call that has many.
        counts: Says whether places are taken at this moment of the call.

    Yields:
        The number of the place at which the call was interrupted.
    """
    for place in range(0, _PLACES_MAX, every):
        tracer = _Tracer(place, counts)
        before = sys.gettrace()
        with _handled():
            try:
                # What the collector calls back would be interrupted in place of the call.
                gc.disable()
                sys.settrace(tracer)
                call(place)
            except Interruption:
                was_interrupted = True
            else:
                was_interrupted = False
            finally:
                sys.settrace(before)
                gc.enable()
        if not tracer.has_tripped:
            return
        assert was_interrupted, f"the interruption at place {place} was swallowed"
        yield place
    message = f"more than {_PLACES_MAX} places"
    raise AssertionError(message)

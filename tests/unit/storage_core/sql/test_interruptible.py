"""Calls that an interrupt is to end, however late they begin to hear of it."""

import os
import signal
import threading

import pytest

from storage_core.sql.interruptible import Interruptible


def test_interrupt_is_repeated_until_the_call_has_ended():
    interrupts = threading.Semaphore(0)

    def work():
        os.kill(os.getpid(), signal.SIGINT)
        # As a query that had not begun when it was to end.
        for _ in range(3):
            assert interrupts.acquire(timeout=60)

    waits = Interruptible(interrupts.release)
    with pytest.raises(KeyboardInterrupt):
        waits.call(work)
    waits.close()


def test_interrupt_leaves_no_call_behind_whenever_it_comes():
    running, interrupts = threading.Event(), threading.Event()

    def work():
        running.set()
        # The caller may not even have been told that the call has begun.
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.wait(60)
        running.clear()

    calls = Interruptible(interrupts.set)
    for _ in range(20):
        interrupts.clear()
        with pytest.raises(KeyboardInterrupt):
            calls.call(work)
        assert not running.is_set()
    calls.close()


def test_what_a_poll_raises_ends_the_call():
    interrupts = threading.Semaphore(0)
    calls = Interruptible(interrupts.release)

    def poll() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        calls.call(lambda: interrupts.acquire(timeout=60), poll)
    assert calls.call(lambda: "next", poll=None) == "next"
    calls.close()

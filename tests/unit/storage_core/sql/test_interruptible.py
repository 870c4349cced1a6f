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

    waits = Interruptible(interrupts.release, None)
    with pytest.raises(KeyboardInterrupt):
        waits.call(work)
    waits.close()

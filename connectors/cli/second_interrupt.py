"""A second Ctrl-C ends the command at once, where what the first one ends may take its time."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def second_interrupt_ends() -> Iterator[None]:
    """Let the first Ctrl-C interrupt what is done here, and the second end the process."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is not signal.default_int_handler:
        # What a shell runs in the background is not to be interrupted at all.
        yield
        return

    def interrupt(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)

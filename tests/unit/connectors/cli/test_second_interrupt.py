"""Ctrl-C twice: the second one ends the command whatever it is at."""

import signal
import subprocess
import sys

import pytest

from tests.waiting import WAIT_MAX_S

TWICE = """
import signal
from connectors.cli.second_interrupt import second_interrupt_ends
signal.signal(signal.SIGINT, signal.{usual})
with second_interrupt_ends():
    try:
        signal.raise_signal(signal.SIGINT)
        print("not heard")
    except KeyboardInterrupt:
        print("first", flush=True)
    signal.raise_signal(signal.SIGINT)
print(signal.getsignal(signal.SIGINT) == signal.{usual})
"""


@pytest.mark.parametrize(
    ("usual", "code", "printed"),
    [("default_int_handler", -signal.SIGINT, "first\n"), ("SIG_IGN", 0, "not heard\nTrue\n")],
)
def test_second_interrupt_ends_the_command_at_once(usual, code, printed):
    command = [sys.executable, "-c", TWICE.format(usual=usual)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_MAX_S, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (code, printed, "")

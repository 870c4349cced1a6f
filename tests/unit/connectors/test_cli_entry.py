"""The first moments of the command: an interrupt in them leaves no traceback."""

import signal
import subprocess
import sys

import pytest

INTERRUPTED_AT = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from connectors.cli.entry import run
run()
"""


def run_entry(program, *arguments):
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("name", ["connectors.cli.main", "pyarrow.lib", "confluent_kafka.cimpl"])
def test_interrupt_while_the_command_is_imported_ends_it_without_a_word(name):
    ran = run_entry(INTERRUPTED_AT.format(name=name))
    assert (ran.returncode, ran.stdout, ran.stderr) == (-signal.SIGINT, "", "")


def test_entry_runs_the_command_with_its_exit_code():
    ran = run_entry("from connectors.cli.entry import run; run()", "status", "/nowhere")
    assert ran.returncode == 2
    assert ran.stderr.startswith("shardlog: ")

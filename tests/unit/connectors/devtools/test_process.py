"""Guarded programs end with their owner, and only then; their logs are quoted.

The program is `sleep`, the owner a Python process that a test kills.
"""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from connectors.devtools.process import (
    GuardedProcess,
    Process,
    await_end,
    last_telling_line,
    start_guarded,
)
from storage_core import UnavailableError
from tests.waiting import WAIT_MAX_S

SLEEP = [str(shutil.which("sleep")), "600"]


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


@contextmanager
def owner_process() -> Iterator[Process]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as parent:
        owner = Process.find(parent.pid)
        assert owner is not None
        try:
            yield owner
        finally:
            parent.kill()


@contextmanager
def sleeping(scratch: Path, owner: Process) -> Iterator[GuardedProcess]:
    running = start_guarded(SLEEP, log=scratch.parent / "log", scratch=scratch, owner=owner)
    try:
        yield running
    finally:
        running.program.kill()


def test_killed_guard_takes_the_program_along(scratch):
    with owner_process() as owner, sleeping(scratch, owner) as running:
        running.guard.kill()
        assert running.program.has_ended_within(WAIT_MAX_S)


def test_program_of_an_owner_that_is_gone_is_not_started(scratch):
    with owner_process() as owner:
        pass
    with pytest.raises(UnavailableError, match=f"its owner, process {owner.pid}, is gone"):
        start_guarded(SLEEP, log=scratch.parent / "log", scratch=None, owner=owner)


def test_program_that_takes_too_long_is_killed(tmp_path):
    with sleeping(tmp_path / "scratch", Process.current()) as running:
        with pytest.raises(UnavailableError, match="no end after 0 s"):
            await_end(running.program, tmp_path / "log", 0.1)
        assert not running.program.is_alive()


def test_process_with_a_number_used_again_is_another():
    current = Process.current()
    stranger = Process(current.pid, current.started + 1)
    assert current.is_alive()
    assert not stranger.is_alive()
    stranger.send(signal.SIGKILL)
    assert stranger.has_ended_within(0)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "its log is empty"),
        ("one\ntwo\n\n", "two"),
        ("ERROR Exiting: port\n\tat java.Net(Net.java)\nwarning\n", "ERROR Exiting: port"),
        ("Caused by: java.net.BindException: taken\n  ... 9 more\n", "Caused by: java.net"),
        ("java.lang.Error: x\nthe process ended with exit code 1\n", "java.lang.Error: x"),
        ("the process ended with signal 9\n", "the process ended with signal 9"),
    ],
)
def test_last_telling_line_of_a_log(tmp_path, text, line):
    log = tmp_path / "log"
    log.write_text(text)
    assert last_telling_line(log).startswith(line)

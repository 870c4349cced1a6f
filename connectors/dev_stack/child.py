"""Child processes that do not outlive their owner (guard.py), and what their logs say.

`start_guarded` returns at once. `run_guarded` waits for the end and calls back while it waits;
the caller judges success by what the command was to make.
"""

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final

from connectors.dev_stack import guard
from connectors.dev_stack.process import Process
from storage_core import UnavailableError

_GUARD_START_MAX_S: Final = 30.0
_LOOK_EVERY_S: Final = 0.25
_QUOTE_CHARS_MAX: Final = 300
_LOG_BYTES_READ_MAX: Final = 1 << 20
_TELLING: Final = re.compile(r"\b(?:ERROR|FATAL|FAILED|UNRESOLVED)|Exception\b|Error\b|not found")
_STACK_FRAME: Final = re.compile(r"\s*at |\s*\.\.\. \d+ more")
_ENDING: Final = "the process ended with "


@dataclass(frozen=True, slots=True)
class GuardedProcess:
    """A running program and the guard above it."""

    program: Process
    guard: Process

    def set_free(self) -> None:
        """Let the program live on after its owner."""
        self.guard.send(signal.SIGUSR1)


def start_guarded(
    command: list[str], *, log: Path, scratch: Path | None, owner: Process
) -> GuardedProcess:
    """Start a program that is killed, and `scratch` removed, when the owner ends.

    Args:
        command: The program's absolute path and its arguments.
        log: Where its output is added.
        scratch: What nobody needs once the owner is gone, if anything.
        owner: Whose life bounds the program's.

    Raises:
        UnavailableError: It could not be started.
    """
    identity = [str(owner.pid), str(owner.started)]
    start = [sys.executable, "-I", "-S", guard.__file__, *identity, str(scratch or ""), str(log)]
    try:
        done = subprocess.run(  # noqa: S603 - our own script
            [*start, *command],
            capture_output=True,
            text=True,
            timeout=_GUARD_START_MAX_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        message = f"{Path(command[0]).name} was not started within {_GUARD_START_MAX_S:.0f} s"
        raise UnavailableError(message) from error
    match [int(number) for number in done.stdout.split()]:
        case [guard_pid, guard_started, pid, started]:
            return GuardedProcess(Process(pid, started), Process(guard_pid, guard_started))
        case _:
            told = done.stderr.strip() or last_telling_line(log)
            message = f"{Path(command[0]).name} was not started: {told}"
            raise UnavailableError(message, path=log)


def run_guarded(  # noqa: PLR0913 - a command, its places and its bounds
    command: list[str],
    *,
    log: Path,
    scratch: Path | None,
    owner: Process,
    timeout_s: float,
    on_tick: Callable[[], None] = lambda: None,
) -> None:
    """Run a program to its end.

    Raises:
        UnavailableError: It could not be started, or took too long and was killed.
    """
    running = start_guarded(command, log=log, scratch=scratch, owner=owner)
    deadline = monotonic() + timeout_s
    try:
        while not running.program.has_ended_within(_LOOK_EVERY_S):
            on_tick()
            if monotonic() > deadline:
                message = f"gave up after {timeout_s:.0f} s: {last_telling_line(log)}"
                raise UnavailableError(message, path=log)
    finally:
        running.program.kill()


def last_telling_line(log: Path) -> str:
    """Return the last line of a log that speaks of an error, or simply the last."""
    lines = [line.strip() for line in _tail(log) if line.strip() and not _STACK_FRAME.match(line)]
    told = [line for line in lines if not line.startswith(_ENDING)]
    telling = [line for line in told if _TELLING.search(line)]
    return (telling or told or lines or ["its log is empty"])[-1][:_QUOTE_CHARS_MAX]


def _tail(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _LOG_BYTES_READ_MAX))
            return file.read().decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return []

"""Processes that are told apart from later ones of the same number, and end with their owner.

A number alone is reused; a number and the time of its start are not. Signals go through a file
descriptor of the process, so that they cannot reach another one. Linux 5.3 or later.

`start_guarded` puts a guard above a program (guard.py) and returns at once. Whether one that was
awaited has succeeded its caller judges by what it was to make.
"""

import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final, Self

from connectors.devtools import guard
from storage_core import UnavailableError

_STOP_MAX_S: Final = 15.0
_KILL_MAX_S: Final = 15.0
_GUARD_START_MAX_S: Final = 60.0
_LOOK_EVERY_S: Final = 0.25
_ENDED_STATES: Final = ("Z", "X")
_QUOTE_CHARS_MAX: Final = 300
_LOG_BYTES_READ_MAX: Final = 1 << 20
_TELLING: Final = re.compile(r"\b(?:ERROR|FATAL|FAILED|UNRESOLVED)|Exception\b|Error\b|not found")
# Empty lines, and those of a stack.
_PASSED_OVER: Final = re.compile(r"\s*(?:$|at |\.\.\. \d+ more)")
_ENDING: Final = "the process ended with "


@dataclass(frozen=True, slots=True)
class Process:
    """One process of this machine, alive or gone.

    Attributes:
        pid: Its number.
        started: When it began, in the kernel's clock ticks since boot.
    """

    pid: int
    started: int

    @classmethod
    def find(cls, pid: int) -> Self | None:
        """Return the process that has this number, or None."""
        try:
            state, started = guard.state_and_start(pid)
        except OSError:
            return None
        return None if state in _ENDED_STATES else cls(pid, started)

    @classmethod
    def current(cls) -> Self:
        """Return this process."""
        return cls(os.getpid(), guard.state_and_start(os.getpid())[1])

    def user(self) -> int | None:
        """Return the number of the user who runs it; None when it has ended."""
        try:
            user = Path(f"/proc/{self.pid}").stat().st_uid
        except OSError:
            return None
        # Looked at after that: the number of one that is alive is no other's.
        return user if self.is_alive() else None

    def is_alive(self) -> bool:
        """Tell whether it still runs."""
        return Process.find(self.pid) == self

    def has_ended_within(self, timeout_s: float) -> bool:
        """Wait until it ends, at most so long; say whether it did."""
        with self.descriptor() as descriptor:
            if descriptor is None:
                return True
            poller = select.poll()
            poller.register(descriptor, select.POLLIN)
            return bool(poller.poll(timeout_s * 1000))

    def send(self, number: signal.Signals) -> None:
        """Send a signal; one that is gone gets none."""
        with self.descriptor() as descriptor, suppress(ProcessLookupError):
            if descriptor is not None:
                signal.pidfd_send_signal(descriptor, number)

    def stop(self) -> None:
        """Ask it to end, and insist when it does not in time."""
        self.send(signal.SIGTERM)
        if not self.has_ended_within(_STOP_MAX_S):
            self.kill()

    def kill(self) -> None:
        """End it at once; it is gone on return."""
        self.send(signal.SIGKILL)
        self.has_ended_within(_KILL_MAX_S)

    @contextmanager
    def descriptor(self) -> Iterator[int | None]:
        """Open what becomes readable when it ends; None when it has ended."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            yield None
            return
        try:
            # Looked at after the opening: from here on the number cannot be another's.
            yield descriptor if self.is_alive() else None
        finally:
            os.close(descriptor)


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
    name, places = Path(command[0]).name, (str(scratch or ""), str(log))
    with owner.descriptor() as watched:
        if watched is None:
            message = f"{name} was not started: its owner, process {owner.pid}, is gone"
            raise UnavailableError(message)
        try:
            done = subprocess.run(  # noqa: S603 - our own script
                [sys.executable, "-I", "-S", guard.__file__, str(watched), *places, *command],
                pass_fds=(watched,),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_GUARD_START_MAX_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            message = f"{name} was not started within {_GUARD_START_MAX_S:.0f} s"
            raise UnavailableError(message) from error
    match [int(number) for number in done.stdout.split()]:
        case [guard_pid, guard_started, pid, started]:
            return GuardedProcess(Process(pid, started), Process(guard_pid, guard_started))
        case _:
            message = f"{name} was not started: {done.stderr.strip() or last_telling_line(log)}"
            raise UnavailableError(message, path=log)


def await_end(
    program: Process, log: Path, timeout_s: float, on_tick: Callable[[], None] = lambda: None
) -> None:
    """Wait until a program ends, calling back a few times a second; kill one that takes too long.

    Raises:
        UnavailableError: It took too long.
    """
    deadline = monotonic() + timeout_s
    try:
        while not program.has_ended_within(_LOOK_EVERY_S):
            on_tick()
            if monotonic() > deadline:
                message = f"no end after {timeout_s:.0f} s: {last_telling_line(log)}"
                raise UnavailableError(message, path=log)
    finally:
        program.kill()


def last_telling_line(log: Path) -> str:
    """Return the last line of a log that speaks of an error, or simply the last."""
    text = ""
    with suppress(FileNotFoundError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LOG_BYTES_READ_MAX))
        text = file.read().decode("utf-8", "replace")
    lines = [line.strip() for line in text.splitlines() if not _PASSED_OVER.match(line)]
    own_lines = [line for line in lines if not line.startswith(_ENDING)]
    telling = [line for line in own_lines if _TELLING.search(line)]
    return (telling or own_lines or lines or ["its log is empty"])[-1][:_QUOTE_CHARS_MAX]

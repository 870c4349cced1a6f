"""The `shardlog` command in a process that was forked when it had loaded everything.

A command takes a second and a half of processor time to load what it stands on, and tests start
hundreds. Behind that it is the same: its arguments, environment and output are its own, and so is
its end. Nothing of Kafka or RocksDB runs in the server that forks. What the interpreter does before
the command and behind it only a process of `python -m connectors.cli.main` shows; some tests start
one (lab.py).
"""

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired

from connectors.cli import main
from tests.children import CHILDREN


class ForkedCommand:
    """A running command, with the part of subprocess.Popen that tests ask of one."""

    def __init__(
        self,
        arguments: Sequence[str],
        log: Path,
        environment: Mapping[str, str],
        errors: Path | None = None,
        first: Callable[[], None] | None = None,
    ) -> None:
        """Start it.

        Args:
            arguments: What stands behind `shardlog`.
            log: Where its output goes.
            environment: Its environment.
            errors: Where its errors go; to its output by default.
            first: What is done in its process before.
        """
        self._arguments = arguments
        outputs = os.fspath(log), os.fspath(errors or log)
        self._process = CHILDREN.Process(
            target=_run, args=(list(arguments), *outputs, dict(environment), first), daemon=True
        )
        self._process.start()

    @property
    def pid(self) -> int:
        """The number of the process."""
        pid = self._process.pid
        assert pid is not None, "it was started"
        return pid

    def poll(self) -> int | None:
        """Return its exit code once it has ended; of a signal, the number below zero."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it ends, and return its exit code."""
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            assert timeout is not None, "without one it is waited for"
            raise TimeoutExpired(self._arguments, timeout)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal while it runs."""
        if self.poll() is None:
            # Whoever forked it may know its end first.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as kill -9 does."""
        self.send_signal(signal.SIGKILL)


def _run(
    arguments: list[str],
    log: str,
    errors: str,
    environment: dict[str, str],
    first: Callable[[], None] | None,
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    for number, place in ((1, log), (2, errors)):
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - of a descriptor; to the end
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115 - as above
    sys.argv = ["shardlog", *arguments]
    if first is not None:
        first()
    main.run()

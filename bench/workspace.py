"""Directories for one run of the benchmarks: empty when handed out, gone afterwards.

A child process is started as a module of this package; it answers in lines of JSON.
"""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from storage_core.ground.clock import SystemClock

_ROOT: Final = Path(__file__).parents[1]
TASKS: Final = "bench.child"
KAFKA_TASKS: Final = "bench.kafka_child"
_LOOK_PAUSE_S: Final = 0.1
_LOOKS_QUIET: Final = 5
_LOOKS_MAX: Final = 300


@contextmanager
def empty_directory(parent: Path) -> Iterator[Path]:
    """Make a directory that goes, with all in it, when the block ends."""
    path = Path(tempfile.mkdtemp(prefix="shardlog-bench-", dir=parent))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def await_compaction(path: Path) -> None:
    """Wait until RocksDB has left the files under a directory alone for a while, bounded."""
    clock = SystemClock()
    seen: set[Path] = set()
    quiet = 0
    for _ in range(_LOOKS_MAX):
        clock.sleep(_LOOK_PAUSE_S)
        files = set(path.rglob("*.sst"))
        quiet = quiet + 1 if files == seen else 0
        seen = files
        if quiet == _LOOKS_QUIET:
            return


class ChildProcess:
    """A process of its own that runs one task of a module, by default of `bench/child.py`."""

    def __init__(self, task: str, *arguments: str | int | Path, module: str = TASKS) -> None:
        """Start it."""
        command = [sys.executable, "-m", module, task, *map(str, arguments)]
        self._process = subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True)

    @property
    def is_running(self) -> bool:
        """Tell whether it has not ended."""
        return self._process.poll() is None

    def answer(self) -> dict[str, float]:
        """Wait for its next line and return it."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            message = f"{self._process.args!r} ended with {self._process.wait()} and no answer"
            raise RuntimeError(message)
        answer: dict[str, float] = json.loads(line)
        return answer

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self._process.pid

    def wait_for_kill(self) -> None:
        """Wait until it has ended by SIGKILL.

        Raises:
            RuntimeError: It ended in another way.
        """
        code = self._process.wait()
        if code != -signal.SIGKILL:
            message = f"{self._process.args!r} ended with {code}, not by SIGKILL"
            raise RuntimeError(message)

    def kill(self) -> None:
        """End it where it stands, with SIGKILL."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def child_process(
    task: str, *arguments: str | int | Path, module: str = TASKS
) -> Iterator[ChildProcess]:
    """Run a task in a process of its own; what is left of it at the end is killed."""
    child = ChildProcess(task, *arguments, module=module)
    try:
        yield child
    finally:
        child.kill()

"""Processes of the benchmarks' own, and what the system says of them.

    with child_process(scan, workspace, "bench", 5_000_000) as child:
        measured = child.answer()

A task is a function at the top of its module. It is sent with its arguments to the stdin of
`python -m bench.child`, which does one task after the other until there are no more; what a task
returns, or each thing that it yields, comes back as a line of JSON. What it prints goes to stderr.
"""

import json
import os
import pickle
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Final, ParamSpec

from bench.measure import Measured

_ROOT: Final = Path(__file__).parents[1]
_PROC: Final = Path("/proc")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
# Places in /proc/PID/stat, counted from the state, which follows the name.
_PARENT: Final = 1
_TIMES: Final = slice(11, 15)
_LOG_CHARS: Final = 2000
_END_MAX_S: Final = 20.0
_Arguments = ParamSpec("_Arguments")
Task = Callable[_Arguments, Measured | Iterator[Measured]]


class ChildProcess:
    """A process that does tasks, one at a time."""

    def __init__(self, log: Path | None = None, packages: Path | None = None) -> None:
        """Start it; what it says goes to a log, or where this process says things.

        What is imported is looked for in a directory of packages first, if there is one.
        """
        self._log = log
        paths = [_ROOT] if packages is None else [_ROOT, packages]
        with log.open("wb") if log else nullcontext() as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.child"],
                cwd=_ROOT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.fspath, paths))},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
            )

    def begin(
        self, task: Task[_Arguments], *args: _Arguments.args, **kwargs: _Arguments.kwargs
    ) -> None:
        """Send it a task."""
        assert self._process.stdin is not None
        pickle.dump(partial(task, *args, **kwargs), self._process.stdin)
        self._process.stdin.flush()

    def no_more(self) -> None:
        """Let it end behind what was sent."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def answer(self) -> dict[str, float]:
        """Wait for its next answer and return it.

        Raises:
            RuntimeError: It ended; the message ends with what its log says last.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            said = self._log.read_text(errors="replace")[-_LOG_CHARS:] if self._log else ""
            message = f"a task's process ended with {self._process.wait()} and no answer\n{said}"
            raise RuntimeError(message)
        answer: dict[str, float] = json.loads(line)
        return answer

    def run(
        self, task: Task[_Arguments], *args: _Arguments.args, **kwargs: _Arguments.kwargs
    ) -> dict[str, float]:
        """Have a task done and return its answer."""
        self.begin(task, *args, **kwargs)
        return self.answer()

    @property
    def is_running(self) -> bool:
        """Tell whether it has not ended."""
        return self._process.poll() is None

    def wait_for_kill(self) -> None:
        """Wait until it has ended by SIGKILL.

        Raises:
            RuntimeError: It ended in another way.
        """
        code = self._process.wait()
        if code != -signal.SIGKILL:
            message = f"a task's process ended with {code}, not by SIGKILL"
            raise RuntimeError(message)

    def end(self) -> None:
        """End it in good order, so that what it started goes too; kill it where that takes long."""
        self.no_more()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_MAX_S)
        self.kill()

    def kill(self) -> None:
        """End it where it stands, with SIGKILL."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def child_process(
    task: Task[_Arguments], *args: _Arguments.args, **kwargs: _Arguments.kwargs
) -> Iterator[ChildProcess]:
    """Run one task in a process of its own; what is left of it at the end is killed."""
    child = ChildProcess()
    try:
        child.begin(task, *args, **kwargs)
        child.no_more()
        yield child
    finally:
        child.kill()


def answer_of(
    task: Task[_Arguments], *args: _Arguments.args, **kwargs: _Arguments.kwargs
) -> dict[str, float]:
    """Return the first answer of a task that has a process of its own."""
    with child_process(task, *args, **kwargs) as child:
        return child.answer()


def memory_peak(process: str = "self") -> int:
    """Return the most memory that a process ever held, in bytes; of one that has ended, none."""
    lines = (_PROC / process / "status").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def python_workers_peak() -> int:
    """Return the most memory that one of Spark's Python workers below ever held, in bytes."""
    peaks = []
    for pid in _family(_stats()):
        with suppress(OSError):
            if b"pyspark.daemon" in (_PROC / str(pid) / "cmdline").read_bytes():
                peaks.append(memory_peak(str(pid)))
    assert peaks, "no Python worker is there"
    return max(peaks)


def processor_seconds() -> float:
    """Return the processor time of this process and all below it, those that ended included."""
    stats = _stats()
    return sum(sum(map(int, stats[pid][_TIMES])) for pid in _family(stats)) / _TICKS


def _stats() -> dict[int, list[str]]:
    """Return what the system says of each process."""
    files = {}
    for place in _PROC.iterdir():
        if place.name.isdigit():
            with suppress(OSError):
                files[int(place.name)] = (place / "stat").read_text().rpartition(")")[2].split()
    return files


def _family(stats: dict[int, list[str]]) -> Iterator[int]:
    below = defaultdict(list)
    for pid, stat in stats.items():
        below[int(stat[_PARENT])].append(pid)
    waiting = [os.getpid()]
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting += below[pid]


def main() -> None:
    """Do tasks until there are no more."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with suppress(EOFError):
        while True:
            answers_of = pickle.load(sys.stdin.buffer)()  # noqa: S301 - from the process that began this
            for measured in [answers_of] if isinstance(answers_of, Mapping) else answers_of:
                answers.write(json.dumps(measured) + "\n")
                answers.flush()


if __name__ == "__main__":
    main()

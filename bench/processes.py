"""Processes of this machine, as the system shows them: their processor time and memory.

A Spark session is this process, its JVM, and below that the daemons and workers of Python.
"""

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
# Places in /proc/PID/stat, counted from the state, which follows the name.
_PARENT: Final = 1
_TIMES: Final = slice(11, 15)


def processor_seconds() -> float:
    """Return the processor time of this process and all below it, those that ended included."""
    stats = _stats()
    return sum(_seconds(stats[pid]) for pid in _family(stats))


def seconds_of(pid: int) -> float:
    """Return the processor time of all threads of a process, and of its ended children."""
    return _seconds(_stat(_PROC / str(pid)))


def python_workers_peak() -> int:
    """Return the most memory that one of the Python workers below ever held, in bytes."""
    peaks = []
    for pid in _family(_stats()):
        with suppress(OSError):
            arguments = (_PROC / str(pid) / "cmdline").read_bytes()
            if b"pyspark.daemon" in arguments:
                peaks.append(_peak(pid))
    assert peaks, "no Python worker is there"
    return max(peaks)


def _peak(pid: int) -> int:
    lines = (_PROC / str(pid) / "status").read_text().splitlines()
    sizes = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    # One that has just ended has no memory.
    return int(sizes[0]) * 1024 if sizes else 0


def _stats() -> dict[int, list[str]]:
    """Return what the system says of each process."""
    found = {}
    for place in _PROC.iterdir():
        if place.name.isdigit():
            with suppress(OSError):
                found[int(place.name)] = _stat(place)
    return found


def _stat(place: Path) -> list[str]:
    return (place / "stat").read_text().rpartition(")")[2].split()


def _seconds(stat: list[str]) -> float:
    return sum(map(int, stat[_TIMES])) / _TICKS


def _family(stats: dict[int, list[str]]) -> Iterator[int]:
    below = defaultdict(list)
    for pid, stat in stats.items():
        below[int(stat[_PARENT])].append(pid)
    waiting = [os.getpid()]
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting += below[pid]

"""Figures of the worker's own process, by the names that Prometheus' clients give them.

They are read from `/proc/self`; what a system does not have is left out.
"""

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from connectors.monitoring.metrics_text import Family, single

_PROC: Final = Path("/proc")
_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
# Fields of `/proc/self/stat`: proc(5) counts from 1, and 3 comes first behind the name in brackets.
_USER_TICKS: Final = 14 - 3
_SYSTEM_TICKS: Final = 15 - 3
_STARTED_TICKS: Final = 22 - 3
_VIRTUAL_BYTES: Final = 23 - 3
_RESIDENT_PAGES: Final = 24 - 3


def process_families(proc: Path = _PROC) -> Iterator[Family]:
    """Yield what the process uses of processor, memory and files, and when it started."""
    with suppress(OSError):
        stat = (proc / "self" / "stat").read_text(encoding="utf-8", errors="replace")
        # A name may have any character, brackets too.
        numbers = stat.rpartition(")")[2].split()
        yield from _of_numbers(numbers, proc)
    with suppress(OSError):
        # The one by which they are listed is not counted.
        count = len(os.listdir(proc / "self" / "fd")) - 1  # noqa: PTH208 - no paths are needed
        yield single("process_open_fds", "gauge", "Open file descriptors.", count)
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY:
        yield single("process_max_fds", "gauge", "Most file descriptors that may be open.", most)


def _of_numbers(numbers: list[str], proc: Path) -> Iterator[Family]:
    ticks = int(numbers[_USER_TICKS]) + int(numbers[_SYSTEM_TICKS])
    yield single(
        "process_cpu_seconds_total",
        "counter",
        "Processor time of the user and of the system, in seconds.",
        ticks / _TICKS_A_SECOND,
    )
    yield single(
        "process_virtual_memory_bytes",
        "gauge",
        "Size of virtual memory in bytes.",
        int(numbers[_VIRTUAL_BYTES]),
    )
    yield single(
        "process_resident_memory_bytes",
        "gauge",
        "Size of resident memory in bytes.",
        int(numbers[_RESIDENT_PAGES]) * _PAGE_BYTES,
    )
    booted_s = _booted_s(proc)
    if booted_s is not None:
        yield single(
            "process_start_time_seconds",
            "gauge",
            "Start of the process, in seconds since 1970.",
            booted_s + int(numbers[_STARTED_TICKS]) / _TICKS_A_SECOND,
        )


def _booted_s(proc: Path) -> int | None:
    """Return when the machine started, in seconds since 1970."""
    with suppress(OSError, ValueError):
        for line in (proc / "stat").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(" ")
            if name == "btime":
                return int(value)
    return None

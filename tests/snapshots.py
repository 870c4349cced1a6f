"""Copies of files that a running store may be changing, each as of one moment.

RocksDB's own threads make files and remove them between a listing and a copy of what is listed,
however idle its owner is.
"""

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from storage_core import SystemClock

_COPY_MAX_S = 60.0
_CLOCK = SystemClock()


def snapshot(
    source: Path,
    to: Path,
    ignore: Callable[..., Any] | None = None,
    copy: Callable[[str, str], object] = shutil.copy2,
) -> Path:
    """Copy a directory whose owner waits, as it was at one moment; return the copy.

    What RocksDB and the thread of the index do behind ends by itself: files that changed meanwhile
    are copied once more, each by `copy`.
    """
    deadline = _CLOCK.monotonic_s() + _COPY_MAX_S
    while True:
        before = _state(source)
        try:
            shutil.copytree(source, to, ignore=ignore, copy_function=copy)
        except (shutil.Error, FileNotFoundError) as error:
            changed: Exception | None = error
        else:
            changed = None
            if _state(source) == before:
                return to
        message = f"{source} does not come to rest within {_COPY_MAX_S:g} s"
        assert _CLOCK.monotonic_s() < deadline, message if changed is None else str(changed)
        shutil.rmtree(to, ignore_errors=True)


def copy_of(source: Path, to: Path) -> Path:
    """Copy a directory that nobody changes, what has two names as one file; return the copy."""
    copied: dict[tuple[int, int], str] = {}

    def copy(source: str, other: str) -> str:
        state = Path(source).stat()
        if before := copied.get((state.st_dev, state.st_ino)):
            os.link(before, other)
        else:
            shutil.copy2(source, other)
            copied[state.st_dev, state.st_ino] = other
        return other

    return shutil.copytree(source, to, copy_function=copy, dirs_exist_ok=True)


def bytes_of(paths: Iterable[Path]) -> int:
    """Return what files take that may be removed meanwhile."""
    return sum(state[0] for state in map(_state_of, paths) if state is not None)


def _state(directory: Path) -> dict[Path, tuple[int, int, int] | None]:
    paths = (Path(folder, name) for folder, _, names in os.walk(directory) for name in names)
    return {path: _state_of(path) for path in paths}


def _state_of(path: Path) -> tuple[int, int, int] | None:
    try:
        state = path.lstat()
    except FileNotFoundError:
        return None
    return state.st_size, state.st_mtime_ns, state.st_ino

"""Counts, moments, ages and sizes on disk, as people read them."""

import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from storage_core import UNITS_PER_SECOND, Unit

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_AGE_UNITS: Final = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
_SIZE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP: Final = 1024


def counted(count: int, noun: str) -> str:
    """Return a count with what is counted: `1 row`, `2,000 rows`."""
    return f"{count:,} {nouns(count, noun)}"


def nouns(count: int, noun: str) -> str:
    """Return what is counted as it is called where there are so many."""
    return noun if count == 1 else f"{noun}s"


def were(count: int) -> str:
    """Return `was` or `were`."""
    return "was" if count == 1 else "were"


def shown_ranges(ranges: Iterable[tuple[int, int]]) -> str:
    """Return ranges of addresses as few as they are: neighbours are one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return " ".join(f"[{start},{end})" for start, end in found)


def shown_primary(primary: int | None, unit: Unit) -> str | int | None:
    """Return a primary as a time to the second; as a number where it is none, or out of range."""
    if primary is None or unit not in UNITS_PER_SECOND:
        return primary
    try:
        moment = _EPOCH + timedelta(seconds=primary // UNITS_PER_SECOND[unit])
    except OverflowError:
        return primary
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def shown_age(age_s: float | None) -> str | None:
    """Return an age in the largest unit of which there is at least one."""
    if age_s is None:
        return None
    sign = "-" if age_s <= -1 else ""
    for name, seconds in _AGE_UNITS:
        if abs(age_s) >= seconds:
            return f"{sign}{int(abs(age_s) // seconds)} {name}"
    return "0 s"


def bytes_below(path: Path) -> int:
    """Return what the files below a directory take; those that go meanwhile count nothing."""
    total = 0
    # A part has two names.
    counted = set()
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                found = os.lstat(os.path.join(folder, name))  # noqa: PTH118 - hot
            except FileNotFoundError:
                continue
            if found.st_nlink > 1:
                if (found.st_dev, found.st_ino) in counted:
                    continue
                counted.add((found.st_dev, found.st_ino))
            # Files are set out in advance; blocks are what the disk gives.
            total += found.st_blocks * 512
    return total


def shown_bytes(count: int) -> str:
    """Return a size in the largest unit that leaves a number above one."""
    size, at = float(count), 0
    while size >= _STEP and at < len(_SIZE_UNITS) - 1:
        size, at = size / _STEP, at + 1
    return f"{count} B" if not at else f"{size:.1f} {_SIZE_UNITS[at]}"

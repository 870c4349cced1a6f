"""Counts, times, ages, ranges and sizes as people read them."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from storage_core import UNITS_PER_SECOND, Unit

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_AGE_UNITS: Final = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
_SIZE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP: Final = 1024


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: `1 row`, `2,000 rows`."""
    return f"{count:,} {nouns(count, noun)}"


def nouns(count: int, noun: str) -> str:
    """Return a noun in the singular or plural."""
    return noun if count == 1 else f"{noun}s"


def were(count: int) -> str:
    """Return `was` or `were`."""
    return "was" if count == 1 else "were"


def format_ranges(ranges: Iterable[tuple[int, int]]) -> str:
    """Return ranges of addresses, neighbours merged."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return " ".join(f"[{start},{end})" for start, end in joined)


def format_primary(primary: int | None, unit: Unit) -> str | int | None:
    """Return a primary as a time to the second; as a number where it is no time or out of range."""
    if primary is None or unit not in UNITS_PER_SECOND:
        return primary
    try:
        moment = _EPOCH + timedelta(seconds=primary // UNITS_PER_SECOND[unit])
    except OverflowError:
        return primary
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def format_age(age_s: float | None) -> str | None:
    """Return an age in the largest unit that makes it at least one."""
    if age_s is None:
        return None
    sign = "-" if age_s <= -1 else ""
    for name, seconds in _AGE_UNITS:
        if abs(age_s) >= seconds:
            return f"{sign}{int(abs(age_s) // seconds)} {name}"
    return "0 s"


def format_bytes(count: int) -> str:
    """Return a size in the largest unit that makes it at least one."""
    size, step = float(count), 0
    while size >= _STEP and step < len(_SIZE_UNITS) - 1:
        size, step = size / _STEP, step + 1
    return f"{count} B" if not step else f"{size:.1f} {_SIZE_UNITS[step]}"

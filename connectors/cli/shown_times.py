"""Moments and ages as people read them."""

from datetime import UTC, datetime, timedelta
from typing import Final

from storage_core import UNITS_PER_SECOND, Unit

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


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
    for name, seconds in _UNITS:
        if abs(age_s) >= seconds:
            return f"{sign}{int(abs(age_s) // seconds)} {name}"
    return "0 s"

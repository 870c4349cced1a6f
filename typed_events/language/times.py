"""Times as people write them, and as answers have them: microseconds since 1970 in UTC.

Which texts and epochs are times, storage_core/avro/written_times.py says. A day is days since
1970; an epoch is the day it falls in.
"""

from datetime import UTC, date, datetime, timedelta
from typing import Final

from storage_core.avro.written_times import (
    DAY_US,
    FIRST_US,
    LAST_US,
    day_or_none,
    micros_or_none,
)
from typed_events.errors import CommandError

_FIRST_DAY: Final = date(1970, 1, 1).toordinal()
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_SHOWN_MAX: Final = 40
_HOW: Final = "write one such as 2024-05-17T09:30:00Z, or an epoch such as 1715938200"
_HOW_DAY: Final = "write one such as 2024-05-17, or an epoch such as 1715938200"

__all__ = [
    "DAY_US",
    "FIRST_US",
    "LAST_US",
    "day_of",
    "day_or_none",
    "day_text",
    "micros_of",
    "micros_or_none",
    "time_text",
]


def micros_of(written: object) -> int:
    """Return a time, an ISO text or an epoch, as microseconds.

    Raises:
        CommandError: It cannot be read.
    """
    micros = micros_or_none(written)
    if micros is None:
        raise CommandError(_no_time(written, "time", _HOW))
    return micros


def day_of(written: object) -> int:
    """Return a day, `2024-05-17` or an epoch, as days since 1970.

    Raises:
        CommandError: It cannot be read.
    """
    day = day_or_none(written)
    if day is None:
        raise CommandError(_no_time(written, "date", _HOW_DAY))
    return day


def time_text(micros: int) -> str:
    """Return a time as answers have it: `2024-05-17T09:30:00Z`, with six decimals where it has any.

    One outside the years 1 to 9999 is its number.
    """
    if not FIRST_US <= micros <= LAST_US:
        return str(micros)
    return (_EPOCH + micros * _MICROSECOND).isoformat().replace("+00:00", "Z")


def day_text(days: int) -> str:
    """Return a day as answers have it: `2024-05-17`; one outside the years 1 to 9999 its number."""
    ordinal = days + _FIRST_DAY
    if not 1 <= ordinal <= date.max.toordinal():
        return str(days)
    return date.fromordinal(ordinal).isoformat()


def _no_time(written: object, kind: str, how: str) -> str:
    text = str(written) if isinstance(written, str | int | float) else type(written).__name__
    text = text if text.isprintable() else ascii(text)[1:-1]
    text = text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
    return f'"{text}" is no {kind}: {how}'

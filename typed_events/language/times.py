"""Times as people write them, and as answers have them: microseconds since 1970 in UTC.

    2024-05-17                        midnight
    2024-05-17T09:30                  T or a space; seconds and up to nine decimals may follow
    2024-05-17T09:30:00.25+02:00      or Z, +0200, +02; without a zone it is UTC
    1715938200                        an epoch: seconds below 1e11, milliseconds below 1e14,
                                      microseconds below 1e17, else nanoseconds

The sign of an epoch does not count for its unit. Years are 1 to 9999; what is finer than a
microsecond is left out. A day is days since 1970; an epoch is the day it falls in.
"""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Final

from typed_events.errors import CommandError

DAY_US: Final = 86_400_000_000
_ISO: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ]([0-9]{2}:[0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?"
    r"(?:[Zz]|([+-])([0-9]{2})(?::?([0-9]{2}))?)?)?\Z"
)
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
_FIRST_DAY: Final = date(1970, 1, 1).toordinal()
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
FIRST_US: Final = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
LAST_US: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
# Below which size an epoch has a unit, and the microseconds of one: a factor or a divisor.
_SECONDS_BELOW: Final = 10**11
_MILLISECONDS_BELOW: Final = 10**14
_MICROSECONDS_BELOW: Final = 10**17
_ZONE_HOURS_MAX: Final = 23
_MINUTES_MAX: Final = 59
_SHOWN_MAX: Final = 40
_HOW: Final = "write one such as 2024-05-17T09:30:00Z, or an epoch such as 1715938200"
_HOW_DAY: Final = "write one such as 2024-05-17, or an epoch such as 1715938200"


def micros_of(written: object) -> int:
    """Return a time, an ISO text or an epoch, as microseconds.

    Raises:
        CommandError: It cannot be read.
    """
    micros = _of_text(written) if isinstance(written, str) else _of_epoch(written)
    if micros is None or not FIRST_US <= micros <= LAST_US:
        raise CommandError(_no_time(written, "time", _HOW))
    return micros


def day_of(written: object) -> int:
    """Return a day, `2024-05-17` or an epoch, as days since 1970.

    Raises:
        CommandError: It cannot be read.
    """
    if not isinstance(written, str):
        micros = _of_epoch(written)
        if micros is not None and FIRST_US <= micros <= LAST_US:
            return micros // DAY_US
    elif _DAY.match(written):
        try:
            return date.fromisoformat(written).toordinal() - _FIRST_DAY
        except ValueError:
            pass
    raise CommandError(_no_time(written, "date", _HOW_DAY))


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


def _of_text(written: str) -> int | None:
    match = _ISO.match(written)
    if match is None:
        return None
    day, clock, second, decimals, sign, hours, minutes = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock or '00:00'}:{second or '00'}+00:00")
    except ValueError:
        return None
    micros = (moment - _EPOCH) // _MICROSECOND + int((decimals or "0")[:6].ljust(6, "0"))
    if sign is None:
        return micros
    zone_hours, zone_minutes = int(hours), int(minutes or 0)
    if zone_hours > _ZONE_HOURS_MAX or zone_minutes > _MINUTES_MAX:
        return None
    offset = (zone_hours * 60 + zone_minutes) * 60_000_000
    return micros - offset if sign == "+" else micros + offset


def _of_epoch(written: object) -> int | None:
    if isinstance(written, bool) or not isinstance(written, int | float):
        return None
    size = abs(written)
    if not size < 10**20:  # nor a NaN
        return None
    if size < _SECONDS_BELOW:
        return round(written * 1_000_000)
    if size < _MILLISECONDS_BELOW:
        return round(written * 1000)
    if size < _MICROSECONDS_BELOW:
        return round(written)
    return int(written) // 1000


def _no_time(written: object, kind: str, how: str) -> str:
    text = str(written) if isinstance(written, str | int | float) else type(written).__name__
    text = text if text.isprintable() else ascii(text)[1:-1]
    text = text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
    return f'"{text}" is no {kind}: {how}'

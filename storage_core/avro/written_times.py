"""Times as people write them: texts and epochs, read as microseconds and as days since 1970 in UTC.

    2024-05-17                        midnight
    2024-05-17T09:30                  T or a space; seconds and up to nine decimals may follow
    2024-05-17T09:30:00.25+02:00      or Z, +0200, +02; without a zone it is UTC
    1715938200                        an epoch: seconds below 1e11, milliseconds below 1e14,
                                      microseconds below 1e17, else nanoseconds

The sign of an epoch does not count for its unit. Years are 1 to 9999; what is finer than a
microsecond is left out. A day is a text without a time, or the day that an epoch falls in.
"""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Final

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
# Below which size an epoch has a unit.
SECONDS_BELOW: Final = 10**11
MILLISECONDS_BELOW: Final = 10**14
MICROSECONDS_BELOW: Final = 10**17
_ZONE_HOURS_MAX: Final = 23
_MINUTES_MAX: Final = 59


def micros_or_none(written: object) -> int | None:
    """Return a time, a text or an epoch, as microseconds; None if it cannot be read."""
    micros = _of_text(written) if isinstance(written, str) else _of_epoch(written)
    return micros if micros is not None and FIRST_US <= micros <= LAST_US else None


def day_or_none(written: object) -> int | None:
    """Return a day, `2024-05-17` or an epoch, as days since 1970; None if it cannot be read."""
    if not isinstance(written, str):
        micros = micros_or_none(written)
        return None if micros is None else micros // DAY_US
    if not _DAY.match(written):
        return None
    try:
        return date.fromisoformat(written).toordinal() - _FIRST_DAY
    except ValueError:
        return None


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
    if size < SECONDS_BELOW:
        return round(written * 1_000_000)
    if size < MILLISECONDS_BELOW:
        return round(written * 1000)
    if size < MICROSECONDS_BELOW:
        return round(written)
    return int(written) // 1000

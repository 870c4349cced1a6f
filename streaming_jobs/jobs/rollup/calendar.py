"""Windows of a calendar in a time zone: hours, days, months, years, as intervals of instants.

    hour     as clocks show it, between two changes of the zone's offset: an hour that clocks show
             twice is two windows, one that they leave out is none, and where they are changed by
             half an hour one of the windows has 30 minutes
    day      from the first instant of a local date to the first of the next one that there is
    month    from the first instant of its first day; year likewise

So windows of a level follow on each other without gaps, and each lies within one of the level
above. Everything is pure: tables of a year's starts are made once, and times are looked up in them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, Literal, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt

from storage_core import InvalidRequestError

Level = Literal["hour", "day", "month", "year"]
LEVELS: Final[tuple[Level, ...]] = get_args(Level)
# What lies outside is no time that anybody measured; a table costs a millisecond a year.
YEARS: Final = range(1800, 2200)
_HOUR_S: Final = 3600
_DAY_S: Final = 24 * _HOUR_S
# No two changes of a zone's offset are nearer to each other.
_PROBE_S: Final = 6 * _HOUR_S
# So far beyond a year's ends a table reaches: a window of the level and a day, and what zones add.
_BEYOND_S: Final[dict[Level, int]] = {
    "hour": 2 * _DAY_S,
    "day": 3 * _DAY_S,
    "month": 35 * _DAY_S,
    "year": 370 * _DAY_S,
}
_TABLES_MAX: Final = 512

Times = npt.NDArray[np.int64]
_untyped: Any = np


@dataclass(frozen=True, slots=True)
class Calendar:
    """The windows of a zone, named as the time zone database names it."""

    zone: str

    @classmethod
    def of(cls, zone: str) -> "Calendar":
        """Return the calendar of a zone.

        Raises:
            InvalidRequestError: There is none of this name.
        """
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            message = f"there is no time zone {zone!r}; one is named like Europe/Berlin, or UTC"
            raise InvalidRequestError(message) from error
        return cls(zone)

    def starts(self, level: Level, times: Times) -> Times:
        """Return the start of the window of each time; all are milliseconds, within `YEARS`."""
        return self._looked_up(level, times, 0)

    def ends(self, level: Level, starts: Times) -> Times:
        """Return where the windows that begin at these times end, which is where the next begin."""
        return self._looked_up(level, starts, 1)

    def label(self, level: Level, start: int) -> str:
        """Return a window's start as clocks show it, as much of it as names the window."""
        local = datetime.fromtimestamp(start / 1000, ZoneInfo(self.zone))
        if level == "hour":
            return local.isoformat(timespec="minutes")
        return local.date().isoformat()[: {"day": 10, "month": 7, "year": 4}[level]]

    def _looked_up(self, level: Level, times: Times, behind: int) -> Times:
        if not len(times):
            return times
        first, last = (_year_of(int(time)) for time in (times.min(), times.max()))
        if first == last:
            return _edges_of(_table(self.zone, level, first), times, behind)
        years = times.astype("datetime64[ms]").astype("datetime64[Y]").astype(np.int64) + 1970
        edges = np.empty_like(times)
        for year in np.unique(years):
            of_year = years == year
            table = _table(self.zone, level, int(year))
            edges[of_year] = _edges_of(table, times[of_year], behind)
        return edges


def years_ms() -> tuple[int, int]:
    """Return where the years that calendars have begin and end, in milliseconds."""
    return _year_starts_s(YEARS.start) * 1000, _year_starts_s(YEARS.stop) * 1000


def _edges_of(table: Times, times: Times, behind: int) -> Times:
    places = np.searchsorted(table, times, "right") - 1
    edges: Times = table[places + behind]
    return edges


def _year_of(time: int) -> int:
    return int(np.datetime64(time, "ms").astype("datetime64[Y]").astype(np.int64)) + 1970


def _year_starts_s(year: int) -> int:
    return int(datetime(year, 1, 1, tzinfo=UTC).timestamp())


@lru_cache(maxsize=_TABLES_MAX)
def _table(zone: str, level: Level, year: int) -> Times:
    """Return the starts of a level's windows around a year of UTC, in milliseconds."""
    beyond = _BEYOND_S[level]
    begin, end = _year_starts_s(year) - beyond, _year_starts_s(year + 1) + beyond
    unit = _HOUR_S if level == "hour" else _DAY_S
    starts, numbers = _local_units(zone, unit, begin, end)
    if level != "hour":
        # Clocks set back over midnight show a date once more: it has begun, and the next one too.
        starts, numbers = _first_of_each(starts, numbers)
    if level in ("month", "year"):
        dates = numbers.astype("datetime64[D]")
        periods = dates.astype("datetime64[M]" if level == "month" else "datetime64[Y]")
        starts, _ = _first_of_each(starts, periods.astype(np.int64))
    # The first is where the table begins, and no window.
    return starts[1:] * 1000


def _local_units(zone: str, unit: int, begin: int, end: int) -> tuple[Times, Times]:
    """Return where each local hour or date begins, and which one it is."""
    starts, numbers = [], []
    for first, last, offset in _segments(zone, begin, end):
        local = np.arange((first + offset) // unit, (last - 1 + offset) // unit + 1)
        starts.append(np.maximum(local * unit - offset, first))
        numbers.append(local)
    return np.concatenate(starts), np.concatenate(numbers)


def _first_of_each(starts: Times, numbers: Times) -> tuple[Times, Times]:
    before = _untyped.concatenate(([numbers[0] - 1], np.maximum.accumulate(numbers)[:-1]))
    is_first = numbers > before
    return starts[is_first], numbers[is_first]


def _segments(zone: str, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the ranges of seconds with one offset, as (first, end, offset)."""
    first, offset = begin, _offset(ZoneInfo(zone), begin)
    for year in range(_year_of(begin * 1000), _year_of(end * 1000) + 1):
        for change, after in _changes(zone, year):
            if first < change < end and after != offset:
                yield first, change, offset
                first, offset = change, after
    yield first, end, offset


@lru_cache(maxsize=_TABLES_MAX)
def _changes(zone: str, year: int) -> tuple[tuple[int, int], ...]:
    """Return the changes of a zone's offset in a year of UTC, as (second, offset from then on)."""
    info = ZoneInfo(zone)
    begin, end = _year_starts_s(year), _year_starts_s(year + 1)
    changes = []
    before, offset = begin - 1, _offset(info, begin - 1)
    for probe in (*range(begin, end, _PROBE_S), end - 1):
        after = _offset(info, probe)
        if after != offset:
            changes.append((_change_between(info, before, probe), after))
        before, offset = probe, after
    return tuple(changes)


def _change_between(info: ZoneInfo, before: int, behind: int) -> int:
    """Return the second at which an offset changes, which is above the one and up to the other."""
    offset = _offset(info, before)
    while behind - before > 1:
        middle = (before + behind) // 2
        if _offset(info, middle) == offset:
            before = middle
        else:
            behind = middle
    return behind


def _offset(info: ZoneInfo, second: int) -> int:
    offset = datetime.fromtimestamp(second, info).utcoffset() or timedelta()
    return offset // timedelta(seconds=1)

"""The calendar against plain zoneinfo: instants, and whole years of zones that are odd."""

from collections.abc import Callable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from storage_core import InvalidRequestError
from streaming_jobs.jobs.rollup.calendar import LEVELS, YEARS, Calendar, Level, Times, years_ms
from tests.thin import covering

QUARTER = 900
# Half-hour zones and changes, changes at midnight, and a date that was left out.
ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "America/Havana",
    "America/Sao_Paulo",
)


SHOWN: dict[Level, Callable[[datetime], object]] = {
    "hour": lambda at: (at.date(), at.hour, at.utcoffset()),
    "day": lambda at: at.date(),
    "month": lambda at: (at.year, at.month),
    "year": lambda at: at.year,
}


def ms(text: str, zone: str = "UTC", fold: int = 0) -> int:
    local = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold)
    return int(local.timestamp()) * 1000


def local_of(time: int, zone: str) -> datetime:
    return datetime.fromtimestamp(time / 1000, ZoneInfo(zone))


def window(zone: str, level, time: int) -> tuple[int, int]:
    calendar = Calendar.of(zone)
    starts = calendar.starts(level, np.array([time]))
    return int(starts[0]), int(calendar.ends(level, starts)[0])


def quarters(year: int) -> Times:
    first, end = (int(datetime(one, 1, 1, tzinfo=UTC).timestamp()) for one in (year, year + 1))
    return np.arange(first, end, QUARTER, dtype=np.int64) * 1000


@covering(zone=ZONES, year=[2012, 2025])
def test_windows_of_a_year_are_those_that_clocks_show(zone, year):
    calendar, times = Calendar.of(zone), quarters(year)
    clocks = [local_of(time, zone) for time in times.tolist()]
    for level, pattern in SHOWN.items():
        starts = calendar.starts(level, times)
        begun = {int(start): local_of(int(start), zone) for start in np.unique(starts)}
        of_row = [begun[start] for start in starts.tolist()]
        assert [pattern(at) for at in of_row] == [pattern(at) for at in clocks]
        # Just before each of them clocks show another one.
        assert all(pattern(local_of(start - 1, zone)) != pattern(at) for start, at in begun.items())


@pytest.mark.parametrize("zone", [*ZONES, "America/St_Johns", "Pacific/Apia", "Africa/Casablanca"])
def test_windows_follow_on_each_other_and_lie_in_one_above(zone):
    calendar, times = Calendar.of(zone), quarters(2011)
    for below, above in zip(LEVELS, (*LEVELS[1:], "year"), strict=True):
        starts = np.unique(calendar.starts(below, times))
        ends = calendar.ends(below, starts)
        assert (starts < ends).all()
        assert (starts[1:] == ends[:-1]).all()
        assert (calendar.starts(above, starts) == calendar.starts(above, ends - 1)).all()


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("Europe/Berlin", "2025-03-30", 23),
        ("Europe/Berlin", "2025-10-26", 25),
        ("America/New_York", "2025-03-09", 23),
        ("America/New_York", "2025-11-02", 25),
        ("Australia/Lord_Howe", "2025-04-06", 24.5),
        ("Australia/Lord_Howe", "2025-10-05", 23.5),
        ("Asia/Kolkata", "2025-03-30", 24),
    ],
)
def test_days_are_as_long_as_clocks_make_them(zone, day, hours):
    start, end = window(zone, "day", ms(f"{day}T12:00", zone))
    assert start == ms(f"{day}T00:00", zone)
    assert end - start == hours * 3_600_000


def test_hour_that_clocks_show_twice_is_two_windows():
    first = window("Europe/Berlin", "hour", ms("2025-10-26T02:30", "Europe/Berlin"))
    second = window("Europe/Berlin", "hour", ms("2025-10-26T02:30", "Europe/Berlin", fold=1))
    assert first[1] == second[0] == first[0] + 3_600_000


def test_change_by_half_an_hour_leaves_a_window_of_thirty_minutes():
    start, end = window(
        "Australia/Lord_Howe", "hour", ms("2025-10-05T02:45", "Australia/Lord_Howe")
    )
    assert local_of(start, "Australia/Lord_Howe").strftime("%H:%M") == "02:30"
    assert end - start == 1_800_000


def test_day_begins_once_where_clocks_are_set_back_over_midnight():
    zone = "America/St_Johns"
    midnight = ms("2010-11-07T00:00", zone)
    assert window(zone, "day", midnight + 30 * 60_000)[0] == midnight
    assert local_of(midnight + 30 * 60_000, zone).day == 6


def test_date_that_a_zone_left_out_has_no_window():
    start, end = window("Pacific/Apia", "day", ms("2011-12-29T12:00", "Pacific/Apia"))
    assert (end - start) == 24 * 3_600_000
    assert local_of(end, "Pacific/Apia").day == 31


def test_times_of_many_years_are_looked_up_at_once():
    years = [YEARS.start, 1899, 1970, 2025, 2100, YEARS.stop - 1]
    times = np.array([ms(f"{year}-07-01T12:34") for year in years])
    starts = Calendar.of("UTC").starts("year", times)
    assert starts.tolist() == [ms(f"{year}-01-01T00:00") for year in years]


def test_first_and_last_moment_of_all_years_have_windows():
    first, end = years_ms()
    for zone in ("UTC", "Pacific/Kiritimati", "Pacific/Niue"):
        for level in LEVELS:
            for time in (first, end - 1):
                start, behind = window(zone, level, time)
                assert start <= time < behind


@pytest.mark.parametrize(
    ("level", "label"),
    [
        ("hour", "2025-10-26T02:00+01:00"),
        ("day", "2025-10-26"),
        ("month", "2025-10"),
        ("year", "2025"),
    ],
)
def test_window_is_named_by_as_much_as_names_it(level, label):
    zone = "Europe/Berlin"
    start, _ = window(zone, level, ms("2025-10-26T02:30", zone, fold=1))
    assert Calendar.of(zone).label(level, start) == label


@pytest.mark.parametrize("zone", ["Europe/Nowhere", "", "../etc/passwd", "/UTC", "Europe"])
def test_zone_that_there_is_none_of_is_refused(zone):
    with pytest.raises(InvalidRequestError, match="no time zone"):
        Calendar.of(zone)


def test_no_times_have_no_windows():
    assert len(Calendar.of("UTC").starts("hour", np.array([], np.int64))) == 0

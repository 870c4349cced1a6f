"""Times are read as people write them, and written as they are read."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from typed_events.errors import CommandError
from typed_events.language.times import (
    FIRST_US,
    LAST_US,
    day_of,
    day_text,
    micros_of,
    time_text,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
HALF_PAST = 1_715_938_200_000_000
moments = st.datetimes(timezones=st.just(UTC))
zones = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda minutes: timedelta(minutes=minutes))


@pytest.mark.parametrize(
    "written",
    [
        "2024-05-17T09:30",
        "2024-05-17 09:30:00",
        "2024-05-17t09:30:00.000z",
        "2024-05-17T09:30:00.0000009Z",
        "2024-05-17T11:30:00+02:00",
        "2024-05-17T11:30+0200",
        "2024-05-17 11:30+02",
        "2024-05-17T04:00:00-05:30",
        1_715_938_200,
        1_715_938_200.0,
        1_715_938_200_000,
        1_715_938_200_000_000,
        1_715_938_200_000_000_999,
    ],
)
def test_times_of_one_moment_are_one(written: str | float) -> None:
    assert micros_of(written) == HALF_PAST


@pytest.mark.parametrize(
    ("epoch", "micros"),
    [
        (10**11 - 1, (10**11 - 1) * 10**6),
        (10**11, 10**14),
        (10**14 - 1, (10**14 - 1) * 10**3),
        (10**14, 10**14),
        (10**17 - 1, 10**17 - 1),
        (10**17, 10**14),
        (-1.5, -1_500_000),
        (-(10**11), -(10**14)),
        (0, 0),
    ],
)
def test_size_of_an_epoch_says_its_unit(epoch: float, micros: int) -> None:
    assert micros_of(epoch) == micros


@pytest.mark.parametrize(
    "written",
    [
        *("", "now", "yesterday", "2024", "2024-05", "2024-5-17", "17.05.2024", "20240517"),
        *("2024-13-01", "2024-02-30", "2024-05-17T24:00", "2024-05-17T09:60", "2024-05-17T09"),
        *("2024-05-17T09:30:60", "2024-05-17T09:30+24:00", "2024-05-17T09:30+02:60", "09:30"),
        *("0000-01-01", "0001-01-01T00:00+01:00", "9999-12-31T23:59-01:00", "2024-05-17T"),
        *("1715938200", " 2024-05-17", "2024-05-17\n", "٢٠٢٤-05-17", "-2024-05-17"),
        *(float("nan"), float("inf"), 10**20, -(10**11) + 1, True, None, []),
    ],
)
def test_what_is_no_time_is_refused_with_how_to_write_one(written: object) -> None:
    with pytest.raises(CommandError, match="is no time: write one such as 2024-05-17T09:30"):
        micros_of(written)
    with pytest.raises(CommandError, match="is no date: write one such as 2024-05-17, or"):
        day_of(written)


@given(moments, zones)
def test_time_is_read_back_whatever_its_zone(moment: datetime, zone: timedelta) -> None:
    micros = (moment - EPOCH) // MICROSECOND
    assert micros_of(time_text(micros)) == micros
    try:
        abroad = moment.astimezone(timezone(zone))
    except OverflowError:
        return
    assert micros_of(abroad.isoformat()) == micros


@given(st.dates())
def test_day_is_read_back(day: date) -> None:
    days = (day - EPOCH.date()).days
    assert day_of(day.isoformat()) == days
    assert day_text(days) == day.isoformat()


def test_epoch_is_the_day_that_it_falls_in() -> None:
    assert day_of(-1) == -1
    assert day_of(1_715_938_200) == day_of("2024-05-17")


def test_time_is_written_with_decimals_where_it_has_any() -> None:
    assert time_text(HALF_PAST) == "2024-05-17T09:30:00Z"
    assert time_text(HALF_PAST + 1) == "2024-05-17T09:30:00.000001Z"
    assert time_text(FIRST_US) == "0001-01-01T00:00:00Z"


def test_time_outside_the_years_is_its_number() -> None:
    assert time_text(LAST_US + 1) == str(LAST_US + 1)
    assert time_text(FIRST_US - 1) == str(FIRST_US - 1)
    assert day_text(10**7) == "10000000"

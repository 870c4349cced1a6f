"""Times and settings as they are written on the command line."""

from datetime import UTC, datetime, timedelta
from typing import Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.cli.input.arguments import Bound, kafka_settings, primary_bound
from storage_core import InvalidRequestError

NS_PER_UNIT = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
ENDS: tuple[Literal["--start", "--end"], ...] = ("--start", "--end")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Within 64 bits of nanoseconds.
FIRST, LAST = datetime.fromisoformat("1678-01-01"), datetime.fromisoformat("2262-01-01")
moments = st.datetimes(FIRST, LAST, timezones=st.just(UTC))
units = st.sampled_from(sorted(NS_PER_UNIT))


def ns_of(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1) * 1000


@given(moments, units)
def test_a_start_is_the_least_primary_that_is_not_before_it(moment, unit):
    first = primary_bound("--start", moment.isoformat(), unit)
    assert first is not None
    assert 0 <= first * NS_PER_UNIT[unit] - ns_of(moment) < NS_PER_UNIT[unit]


@given(moments, units)
def test_an_end_is_the_largest_primary_that_is_not_after_it(moment, unit):
    last = primary_bound("--end", moment.isoformat(), unit)
    assert last is not None
    assert 0 <= ns_of(moment) - last * NS_PER_UNIT[unit] < NS_PER_UNIT[unit]


@given(moments, units, st.sampled_from(get_args(Bound)))
def test_time_without_a_zone_is_utc_in_every_option(moment, unit, option):
    text = moment.replace(tzinfo=None).isoformat()
    assert primary_bound(option, text, unit) == primary_bound(option, moment.isoformat(), unit)


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from([*NS_PER_UNIT, "sequence"]))
def test_an_integer_is_the_primary_itself(primary, unit):
    assert (
        primary_bound("--start", str(primary), unit)
        == primary_bound("--end", str(primary), unit)
        == primary
    )


@pytest.mark.parametrize("text", ["99999999999999999999", str(2**63), "9999-12-31T00:00:00Z"])
def test_what_no_primary_can_be_is_refused_with_the_bounds_of_one(text):
    with pytest.raises(
        InvalidRequestError, match=f"--start '{text}'.* from -{2**63} to {2**63 - 1}"
    ):
        primary_bound("--start", text, "ns")
    with pytest.raises(InvalidRequestError, match="--end"):
        primary_bound("--end", text, "ns")


def test_settings_keep_what_follows_the_first_equals_sign():
    given_twice = ["a.b=1", "password=x=y", "empty=", "a.b=2"]
    assert kafka_settings(given_twice) == {"a.b": "2", "password": "x=y", "empty": ""}
    assert kafka_settings(None) == {}


@pytest.mark.parametrize("pair", ["a", "=1", ""])
def test_a_setting_without_name_or_value_is_refused(pair):
    with pytest.raises(InvalidRequestError, match="KEY=VALUE"):
        kafka_settings([pair])

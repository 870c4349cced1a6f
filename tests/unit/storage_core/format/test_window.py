"""Windows: a later primary never has a smaller window, and summaries only widen."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core.format.keys import INT64_MAX, INT64_MIN
from storage_core.format.window import (
    SEQUENCE_WIDTH,
    Unit,
    Window,
    WindowScheme,
    WindowWidth,
    decode_window,
    encode_window,
    summarise,
    width_for,
)
from tests.unit.storage_core.strategies import addresses_of, few, int64_array, int64s, states_of

UNITS: tuple[Unit, ...] = ("s", "ms", "us", "ns")
WIDTHS: tuple[WindowWidth, ...] = ("minute", "hour", "day", "week", "month")
SCHEMES = [WindowScheme(unit, width) for unit in UNITS for width in WIDTHS] + [
    WindowScheme("sequence", "sequence")
]
schemes = st.sampled_from(SCHEMES)
windows = st.builds(Window, int64s, int64s, *[st.integers(0, 2**64 - 1) for _ in range(3)])
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
moments = st.timedeltas(timedelta(days=-90_000), timedelta(days=90_000)).map(EPOCH.__add__)


def seconds_of(moment: datetime) -> int:
    """Return whole seconds since the epoch, rounded down."""
    return (moment - EPOCH) // timedelta(seconds=1)


@few
@given(schemes, int64s, int64s)
def test_later_primary_never_has_a_smaller_window(scheme, a, b):
    assert (scheme.of(a) <= scheme.of(b)) or a > b


@few
@given(schemes, st.lists(int64s, min_size=1))
def test_windows_of_many_are_the_window_of_each(scheme, primaries):
    assert scheme.of_many(int64_array(primaries)).tolist() == [
        scheme.of(primary) for primary in primaries
    ]


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_both_ends_of_int64_have_windows_on_their_side(scheme):
    assert scheme.of(INT64_MIN) < scheme.of(0) < scheme.of(INT64_MAX)


@few
@given(
    st.sampled_from(UNITS),
    st.sampled_from([("minute", 60), ("hour", 3600), ("day", 86400)]),
    moments,
)
def test_minutes_hours_and_days_are_whole_ones_since_the_epoch(unit, width, moment):
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    seconds = seconds_of(moment)
    scheme = WindowScheme(unit, width[0])
    assert scheme.of(seconds * per_second) == seconds // width[1]
    assert scheme.of((seconds // width[1] + 1) * width[1] * per_second - 1) == seconds // width[1]


@few
@given(moments)
def test_weeks_begin_on_monday(moment):
    scheme = WindowScheme("s", "week")
    monday = (moment - timedelta(days=moment.weekday())).replace(hour=0, minute=0, second=0)
    first = seconds_of(monday)
    assert scheme.of(first) == scheme.of(seconds_of(moment)) == scheme.of(first + 7 * 86400 - 1)
    assert scheme.of(first - 1) == scheme.of(first) - 1


@few
@given(st.sampled_from(UNITS), moments)
def test_months_are_those_of_the_calendar(unit, moment):
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    expected = (moment.year - 1970) * 12 + moment.month - 1
    assert WindowScheme(unit, "month").of(seconds_of(moment) * per_second) == expected


@few
@given(int64s)
def test_sequences_are_cut_at_a_fixed_width(primary):
    assert WindowScheme("sequence", "sequence").of(primary) == primary // SEQUENCE_WIDTH


@pytest.mark.parametrize(
    ("retention", "width"),
    [
        (timedelta(minutes=15), "minute"),
        (timedelta(minutes=15, microseconds=1), "hour"),
        (timedelta(days=1), "hour"),
        (timedelta(days=7), "day"),
        (timedelta(days=30), "week"),
        (timedelta(days=31), "month"),
        (None, "day"),
    ],
)
def test_width_follows_from_retention(retention, width):
    assert width_for(retention, "ms") == width


def test_sequence_has_one_width_whatever_the_retention():
    assert width_for(timedelta(minutes=1), "sequence") == width_for(None, "sequence") == "sequence"


@few
@given(windows)
def test_summary_comes_back(window):
    assert decode_window(encode_window(window)) == window


@few
@given(windows, windows)
def test_widening_never_narrows(a, b):
    both = a.widened(b)
    assert both.address_min <= min(a.address_min, b.address_min)
    assert both.address_last >= max(a.address_last, b.address_last)
    assert both.records == a.records + b.records


@few
@given(st.data(), schemes, st.lists(int64s, min_size=1, max_size=12))
def test_summaries_are_what_a_plain_loop_finds(data, scheme, primaries):
    count = len(primaries)
    addresses, states = data.draw(addresses_of(count)), data.draw(states_of(count))
    sizes = np.arange(count, dtype=np.int32)
    plain: dict[int, Window] = {}
    for primary, address, size, state in zip(
        primaries, addresses.tolist(), sizes.tolist(), states_or_zeros(states, count), strict=True
    ):
        if state <= 1:
            number, row = scheme.of(primary), one_row(address, size, is_late=state == 1)
            plain[number] = plain.get(number, Window()).widened(row)
    assert summarise(scheme, int64_array(primaries), addresses, sizes, states) == plain


def states_or_zeros(states: "np.ndarray | None", count: int) -> list[int]:
    return [0] * count if states is None else states.tolist()


def one_row(address: int, size: int, *, is_late: bool) -> Window:
    return (
        Window(records=1, late_records=1, payload_bytes=size)
        if is_late
        else Window(address, address, 1, 0, size)
    )


@few
@given(schemes, int64s)
def test_last_primary_of_a_window_lies_in_it_and_the_next_one_behind(scheme, primary):
    window = scheme.of(primary)
    last = scheme.last_of(window)
    assert primary <= last
    assert scheme.of(last) == window
    assert last == INT64_MAX or scheme.of(last + 1) == window + 1

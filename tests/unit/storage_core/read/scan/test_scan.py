"""Windows a scan by primary takes at a time."""

from hypothesis import given
from hypothesis import strategies as st

from storage_core.format.window import Window
from storage_core.read.scan.scan import ADDRESSES_MIN, WindowRange, window_ranges
from tests.unit.storage_core.strategies import few

WIDE = 10 * ADDRESSES_MIN
spans = st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)).map(sorted)


def windows_of(*spans: tuple[int, int]) -> list[tuple[int, Window]]:
    """Return windows 0, 1, … whose normal rows lie from the first to before the second address."""
    return [(at, Window(start, end - 1)) for at, (start, end) in enumerate(spans)]


def test_windows_one_behind_the_other_are_taken_one_by_one():
    ranges = window_ranges(windows_of((0, WIDE), (WIDE - 100, 2 * WIDE), (2 * WIDE, 3 * WIDE)))
    assert [(one.last, one.start) for one in ranges] == [(0, 0), (1, WIDE - 100), (2, 2 * WIDE)]


def test_windows_among_each_other_are_taken_together():
    assert window_ranges(windows_of((0, WIDE), (10, WIDE + 10), (5, 20))) == [
        WindowRange(2, 0, WIDE + 10)
    ]


def test_small_windows_are_taken_together_until_they_are_many():
    small = ADDRESSES_MIN // 4
    ranges = window_ranges(windows_of(*[(at * small, (at + 1) * small) for at in range(8)]))
    assert [one.last for one in ranges] == [3, 7]


def test_windows_without_normal_rows_are_in_no_range():
    assert window_ranges([(0, Window()), (1, Window(5, 9)), (2, Window())]) == [
        WindowRange(1, 5, 10)
    ]


@few
@given(st.lists(spans, max_size=20))
def test_ranges_ascend_and_cover_every_window(given_spans):
    windows = windows_of(*[(start, end + 1) for start, end in given_spans])
    ranges = window_ranges(windows)
    assert [one.last for one in ranges] == sorted({one.last for one in ranges})
    for number, window in windows:
        of = next(one for one in ranges if number <= one.last)
        assert of.start <= window.address_min
        assert window.address_last < of.end

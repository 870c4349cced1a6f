"""Bounds from entries: what they say at the edges of windows, and at both ends of int64."""

import pytest

from storage_core.format.keys import INT64_MAX, INT64_MIN, PREFIX_INDEX, index_key
from storage_core.format.window import WindowScheme
from storage_core.ids.index.lower_bounds import WINDOWS_BESIDE, IndexBounds

SCHEME = WindowScheme("s", "minute")
COMMITTED = 1000
Item = tuple[bytes, bytes]


def bounds(
    *entries: tuple[int, int, int], jitter: int = 0, more: tuple[bytes, ...] = ()
) -> IndexBounds:
    """Return bounds from entries given as (secondary, primary, address), among other keys."""
    keys = [index_key(SCHEME.of(primary), one, primary, at) for one, primary, at in entries]
    keys = sorted([b"h", *keys, *more, b"k"])

    def before(key: bytes) -> Item | None:
        return max(((one, b"") for one in keys if one <= key), default=None)

    def after(key: bytes) -> Item | None:
        return min(((one, b"") for one in keys if one >= key), default=None)

    return IndexBounds(before, after, SCHEME, jitter, lambda address: address < COMMITTED)


def test_scan_begins_at_the_last_entry_strictly_below_its_start():
    of = bounds((1, 10, 100), (1, 20, 200), (1, 30, 300))
    assert [of.begin(1, start) for start in (10, 11, 20, 21, 31)] == [0, 100, 100, 200, 300]


def test_scan_ends_at_the_first_entry_strictly_above_its_end():
    of = bounds((1, 10, 100), (1, 20, 200), (1, 30, 300))
    assert [of.end(1, end) for end in (9, 10, 19, 20, 30)] == [100, 200, 200, 300, None]


def test_jitter_keeps_a_distance_on_both_sides():
    of = bounds((1, 10, 100), (1, 30, 300), jitter=5)
    assert [of.begin(1, start) for start in (15, 16)] == [0, 100]
    assert [of.end(1, end) for end in (24, 25)] == [300, None]


def test_other_ids_say_nothing():
    of = bounds((1, 10, 100), (3, 50, 500))
    assert (of.begin(2, 40), of.end(2, 20)) == (0, None)


@pytest.mark.parametrize("windows", [1, WINDOWS_BESIDE, WINDOWS_BESIDE + 1])
def test_windows_beside_are_looked_through_and_only_so_many(windows):
    is_near = windows <= WINDOWS_BESIDE
    assert bounds((1, 0, 100)).begin(1, 60 * windows + 1) == (100 if is_near else 0)
    assert bounds((1, 60 * windows, 100)).end(1, 0) == (100 if is_near else None)


def test_entries_of_rows_that_are_not_committed_say_nothing():
    of = bounds((1, 10, COMMITTED), (1, 30, COMMITTED))
    assert (of.begin(1, 20), of.end(1, 20)) == (0, None)


@pytest.mark.parametrize("jitter", [0, 1, INT64_MAX])
def test_ends_of_int64_bound_nothing_they_must_not(jitter):
    of = bounds((1, INT64_MIN, 1), (1, INT64_MAX, 999), jitter=jitter)
    assert of.begin(1, INT64_MIN) == 0
    assert of.end(1, INT64_MAX) is None
    assert of.begin(1, INT64_MAX) == 0
    assert of.end(1, INT64_MIN) is None


def test_key_of_another_length_says_nothing():
    short = PREFIX_INDEX + index_key(0, 1, 10, 100)[1:14]
    of = bounds(more=(short,))
    assert (of.begin(1, 20), of.end(1, 5)) == (0, None)

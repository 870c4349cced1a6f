"""Joined zones: one for several neighbours says what one of all their rows would have said."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core.format.joined_zone import groups, joined
from storage_core.format.keys import INT64_MAX, INT64_MIN
from storage_core.format.window import WindowScheme
from storage_core.format.zone import (
    Zone,
    decode_secondaries,
    encode_secondaries,
    primary_spans,
    state_counts,
)
from tests.unit.storage_core.strategies import few

SCHEME = WindowScheme("ms", "hour")
HOUR_MS = 3_600_000

rows = st.tuples(st.integers(-50, 50), st.integers(-10, 10), st.sampled_from([0, 0, 0, 1]))
blocks = st.lists(st.lists(rows, min_size=1, max_size=6), min_size=1, max_size=8)


def zone_of(first, some, previous_end=None, **others):
    """Return the zone of a block of rows (primary, id, state) from an address on."""
    primaries, ids, states = (np.array(column) for column in zip(*some, strict=True))
    states = states.astype(np.uint8)
    end = first + len(some)
    return replace(
        Zone(
            first if previous_end is None else previous_end,
            first,
            end - 1,
            *primary_spans(primaries, states),
            committed_at_ms=first,
            checksum=7,
            block_bytes=384 + 10 * len(some),
            count=len(some),
            late=state_counts(states)[0],
            ahead=0,
            expired=0,
            tombstones=1,
            sections=encode_secondaries(ids.astype(np.int32)),
        ),
        **others,
    )


def zones_of(some):
    zones, first = [], 100
    for block in some:
        zones.append(zone_of(first, block))
        first += len(block)
    return zones


@few
@given(blocks)
def test_a_joined_zone_is_that_of_all_rows(some):
    zones = zones_of(some)
    whole = zone_of(100, [row for block in some for row in block])
    zone = joined(zones)
    ids, expected = decode_secondaries(zone.sections), decode_secondaries(whole.sections)
    assert ids is not None
    assert expected is not None
    assert ids.tolist() == expected.tolist()
    assert zone == replace(
        whole,
        committed_at_ms=zones[-1].committed_at_ms,
        checksum=0,
        block_bytes=sum(zone.block_bytes for zone in zones),
        tombstones=len(zones),
        sections=zone.sections,
    )


@few
@given(blocks, st.integers(1, 20))
def test_groups_have_all_zones_in_order_and_no_more_rows_than_they_may(some, rows_max):
    zones = zones_of(some)
    grouped = list(groups(zones, SCHEME, rows_max, 2**20))
    assert [zone for group in grouped for zone in group] == zones
    assert all(
        len(group) == 1 or sum(zone.count for zone in group) <= rows_max for group in grouped
    )


def lengths(zones, rows_max=100, bytes_max=2**20):
    return [len(group) for group in groups(zones, SCHEME, rows_max, bytes_max)]


def test_neighbours_of_one_window_are_a_group():
    ordinary = zones_of([[(0, 1, 0)], [(1, 1, 0)], [(2, 1, 0)]])
    assert lengths(ordinary) == [3]
    assert lengths(ordinary, rows_max=2) == [2, 1]
    assert lengths(ordinary, bytes_max=20) == [2, 1]


@pytest.mark.parametrize(
    "other",
    [
        {"previous_end": 100},
        {"primary_max": HOUR_MS},
        {"late": 1, "out_of_order_min": HOUR_MS, "out_of_order_max": HOUR_MS},
        {"ahead": 1, "out_of_order_min": 0, "out_of_order_max": 0},
        {"expired": 1, "primary_min": INT64_MAX, "primary_max": INT64_MIN},
    ],
    ids=["behind a hole", "of another window", "late for another", "ahead", "expired as it came"],
)
def test_what_expires_at_another_time_is_alone(other):
    first, second, third = zones_of([[(0, 1, 0)], [(1, 1, 0)], [(2, 1, 0)]])
    actual = lengths([first, replace(second, **other), third])
    assert actual[0] == 1
    assert sum(actual) == 3
    if "previous_end" not in other:
        assert actual == [1, 1, 1]


def test_ids_that_one_does_not_tell_may_be_any():
    first, second = zones_of([[(0, 1, 0)], [(1, 2, 0)]])
    assert joined([first, replace(second, sections=b"")]).sections == b""

"""Zones of parts: each row is in one of them, whatever parts have addresses in common."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from storage_core.format.part_entry import PartEntry
from storage_core.format.record import State
from storage_core.lake.beginning.file_facts import FileFacts
from storage_core.lake.beginning.joined_zones import OutOfOrderRows, with_expired, zones_of
from storage_core.lake.beginning.table_parts import TablePart

_ROWS = 200


def part_of(addresses):
    """Return a part in order whose rows have these addresses, and primaries ten times as large."""
    first, last = int(addresses.min()), int(addresses.max())
    count = len(addresses)
    entry = PartEntry(
        *(first, 0, last, 10 * first, 10 * last, count, 1, 0, 0),
        is_out_of_order=False,
        digest=b"",
        kind="",
        footer_bytes=0,
        footer_digest=b"",
    )
    bounds = {
        name: (np.array([times * first]), np.array([times * last]))
        for name, times in (("address", 1), ("primary", 10), ("committed_at_ms", 100))
    }
    return TablePart(entry, FileFacts(np.array([count]), bounds, count // 3, 1024 * count, ()))


def late_rows(addresses):
    count = len(addresses)
    return OutOfOrderRows(
        addresses,
        addresses * 5,
        np.full(count, State.LATE, np.uint8),
        np.ones(count, np.int64),
        np.zeros(count, np.bool_),
        addresses * 100,
    )


@st.composite
def logs(draw):
    """Draw which part each address has, of kinds that are cut by themselves; 0 is out of order."""
    kinds = np.array(draw(st.lists(st.integers(-1, 3), min_size=1, max_size=_ROWS)))
    sizes = draw(st.lists(st.integers(1, 40), min_size=3, max_size=3))
    parts = []
    for kind, size in zip((1, 2, 3), sizes, strict=True):
        addresses = np.flatnonzero(kinds == kind)
        parts += [addresses[at : at + size] for at in range(0, len(addresses), size)]
    return parts, np.flatnonzero(kinds == 0)


@given(logs(), st.integers(1, 60))
def test_each_row_is_in_one_zone(log, rows_max):
    in_order, late = log
    parts = [part_of(addresses) for addresses in in_order]
    addresses_of = {part.entry: some for part, some in zip(parts, in_order, strict=True)}
    zones = zones_of(
        parts, late_rows(late), 0, lambda part: addresses_of[part.entry][::-1], rows_max
    )
    every = np.sort(np.concatenate([*in_order, late])).astype(np.int64)
    reached = 0
    for zone in zones:
        rows = every[(every >= zone.first) & (every <= zone.last)]
        assert zone.count == len(rows) > 0
        assert zone.late == np.isin(rows, late).sum()
        normal = rows[~np.isin(rows, late)]
        assert not len(normal) or zone.primary_min <= 10 * normal[0]
        assert not len(normal) or zone.primary_max >= 10 * normal[-1]
        assert zone.committed_at_ms >= 100 * rows[-1]
        assert zone.first >= zone.previous_end == reached
        reached = zone.end
    assert sum(zone.count for zone in zones) == len(every)
    assert sum(zone.tombstones for zone in zones) == sum(part.facts.tombstones for part in parts)


def test_parts_that_hang_together_are_cut_where_one_begins():
    every = np.arange(300)
    in_order = [every[at : at + 60][::2] for at in range(0, 300, 60)]
    in_order += [every[at : at + 60][1::2] for at in range(30, 240, 60)]
    parts = [part_of(addresses) for addresses in in_order]
    addresses_of = {part.entry: some for part, some in zip(parts, in_order, strict=True)}
    nothing = late_rows(np.empty(0, np.int64))
    whole = zones_of(parts, nothing, 0, lambda part: addresses_of[part.entry])
    assert len(whole) == 1
    cut = zones_of(parts, nothing, 0, lambda part: addresses_of[part.entry], 50)
    assert [zone.count for zone in cut] == [45, 60, 60, 60, 45]


def test_addresses_between_zones_count_as_expired_where_rows_have():
    parts = [part_of(np.arange(10)), part_of(np.arange(20, 30))]
    nothing = late_rows(np.empty(0, np.int64))
    zones = list(with_expired(zones_of(parts, nothing, 0, lambda _: np.empty(0, np.int64))))
    assert [(zone.first, zone.end, zone.is_expired) for zone in zones] == [
        (0, 10, False),
        (10, 20, True),
        (20, 30, False),
    ]
    assert [zone.previous_end for zone in zones] == [0, 10, 20]


def test_rows_out_of_order_alone_are_cut_too():
    every = np.arange(100)
    alone = zones_of([], late_rows(every), 0, lambda _: every, 20)
    assert [zone.count for zone in alone] == [20] * 5
    assert [zone.out_of_order_max for zone in alone] == [5 * last for last in range(19, 100, 20)]
    about = [part_of(np.array([0, 99]))]
    cut = zones_of(about, late_rows(every[1:-1]), 0, lambda _: np.array([99, 0]), 20)
    assert [zone.count for zone in cut] == [19, 20, 20, 20, 21]

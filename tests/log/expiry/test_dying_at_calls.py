"""Expiry and trim that die before any call to the store or the marker: all of it, or nothing.

A reader beside the dead and the next opener see the rows that were there, or those that stay; the
opener's own run leaves exactly those that stay, all of it sound, and another one finds nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from storage_core.testing import FaultyDisk, ManualClock, SimulatedCrash
from tests.log.expiry.shelf import HOUR, KEPT, NOW, Shelf
from tests.log.workbench import column_of

CAP = 7
YEAR_2100 = 4_102_444_800
# A batch, a sync, the marker.
CALLS_MIN = 3


def above_floor(rows: list[int]) -> list[int]:
    return [row for row in rows if row >= NOW - KEPT * HOUR]


@dataclass(frozen=True)
class Way:
    """What is different: options, the disk, what is done to a shelf, and which rows stay."""

    options: dict[str, Any] = field(default_factory=dict)
    disk: dict[str, Any] = field(default_factory=dict)
    work: Callable[[Shelf], Any] = lambda shelf: shelf.expire()
    stay: Callable[[list[int]], list[int]] = above_floor


# So small that each batch goes to a segment, and a few make the next one begin.
SEGMENTS = {"apart_bytes_min": 1, "segment_bytes": 300}
UNBOUNDED = {"retention": None, "block_records": 8}
WAYS = {
    "windows": Way(),
    "segments": Way(disk=SEGMENTS),
    "caps": Way({"retention": None, "records_max": CAP}, stay=lambda rows: rows[-CAP:]),
    "trim": Way(UNBOUNDED, work=lambda shelf: shelf.stream.trim(), stay=list),
    "trim of segments": Way(UNBOUNDED, SEGMENTS, lambda shelf: shelf.stream.trim(), list),
}


def filled(make_bench, way: Way, disk: FaultyDisk) -> Shelf:
    """Return a shelf of rows that go and rows that stay, late and ahead ones among them."""
    shelf = Shelf(make_bench, disk.environment(ManualClock(NOW * 10**9)), **way.options)
    shelf.put(-30, 3)
    shelf.put(3, secondary=9)
    for hours in range(-20, -10):
        shelf.put(hours, 2, payload=b"x" * 50)
    shelf.bench.keep([YEAR_2100, NOW - 20 * HOUR], secondary=[7, 5])
    shelf.put(-2)
    shelf.put(-9)
    shelf.put(-3, 2)
    if way.stay is list:
        shelf.stream.seal()
    return shelf


@pytest.mark.parametrize("name", WAYS)
def test_work_that_dies_before_any_call_took_all_or_nothing(make_bench, name):
    way = WAYS[name]
    for call in count(1):
        disk = FaultyDisk(**way.disk)
        shelf = filled(make_bench, way, disk)
        before = shelf.bench.arrivals()
        stay = sorted(way.stay(before))
        disk.crash_at = disk.calls + call
        try:
            way.work(shelf)
            has_died = False
        except SimulatedCrash:
            has_died = True
        disk.crash_at = None
        with shelf.bench.read_beside() as reader:
            visible = sorted(column_of(reader.read(columns=["primary"]), "primary"))
            assert visible in (sorted(before), stay), call
        if has_died:
            shelf.bench.crash()
            shelf.bench.open()
        assert sorted(shelf.bench.primaries()) in (sorted(before), stay), call
        way.work(shelf)
        shelf.expect(stay)
        assert way.work(shelf).blocks == 0
        if not has_died:
            assert call > CALLS_MIN
            return

"""A view: its chain of zones is proven, so that the rest is never taken for the whole.

It reaches inside: zones are broken one by one, which no disk does so neatly.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from storage_core import CorruptionError
from storage_core.engine.key_value import Batch
from storage_core.format.keys import FAMILY_DEFAULT, zone_key
from storage_core.format.zone import Zone, ZoneChunk, encode_zone
from storage_core.read.view import ShardView
from tests.log.workbench import Workbench

BLOCKS = 40


@pytest.fixture
def view(bench):
    """A view of forty blocks of two rows at every fifth address."""
    filled(bench)
    view = bench.shard.snapshots.committed()
    yield view
    view.close()


def filled(bench: Workbench) -> None:
    for number in range(BLOCKS):
        bench.append([number, number], addresses=[10 * number, 10 * number + 5])
    bench.commit()


def reopen_with(bench: Workbench, *records: tuple[str, bytes, bytes], **deleted: Any) -> None:
    """Change the closed store behind its back, heads aside, which would be rebuilt from it."""
    bench.close()
    bench.call_heads_written(through=396)
    bench.change(*records, **deleted)
    bench.open()


def firsts(view: ShardView, start: int, end: int) -> list[int]:
    return [zone.first for zone in view.zones(start, end)]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 400, list(range(0, 400, 10))),
        (0, 1, [0]),
        (5, 6, [0]),
        (6, 10, []),
        (3, 11, [0, 10]),
        (10, 10, []),
        (395, 396, [390]),
        (396, 10**9, []),
        (100, 120, [100, 110]),
    ],
)
def test_zones_are_those_with_addresses_in_the_range(view, start, end, expected):
    assert firsts(view, start, end) == expected


def test_zones_are_chosen_by_their_heads(view):
    wanted = view.zones(0, 400, lambda chunk: chunk.fields["primary_min"] % 7 == 0)
    assert [zone.primary_min for zone in wanted] == [0, 7, 14, 21, 28, 35]


@pytest.mark.parametrize(("end", "last"), [(96, 90), (100, 100), (396, 390), (10**9, 390)])
def test_zones_behind_the_range_are_not_looked_at_but_for_one_that_proves_its_end(view, end, last):
    looked_at: list[int] = []

    def wants(chunk: ZoneChunk) -> npt.NDArray[np.bool_]:
        looked_at.extend(chunk.fields["first"].tolist())
        return np.zeros(len(chunk.fields), dtype=np.bool_)

    assert list(view.zones(0, end, wants)) == []
    assert looked_at == list(range(0, last + 1, 10))


@pytest.mark.parametrize("gone", [0, 1, 6, 7, 8, 9, 15, 23, 24, 38, 39])
def test_hole_is_told_by_every_range_that_covers_it_and_no_other(bench, gone):
    filled(bench)
    batch = Batch()
    batch.delete(zone_key(10 * gone))
    bench.shard._store.write(batch)
    view = bench.shard.snapshots.committed()
    for start, end in ((0, 400), (10 * gone, 10 * gone + 1), (10 * gone + 5, 400)):
        with pytest.raises(CorruptionError, match="chain of zones is broken"):
            firsts(view, start, end)
    assert firsts(view, 400, 500) == []
    within_the_block_before, behind_its_rows = 10 * gone - 7, 10 * gone - 4
    for end in (within_the_block_before, behind_its_rows) if gone else ():
        assert firsts(view, 0, end) == list(range(0, 10 * gone, 10))
    view.close()


def zone_at(view: ShardView, first: int) -> Zone:
    (zone,) = view.zones(first, first + 1)
    return zone


@pytest.mark.parametrize("changes", [{"last": 16}, {"previous_end": 5}, {"first": 11}])
def test_zone_that_does_not_fit_the_chain_is_told(bench, changes):
    filled(bench)
    changed = replace(zone_at(bench.shard.snapshots.committed(), 10), **changes)
    reopen_with(bench, (FAMILY_DEFAULT, zone_key(10), encode_zone(changed)))
    with pytest.raises(CorruptionError, match=r"shard 0, addresses"):
        firsts(bench.shard.snapshots.committed(), 0, 400)


def test_blocks_come_with_their_zones_though_some_are_passed_over(view):
    zones = [zone for zone in view.zones(0, 400) if zone.primary_min % 3 != 1]
    pairs = list(view.blocks(iter(zones)))
    assert [zone.first for zone, _ in pairs] == [block.first for _, block in pairs]
    assert len(pairs) == len(zones)


def test_block_that_is_missing_is_told_and_remembered(bench):
    filled(bench)
    reopen_with(bench, deleted_blocks=[10])
    view = bench.shard.snapshots.committed()
    for read in (view.block, lambda zone: list(view.blocks(iter([zone])))):
        with pytest.raises(CorruptionError, match=r"the block is missing.*addresses \[10, 16\)"):
            read(zone_at(view, 10))
    assert {(lost.start, lost.end) for lost in view.unreadable} == {(10, 16)}


def test_blocks_before_one_that_is_missing_come_first(bench):
    filled(bench)
    reopen_with(bench, deleted_blocks=[170])
    view = bench.shard.snapshots.committed()
    read: list[int] = []
    with pytest.raises(CorruptionError, match="the block is missing"):
        read.extend(zone.first for zone, _ in view.blocks(view.zones(0, 400)))
    assert read == list(range(0, 170, 10))
    view.close()


def test_block_of_another_zone_is_told(bench):
    filled(bench)
    changed = replace(zone_at(bench.shard.snapshots.committed(), 390), count=3)
    reopen_with(bench, (FAMILY_DEFAULT, zone_key(390), encode_zone(changed)))
    view = bench.shard.snapshots.committed()
    with pytest.raises(CorruptionError, match="differs from its zone"):
        view.block(zone_at(view, 390))


def test_view_of_the_writer_is_a_moment(bench):
    bench.keep([1])
    view = bench.shard.snapshots.committed()
    bench.keep([2])
    assert (firsts(view, 0, 10), view.committed) == ([0], 1)
    view.close()

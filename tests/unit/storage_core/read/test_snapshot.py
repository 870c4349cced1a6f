"""A snapshot: its chain of zones is proven, so that the rest is never taken for the whole.

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
from storage_core.read.snapshot import ShardSnapshot
from tests.log.workbench import Workbench

BLOCKS = 40


@pytest.fixture
def snapshot(bench):
    """A snapshot of forty blocks of two rows at every fifth address."""
    filled(bench)
    snapshot = bench.shard.snapshots.committed()
    yield snapshot
    snapshot.close()


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


def firsts(snapshot: ShardSnapshot, start: int, end: int) -> list[int]:
    return [zone.first for zone in snapshot.zones(start, end)]


@pytest.mark.parametrize(("end", "last"), [(96, 90), (100, 100), (396, 390), (10**9, 390)])
def test_zones_behind_the_range_are_not_looked_at_but_for_one_that_proves_its_end(
    snapshot, end, last
):
    looked_at: list[int] = []

    def wants(chunk: ZoneChunk) -> npt.NDArray[np.bool_]:
        looked_at.extend(chunk.fields["first"].tolist())
        return np.zeros(len(chunk.fields), dtype=np.bool_)

    assert list(snapshot.zones(0, end, wants)) == []
    assert looked_at == list(range(0, last + 1, 10))


@pytest.mark.parametrize("gone", [0, 1, 6, 7, 8, 9, 15, 23, 24, 38, 39])
def test_hole_is_told_by_every_range_that_covers_it_and_no_other(bench, gone):
    filled(bench)
    batch = Batch()
    batch.delete(zone_key(10 * gone))
    bench.shard._store.write(batch)
    snapshot = bench.shard.snapshots.committed()
    for start, end in ((0, 400), (10 * gone, 10 * gone + 1), (10 * gone + 5, 400)):
        with pytest.raises(CorruptionError, match="chain of zones is broken"):
            firsts(snapshot, start, end)
    assert firsts(snapshot, 400, 500) == []
    within_the_block_before, behind_its_rows = 10 * gone - 7, 10 * gone - 4
    for end in (within_the_block_before, behind_its_rows) if gone else ():
        assert firsts(snapshot, 0, end) == list(range(0, 10 * gone, 10))
    snapshot.close()


def zone_at(snapshot: ShardSnapshot, first: int) -> Zone:
    (zone,) = snapshot.zones(first, first + 1)
    return zone


@pytest.mark.parametrize("changes", [{"last": 16}, {"previous_end": 5}, {"first": 11}])
def test_zone_that_does_not_fit_the_chain_is_told(bench, changes):
    filled(bench)
    changed = replace(zone_at(bench.shard.snapshots.committed(), 10), **changes)
    reopen_with(bench, (FAMILY_DEFAULT, zone_key(10), encode_zone(changed)))
    with pytest.raises(CorruptionError, match=r"shard 0, addresses"):
        firsts(bench.shard.snapshots.committed(), 0, 400)


def test_block_that_is_missing_is_told_and_remembered(bench):
    filled(bench)
    reopen_with(bench, deleted_blocks=[10])
    snapshot = bench.shard.snapshots.committed()
    for read in (snapshot.block, lambda zone: list(snapshot.blocks(iter([zone])))):
        with pytest.raises(CorruptionError, match=r"the block is missing.*addresses \[10, 16\)"):
            read(zone_at(snapshot, 10))
    assert {(lost.start, lost.end) for lost in snapshot.unreadable} == {(10, 16)}


def test_block_of_another_zone_is_told(bench):
    filled(bench)
    changed = replace(zone_at(bench.shard.snapshots.committed(), 390), count=3)
    reopen_with(bench, (FAMILY_DEFAULT, zone_key(390), encode_zone(changed)))
    snapshot = bench.shard.snapshots.committed()
    with pytest.raises(CorruptionError, match="differs from its zone"):
        snapshot.block(zone_at(snapshot, 390))

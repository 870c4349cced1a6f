"""Small blocks are decoded together only where each is the one that its zone speaks of.

It reaches inside: bytes that are whole, and those of another place, come from no scenario.
"""

from dataclasses import replace

import pytest

from storage_core.format.small_blocks import decode_small_blocks


@pytest.fixture(scope="module")
def small(lasting_bench):
    """Zones of small blocks, their bytes, and where they belong."""
    bench = lasting_bench
    for number in range(12):
        bench.keep([number, number], secondary=[number % 3, 7])
    view = bench.shard.snapshots.committed()
    zones = list(view.zones(0, view.committed))
    blocks = [data for _, data in view._blocks._proven_blocks(iter(zones))]
    yield zones, blocks, view.place
    view.close()


def test_small_blocks_are_decoded_as_one(small):
    zones, _, _ = small
    decoded = decode_small_blocks(*small)
    assert decoded is not None
    (block,) = decoded
    assert (block.first, block.last, len(block)) == (0, zones[-1].last, 24)


@pytest.mark.parametrize("field", ["first", "last", "count"])
@pytest.mark.parametrize("position", [0, 5, 11])
def test_block_that_is_not_the_one_of_its_zone_is_not_decoded_with_others(small, field, position):
    zones, blocks, place = small
    others = list(zones)
    others[position] = replace(zones[position], **{field: getattr(zones[position], field) + 1})
    assert decode_small_blocks(others, blocks, place) is None


def test_blocks_of_another_place_are_not_decoded(small):
    zones, blocks, place = small
    for other in (replace(place, shard=1), replace(place, lineage=bytes(16))):
        assert decode_small_blocks(zones, blocks, other) is None


def test_block_that_ends_early_or_stands_for_another_is_not_decoded(small):
    zones, blocks, place = small
    for instead in (blocks[5][:-8], blocks[4]):
        assert decode_small_blocks(zones, [*blocks[:5], instead, *blocks[6:]], place) is None

"""Zones agree with one block of all their rows only where each agrees with its own.

It reaches inside: a zone that says too much or too little of one row makes reads pass over others.
"""

from dataclasses import replace

import pytest

from storage_core.format.keys import INT64_MAX, INT64_MIN
from storage_core.format.zone import encode_one_secondary
from storage_core.read.block_proof import disagreement

FIELDS = (
    *("first", "last", "primary_min", "primary_max", "out_of_order_min", "out_of_order_max"),
    *("committed_at_ms", "count", "late", "ahead", "expired", "tombstones"),
)


@pytest.fixture(scope="module")
def small(lasting_bench):
    """Zones of small blocks of every kind, and the block of all their rows."""
    bench = lasting_bench
    for number in range(40):
        late = number - 20 * (number % 5 == 4)
        payload = None if number % 7 == 0 else b"x"
        bench.keep([late], secondary=number % 3, payload=payload)
        bench.keep([number, number], secondary=[1, 2], addresses=[4 * number + 2, 4 * number + 3])
        bench.keep([number + 1], addresses=[4 * number + 4])
    snapshot = bench.shard.snapshots.committed()
    zones = list(snapshot.zones(0, snapshot.committed))
    yield zones, snapshot.block_of_several(zones)
    snapshot.close()


def test_zones_agree_with_the_block_of_all_their_rows(small):
    assert disagreement(*small) is None


@pytest.mark.parametrize("field", FIELDS)
def test_one_zone_that_says_another_number_is_noticed(small, field):
    zones, block = small
    for position in range(0, len(zones), 7):
        value = getattr(zones[position], field)
        for other in (value + 1 if value < INT64_MAX else 5, value - 1 if value > INT64_MIN else 5):
            assert disagreement(
                [
                    *zones[:position],
                    replace(zones[position], **{field: other}),
                    *zones[position + 1 :],
                ],
                block,
            )


def test_one_zone_that_says_another_id_is_noticed(small):
    zones, block = small
    for position in range(0, len(zones), 7):
        other = replace(zones[position], sections=encode_one_secondary(99))
        assert disagreement([*zones[:position], other, *zones[position + 1 :]], block)
    assert disagreement([replace(zone, sections=b"") for zone in zones], block) is None


def test_zones_of_one_row_more_or_less_are_noticed(small):
    zones, block = small
    assert disagreement(zones[1:], block)
    assert disagreement([*zones, zones[-1]], block)

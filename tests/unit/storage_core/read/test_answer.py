"""A scan that goes on behind what it has yielded: nothing twice, nothing left out.

It reaches inside: the point to go on from is known to the answer alone.
"""

import random
from itertools import islice
from typing import Any

import pytest

from storage_core.format.zone import SMALL_BYTES
from storage_core.read.answer import resumed, scan_snapshot
from storage_core.read.request import ReadRequest
from storage_core.read.snapshot import ShardSnapshot
from tests.log.workbench import rows_of

Row = dict[str, Any]
COLUMNS = ("primary", "secondary", "address")


@pytest.fixture(scope="module")
def snapshot(lasting_bench):
    """Blocks, small ones among them: primaries that repeat within and across, some rows late."""
    bench = lasting_bench
    chance = random.Random(3)
    for block in range(36):
        primaries = [block + chance.randrange(-6, 3) for _ in range(4)]
        payload = bytes(SMALL_BYTES if 0 < block < 30 else 1)
        ids = [chance.randrange(3) for _ in primaries]
        bench.append(primaries, secondary=ids, payload=payload)
    bench.commit()
    snapshot = bench.shard.snapshots.committed()
    yield snapshot
    snapshot.close()


def rest(snapshot: ShardSnapshot, request: ReadRequest, reached: int | None) -> list[Row]:
    """Return what a scan yields that goes on from there."""
    going_on = request if reached is None else resumed(request, reached)
    if going_on is None:
        return []
    return rows_of(batch for batch, _ in scan_snapshot(snapshot, going_on))


@pytest.mark.parametrize("bounds", [{}, {"start": 5, "end": 25}, {"ids": (1,)}])
@pytest.mark.parametrize("order", ["arrival", "replay", "time"])
def test_scan_cut_off_behind_any_batch_goes_on_with_the_next_row(snapshot, order, bounds):
    end = snapshot.committed
    request = ReadRequest(0, order=order, columns=COLUMNS, end_address=end, **bounds)
    whole = rest(snapshot, request, None)
    scan = list(scan_snapshot(snapshot, request))
    assert len(scan) > 1
    for count in range(1, len(scan) + 1):
        seen = rows_of(batch for batch, _ in islice(scan, count))
        assert seen + rest(snapshot, request, scan[count - 1][1]) == whole

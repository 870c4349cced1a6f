"""Goal: what is trimmed is what was proven, whatever comes between the proof and the deletion.

Method: a builder that proves as it should, and what may come after it: another answer, a block that
is found damaged, parts that were merged; and a view of before that meets what is left.
"""

import numpy as np
import pytest

from storage_core import CorruptionError, LostRangeError, UnavailableError
from storage_core.format.shard_state import AddressRange
from storage_core.tiering.build import build_here
from storage_core.tiering.trim import trim_shard
from storage_core.tiering.work import Built, ProveWork
from tests.log.parts.parts_lab import PartsLab, small_segments


@pytest.fixture
def lab(root):
    lab = PartsLab(root, block_records=64)
    yield lab
    lab.stream.close()


def zeros_for_segments(root):
    """Damage the blocks that lie in segments, without another size."""
    for file in root.glob("**/segments/*"):
        file.write_bytes(bytes(file.stat().st_size))


def test_view_of_before_a_trim_calls_no_row_lost_that_parts_have(tmp_path):
    lab = PartsLab(tmp_path, small_segments(), block_records=64)
    with lab.stream:
        for _ in range(2):
            lab.append_orders(5_000)
        lab.stream.seal()
        rows = lab.rows()
        scan = lab.stream.scan()
        next(scan)
        lab.stream.trim()
        zeros_for_segments(tmp_path)
        with pytest.raises(CorruptionError):
            list(scan)
        assert lab.rows() == rows


def test_block_that_is_found_damaged_behind_its_proof_is_not_trimmed(lab):
    shard = lab.stream._shards[0]
    lab.append(np.random.default_rng(18), 600)
    lab.stream.seal()

    def damaged_behind(context, view, work):
        proven = build_here(context, view, work)
        zone = list(view.zones(work.begin, work.end))[1]
        shard.note_lost([AddressRange(zone.first, zone.end)])
        return proven

    with pytest.raises(LostRangeError, match="damaged meanwhile"):
        trim_shard(shard, damaged_behind)
    ((start, _),) = lab.stream.lost_ranges()[0]
    step = trim_shard(shard)
    assert step is not None
    assert step.end == start


def test_nothing_goes_for_an_answer_to_something_else(lab):
    shard = lab.stream._shards[0]
    lab.append(np.random.default_rng(19), 600)
    lab.stream.seal()
    for answer in (Built((), 64), Built((lab.stream.parts()[0].entry,), shard.committed())):
        with pytest.raises(CorruptionError, match="were not proven"):
            trim_shard(shard, lambda *_, answer=answer: answer)
    step = trim_shard(shard)
    assert step is not None
    assert step.end == shard.committed()


def test_parts_that_were_joined_since_prove_nothing(lab):
    shard = lab.stream._shards[0]
    orders: list[ProveWork] = []

    def refused(_context, _view, work):
        orders.append(work)
        message = "not now"
        raise UnavailableError(message)

    for seed in range(5):
        lab.append(np.random.default_rng(seed), 100)
        lab.stream.seal()
    with pytest.raises(UnavailableError):
        trim_shard(shard, refused)
    assert lab.stream.compact().rows
    view = shard.snapshots.committed()
    with pytest.raises(CorruptionError, match="in the same parts"):
        build_here(shard.context, view, orders[0])
    view.close()

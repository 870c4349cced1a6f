"""A shard whose log is damaged begins anew from its table, whatever is wrong with the log."""

import pytest

from storage_core import CorruptionError, Stream
from storage_core.catalog import begun_shards
from storage_core.catalog.archived_shards import archived_shards
from storage_core.testing import SimulatedCrash
from tests.lake.beginning.beginning_lab import NAME, SHARD
from tests.lake.support.damaged_logs import (
    lose_all_but_marker,
    lose_marker,
    lose_shard,
    lose_store,
    spoil_marker,
    spoil_newest_slot,
    spoil_store,
)


@pytest.mark.parametrize(
    ("damage", "is_removed"),
    [
        (spoil_store, False),
        (lose_store, False),
        (lose_marker, False),
        (spoil_marker, False),
        (lose_shard, True),
        (lose_all_but_marker, False),
    ],
)
def test_damaged_log_is_replaced_by_one_that_begins_from_the_lake(lab, damage, is_removed):
    lab.published(100)
    lab.owner.stream.close()
    damage(next(lab.owner.root.glob(f"{NAME}/shard-*")))
    with pytest.raises(CorruptionError), Stream.open(lab.owner.root, NAME, [SHARD]) as stream:
        stream.read()
    begun = lab.take_over(lab.owner)
    assert begun.archived
    lab.check()
    assert lab.problems() == []
    lab.fill(40)
    lab.publish()
    assert lab.lake_problems() == []
    # One that has no row goes; one of whose rows nobody can tell stays.
    staying = [log.shard for log in archived_shards(lab.owner.root, NAME)]
    assert staying == ([] if is_removed else [SHARD])


@pytest.mark.parametrize(
    "damage",
    [spoil_store, lose_store, lose_marker, spoil_marker, spoil_newest_slot, lose_all_but_marker],
)
def test_damaged_log_with_rows_that_nobody_published_stays(lab, damage):
    lab.published(100)
    lab.append(50)
    lab.owner.stream.close()
    damage(next(lab.owner.root.glob(f"{NAME}/shard-*")))
    lab.take_over(lab.owner)
    lab.fill(100)
    done = lab.publish()
    assert (done.logs_removed, len(lab.archived())) == (0, 1)


def test_log_without_a_marker_stays_though_a_first_beginning_was_killed(lab, monkeypatch):
    lab.published(100)
    lab.append(50)
    lab.owner.stream.close()
    lose_marker(next(lab.owner.root.glob(f"{NAME}/shard-*")))

    def dying(*_rest):
        raise SimulatedCrash

    with monkeypatch.context() as patched:
        patched.setattr(begun_shards, "put_in_place", dying)
        with pytest.raises(SimulatedCrash):
            lab.take_over(lab.owner)
    lab.take_over(lab.owner)
    lab.fill(100)
    done = lab.publish()
    assert (done.logs_removed, len(lab.archived())) == (0, 1)

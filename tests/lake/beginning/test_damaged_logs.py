"""A shard whose log is damaged begins anew from its table, whatever is wrong with the log."""

import shutil

import pytest

from storage_core import CorruptionError, Stream
from storage_core.catalog.archived_shards import archived_shards
from tests.lake.beginning.beginning_lab import NAME, SHARD


def spoil_store(shard):
    for file in (shard / "db").iterdir():
        if file.name.startswith(("MANIFEST", "CURRENT")):
            file.write_bytes(b"nothing of RocksDB's")


def lose_store(shard):
    shutil.rmtree(shard / "db")


def lose_marker(shard):
    (shard / "marker").unlink()


def spoil_marker(shard):
    (shard / "marker").write_bytes(bytes(8192))


def lose_shard(shard):
    shutil.rmtree(shard)


def lose_all_but_marker(shard):
    for place in shard.iterdir():
        if place.is_dir():
            shutil.rmtree(place)


@pytest.mark.parametrize(
    ("damage", "may_be_compared"),
    [
        (spoil_store, False),
        (lose_store, False),
        (lose_marker, True),
        (spoil_marker, True),
        (lose_shard, True),
        (lose_all_but_marker, False),
    ],
)
def test_damaged_log_is_replaced_by_one_that_begins_from_the_lake(lab, damage, may_be_compared):
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
    # One whose rows are all in the table goes; one whose rows nobody can read stays.
    staying = [log.shard for log in archived_shards(lab.owner.root, NAME)]
    assert staying == ([] if may_be_compared else [SHARD])

"""A worker that opens a shard and a command that pauses it: one of both sees the other."""

import pytest

from connectors.group import pause
from connectors.group.partition_shards import PausedShardError, take_partition_shards
from connectors.kafka import Partition
from storage_core import Environment, Stream, shard_owners
from tests.unit.connectors.writers import TOPIC, make_stream

A = Partition(TOPIC, 0)


@pytest.fixture
def root(tmp_path):
    make_stream(tmp_path, 2)
    return tmp_path


def test_pause_that_found_nobody_keeps_the_store_closed(root):
    store = root / TOPIC / "shard-0000" / "db"
    (outcome,) = pause(root, TOPIC, [0], wait_s=0)
    with pytest.raises(PausedShardError, match="paused while its shard was being opened"):
        take_partition_shards(root, A)
    assert (outcome.is_done, store.exists(), shard_owners(root, TOPIC)[0]) == (True, False, None)
    # Nobody has its lock either.
    Stream.open(root, TOPIC, [0]).close()
    take_partition_shards(root, Partition(TOPIC, 1)).close()


def test_pause_sees_whoever_has_looked_for_it_already(root):
    outcomes = []

    def pause_now():
        outcomes.extend(pause(root, TOPIC, [0], wait_s=0))

    Stream.open(root, TOPIC, [0], environment=Environment(once_locked=pause_now)).close()
    assert [outcome.is_done for outcome in outcomes] == [False]

"""Which shards of partitions that come begin from the lake, and whose fault it is if one cannot."""

from dataclasses import replace
from pathlib import Path

import pytest

from connectors.group.retry_shards import retry_shard_of
from connectors.ingest.assignment.lake_start import KafkaSide
from connectors.ingest.lake.lake_tasks import LakeOrder, started_by
from storage_core import (
    CorruptionError,
    LostRangeError,
    ShardLockedError,
    Stream,
    UnavailableError,
    describe_stream,
)
from storage_core.lake import BegunShard, LakePosition, lake_target
from storage_core.platform.overriding import override
from tests.log.workbench import batch_of
from tests.unit.connectors.writers import TOPIC, make_stream

RETRY = retry_shard_of(0)


class ScriptedStarter:
    """A table that stands at 100 in some shards; what is damaged fails whatever it is part of."""

    def __init__(self, *shards, own=(), damaged=(), failure=None):
        self.shards, self.own, self.damaged, self.failure = shards, own, damaged, failure
        self.begun = []

    def positions(self, _root, stream, shards, _target):
        self._refuse_damaged(stream, shards)
        if self.failure is not None:
            raise self.failure
        return {at: LakePosition(at, 100, at in self.own) for at in self.shards if at in shards}

    def begin(self, _root, stream, shards, _target, *, expire=False):
        assert not expire
        self._refuse_damaged(stream, shards)
        self.begun += shards
        return {at: BegunShard(at, 0, 100, 100, 1, archived=False) for at in shards}

    def _refuse_damaged(self, stream, shards):
        for shard in set(self.damaged).intersection(shards):
            message = "torn"
            raise CorruptionError(message, stream=stream, shard=shard)


def store_rows(root, end, *shards):
    """Have rows in shards, which are made if they are not there."""
    missing = set(shards).difference(describe_stream(root, TOPIC).shards)
    Stream.add_shards(root, TOPIC, dict.fromkeys(missing, 0))
    with Stream.open(root, TOPIC, shards=shards) as stream:
        for shard in shards:
            stream.append_batch(batch_of(range(end)), shard=shard, addresses=range(end))
        stream.commit()


@pytest.fixture
def order(tmp_path: Path) -> LakeOrder:
    """Three partitions that come, of which none has rows here."""
    make_stream(tmp_path, 3)
    sides = dict.fromkeys(range(3), KafkaSide(0))
    return LakeOrder(tmp_path, TOPIC, lake_target(f"file://{tmp_path}-lake"), sides)


def test_shards_that_the_table_has_begin_and_their_retry_shards(order):
    starter = ScriptedStarter(0, 2, RETRY)
    answer = started_by(starter, order)
    assert starter.begun == [0, RETRY, 2]
    assert (set(answer.begun), set(answer.in_lake)) == ({0, 2, RETRY}, {0, 2, RETRY})
    assert answer.faults == {}


def test_own_log_that_has_less_than_the_table_begins_anew(order):
    assert set(started_by(ScriptedStarter(0, own=[0]), order).begun) == {0}


class GoingOn(ScriptedStarter):
    """A table that is asked while another process of this root stores and publishes the rest."""

    @override
    def positions(self, root, *rest):
        store_rows(root, 100, 0)
        return super().positions(root, *rest)


def test_log_that_goes_on_while_the_table_is_asked_is_not_behind(order):
    store_rows(order.root, 50, 0)
    assert started_by(GoingOn(0, own=[0]), order).begun == {}


def test_damage_of_one_shard_is_its_partition_s_fault(order):
    starter = ScriptedStarter(0, 1, 2, damaged=[1])
    answer = started_by(starter, order)
    assert sorted(starter.begun) == [0, 2]
    assert {at: type(error) for at, error in answer.faults.items()} == {1: CorruptionError}


def test_damage_of_a_retry_shard_is_its_partition_s_fault(order):
    answer = started_by(ScriptedStarter(0, 1, damaged=[RETRY]), order)
    assert (set(answer.begun), set(answer.faults)) == ({1}, {0})


def test_partition_that_kafka_has_no_longer_whole_does_not_begin(order):
    order.sides[1] = KafkaSide(101)
    starter = ScriptedStarter(0, 1)
    answer = started_by(starter, order)
    assert starter.begun == [0]
    assert type(answer.faults[1]) is LostRangeError


@pytest.mark.parametrize("is_to_skip", [False, True])
def test_log_goes_on_that_alone_has_rows_above_the_table_and_so_does_its_retry_shard(
    order, is_to_skip
):
    store_rows(order.root, 120, 0, RETRY)
    order.sides[0] = KafkaSide(110)
    starter = ScriptedStarter(0, 2, RETRY)
    answer = started_by(starter, replace(order, is_to_skip=is_to_skip))
    assert (starter.begun, answer.faults, answer.alone) == ([2], {}, {0: 100})


def test_retry_shard_that_lacks_rows_begins_beside_a_log_that_goes_on(order):
    store_rows(order.root, 120, 0)
    order.sides[0] = KafkaSide(110)
    starter = ScriptedStarter(0, RETRY)
    assert set(started_by(starter, order).begun) == {RETRY}


@pytest.mark.parametrize("held", [0, RETRY])
def test_nothing_begins_beneath_a_writer_that_runs_in_this_root(order, held):
    store_rows(order.root, 50, 0, RETRY)
    starter = ScriptedStarter(0, 2, RETRY)
    with Stream.open(order.root, TOPIC, shards=[held]):
        answer = started_by(starter, order)
    assert starter.begun == [2]
    assert {at: type(error) for at, error in answer.faults.items()} == {0: ShardLockedError}
    assert set(started_by(starter, order).begun) == {0, 2, RETRY}


def test_store_that_is_silent_is_nobody_s_fault_alone(order):
    with pytest.raises(UnavailableError):
        started_by(ScriptedStarter(failure=UnavailableError("no answer")), order)

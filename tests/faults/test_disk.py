"""Goal: a full disk, a failing fsync or a slow one costs time and a typed error, never a promise.

Method: one scenario (open, append, commit, batch, transaction, close) on a disk that fails at
each of many points. What the caller gets is typed; what failed stays refused until the stream is
opened again; then everything promised is there and the stream goes on. After a failed fsync
power goes too: what was adopted from memory that never reached the disk must not come to be
missed.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic

import pyarrow as pa
import pytest

from storage_core import ShardlogError, ShardPoisonedError, Stream, StreamOptions, StreamReader
from storage_core.engine.key_value import Batch
from storage_core.engine.rocksdb import open_store
from storage_core.engine.segments import APART_BYTES_MIN
from storage_core.format.keys import FAMILY_LOG
from tests.faults.lossy.mount import LossyMount
from tests.faults.support.scenario import STREAM, Scenario
from tests.faults.support.workload import SHARDS
from tests.thin import covering, thin
from tests.waiting import WAIT_MAX_S

pytestmark = pytest.mark.fuse

SYNCS = range(2, 110, 9)
DELAY_S = 1.0
BYTES = range(0, 430_000, 36_000)
ONE_ROW = pa.table({"primary": [1], "secondary": [1], "payload": [b""]})


@pytest.fixture
def scenario(disk: LossyMount) -> Scenario:
    return Scenario(disk)


# Of batches that are all small, and of such that are all large.
SIZES = [APART_BYTES_MIN, 1]


@covering(syncs=thin(SYNCS, 5), apart_bytes_min=SIZES)
def test_failing_sync_is_typed_and_loses_no_promise(
    disk: LossyMount, syncs: int, apart_bytes_min: int
) -> None:
    scenario = Scenario(disk, apart_bytes_min)
    scenario.disk.order(syncs_until_failure=syncs)
    with suppress(ShardlogError):
        scenario.run()
    scenario.disk.order(syncs_until_failure=None)
    scenario.expect_promises_kept()
    scenario.disk.cut_and_restore()
    scenario.expect_promises_kept()


@covering(left=thin(BYTES, 5), apart_bytes_min=SIZES)
def test_full_disk_is_typed_and_loses_no_promise(
    disk: LossyMount, left: int, apart_bytes_min: int
) -> None:
    scenario = Scenario(disk, apart_bytes_min)
    scenario.disk.order(bytes_left=left)
    with suppress(ShardlogError):
        scenario.run()
    scenario.disk.order(bytes_left=None)
    scenario.expect_promises_kept()


@pytest.mark.parametrize("syncs", range(9))
def test_transaction_that_met_a_failing_sync_can_be_repeated(disk: LossyMount, syncs: int) -> None:
    stream = Stream.create(disk.path / "root", STREAM, StreamOptions(shards=1))
    disk.order(syncs_until_failure=syncs)
    with suppress(ShardlogError), stream, stream.transaction("t", 1) as transaction:
        transaction.append_batch(ONE_ROW)
    disk.order(syncs_until_failure=None)
    with Stream.open(disk.path / "root", STREAM) as stream:
        with stream.transaction("t", 1) as transaction:
            transaction.append_batch(ONE_ROW)
        assert stream.read().num_rows == 1


def fail_syncs(disk: LossyMount) -> None:
    disk.order(syncs_until_failure=0)


def fill(disk: LossyMount) -> None:
    disk.order(bytes_left=0)


@pytest.mark.parametrize("spoil", [fail_syncs, fill])
def test_shard_refuses_everything_after_a_failed_write(scenario: Scenario, spoil) -> None:
    stream = Stream.open(scenario.root, STREAM)
    scenario.append(stream, 0, 50)
    scenario.commit(stream)
    spoil(scenario.disk)
    # The thread that writes index entries may meet the disk first.
    with suppress(ShardPoisonedError):
        scenario.append(stream, 0, 50)
    for call in (stream.commit, stream.commit, lambda: scenario.append(stream, 0, 200)):
        with pytest.raises(ShardPoisonedError):
            call()
    scenario.disk.restore_power()
    with pytest.raises(ShardPoisonedError):
        stream.commit()
    with suppress(ShardlogError):
        stream.close()
    scenario.expect_promises_kept()


@pytest.mark.parametrize("spoil", [fail_syncs, fill])
def test_creation_on_a_failing_disk_is_typed_and_can_be_repeated(disk: LossyMount, spoil) -> None:
    spoil(disk)
    with pytest.raises(ShardlogError):
        Stream.create(disk.path / "root", STREAM, StreamOptions(shards=1))
    disk.restore_power()
    with Stream.create(disk.path / "root", STREAM, StreamOptions(shards=1)) as stream:
        stream.append(1, 1, b"works")


def test_committed_does_not_move_while_a_sync_is_slow(scenario: Scenario) -> None:
    with (
        Stream.open(scenario.root, STREAM) as stream,
        StreamReader.open(scenario.root, STREAM) as reader,
    ):
        scenario.append(stream, 0, 50)
        with slow_commit(scenario, stream) as commit:
            assert stream.committed() == reader.refresh() == dict.fromkeys(range(SHARDS), 0)
            assert stream.read().num_rows == reader.read().num_rows == 0
            assert commit.is_alive()
        assert stream.committed() == reader.refresh()
        assert stream.read().num_rows == reader.read().num_rows == 50


def test_power_loss_during_a_slow_sync_breaks_no_promise(scenario: Scenario) -> None:
    stream = Stream.open(scenario.root, STREAM)
    scenario.append(stream, 0, 50)
    scenario.commit(stream)
    scenario.append(stream, 0, 50)
    with suppress(ShardlogError), slow_commit(scenario, stream):
        scenario.disk.cut_power()
    with suppress(ShardlogError):
        stream.close()
    scenario.disk.restore_power()
    scenario.expect_promises_kept()


def test_commit_takes_as_long_as_its_syncs(scenario: Scenario) -> None:
    with Stream.open(scenario.root, STREAM) as stream:
        scenario.append(stream, 0, 50)
        scenario.disk.order(sync_delay_s=DELAY_S)
        began_s = monotonic()
        scenario.commit(stream)
        assert monotonic() - began_s >= 2 * DELAY_S
        scenario.disk.order(sync_delay_s=0.0)
    scenario.expect_promises_kept()


@contextmanager
def slow_commit(scenario: Scenario, stream: Stream) -> Iterator[threading.Thread]:
    """Commit on a thread whose first sync waits until the block is left."""
    scenario.disk.order(hold_syncs=True)
    commit = threading.Thread(target=_commit_quietly, args=(stream,))
    commit.start()
    try:
        assert scenario.disk.wait_until("held")
        yield commit
    finally:
        scenario.disk.order(hold_syncs=False)
        commit.join(WAIT_MAX_S)
    assert not commit.is_alive()


def test_closing_a_store_keeps_no_other_thread_waiting_for_the_disk(disk: LossyMount) -> None:
    store, batch = open_store(disk.path / "db", "strict"), Batch()
    batch.put(b"key", b"value", FAMILY_LOG)
    store.write(batch)
    disk.order(hold_syncs=True)
    closing = threading.Thread(target=store.close)
    closing.start()
    try:
        assert disk.wait_until("held")
    finally:
        disk.order(hold_syncs=False)
        closing.join(WAIT_MAX_S)
    assert not closing.is_alive()


def _commit_quietly(stream: Stream) -> None:
    with suppress(ShardlogError):
        stream.commit()

"""Transactions that are given up: what has landed stays, the rest may come again and lands once."""

import shutil

import pytest

from storage_core import (
    CorruptionError,
    InvalidRequestError,
    ShardPoisonedError,
    TransactionId,
    UnavailableError,
)
from tests.log.disks import ReinedDisk
from tests.log.on_disk import directory_of, flip_bit, manifest_of
from tests.log.workbench import Workbench, batch_of, pass_numbers, publish

NUMBER = TransactionId("app", 1)


@pytest.fixture
def bench(make_bench, disk):
    return make_bench(shards=2, disk=disk)


@pytest.fixture
def landed_by_half(bench: Workbench, disk: ReinedDisk) -> Workbench:
    """The transaction landed in shard 0, and its rows for shard 1 are damaged."""
    disk.failing = {"write"}
    with pytest.raises(ShardPoisonedError):
        run_again(bench)
    disk.failing = set()
    bench.crash()
    bench.open(shards=[0])
    bench.close()
    # The rows of the last shard are the last ones in the file.
    flip_bit(next(bench.staging.rglob("*.arrow")), -100)
    with pytest.raises(CorruptionError, match="'t' is missing or damaged"):
        bench.open()
    return bench


def publish_number(bench: Workbench, transaction: TransactionId, primaries: list[int]) -> None:
    publish(bench, transaction, primaries, [primary % 2 for primary in primaries])


def run_again(bench: Workbench) -> bool:
    """Run the transaction as its caller does; return whether it was a replay."""
    with bench.stream.transaction("t", 4) as transaction:
        transaction.append_batch(batch_of(range(4), secondary=[0, 1, 0, 1]))
    return transaction.is_replay


def give_up_number_in_second_shard(bench: Workbench) -> None:
    """Let the number land in shard 0, and be given up in shard 1."""
    bench.close()
    publish_number(bench, NUMBER, [0, 1, 2, 3])
    bench.open(shards=[0])
    bench.close()
    shutil.rmtree(bench.staging)
    bench.open(give_up_transactions=[NUMBER.name])


@pytest.mark.usefixtures("landed_by_half")
@pytest.mark.parametrize("opened", [None, [1]])
def test_transaction_given_up_by_half_lands_where_it_is_missing_when_it_comes_again(bench, opened):
    bench.open(shards=opened, give_up_transactions=["t"])
    bench.reopen()
    assert sorted(bench.primaries()) == [0, 2]
    assert run_again(bench) is False
    assert sorted(bench.primaries()) == [0, 1, 2, 3]
    assert run_again(bench) is True
    assert sorted(bench.primaries()) == [0, 1, 2, 3]
    assert list(bench.staging.iterdir()) == []


@pytest.mark.usefixtures("landed_by_half")
def test_transaction_given_up_by_half_is_refused_with_other_rows(bench):
    bench.open(give_up_transactions=["t"])
    with (
        pytest.raises(InvalidRequestError, match=r"given up after 2 rows had landed.*shard 0"),
        bench.stream.transaction("t", 4) as transaction,
    ):
        transaction.append_batch(batch_of(range(4), secondary=0))
    assert sorted(bench.primaries()) == [0, 2]
    bench.reopen()
    assert run_again(bench) is False
    assert sorted(bench.primaries()) == [0, 1, 2, 3]


@pytest.mark.usefixtures("landed_by_half")
def test_transaction_given_up_by_half_whose_new_rows_were_swept_is_no_replay(bench):
    bench.open(give_up_transactions=["t"])
    transaction = bench.stream.transaction("t", 4)
    transaction.append_batch(batch_of(range(4), secondary=[0, 1, 0, 1]))
    # Of other columns, so that what stands before goes to the disk.
    transaction.append_batch(batch_of([], key=b"k"))
    shutil.rmtree(directory_of(bench.staging, "t"))
    with pytest.raises(UnavailableError, match="'t' were deleted before"), transaction:
        pass
    assert run_again(bench) is False
    assert sorted(bench.primaries()) == [0, 1, 2, 3]


@pytest.mark.usefixtures("landed_by_half")
def test_transaction_given_up_by_half_is_no_replay_though_all_staging_was_removed(bench):
    shutil.rmtree(bench.staging)
    bench.open(give_up_transactions=["t"])
    assert run_again(bench) is False
    assert sorted(bench.primaries()) == [0, 1, 2, 3]


@pytest.mark.usefixtures("landed_by_half")
def test_transaction_whose_manifest_is_damaged_is_given_up_by_the_name_it_is_told_by(bench):
    directory = directory_of(bench.staging, "t")
    flip_bit(manifest_of(bench.staging, "t"), 20)
    with pytest.raises(CorruptionError, match=f"give_up_transactions=.'{directory.name}'"):
        bench.open()
    bench.open(give_up_transactions=[directory.name])
    assert run_again(bench) is False
    assert sorted(bench.primaries()) == [0, 1, 2, 3]


def test_giving_up_what_has_landed_everywhere_leaves_it_a_replay(bench):
    run_again(bench)
    bench.reopen(give_up_transactions=["t"])
    assert not directory_of(bench.staging, "t").exists()
    assert run_again(bench) is True


def test_number_given_up_by_half_lands_once_though_others_ran_since(bench):
    give_up_number_in_second_shard(bench)
    for number in range(3):
        publish_number(bench, TransactionId("other", number), [10 + number, 20 + number])
        bench.stream.finish_transactions()
    publish_number(bench, NUMBER, [0, 1, 2, 3])
    bench.stream.finish_transactions()
    assert [primary for primary in sorted(bench.primaries()) if primary < 10] == [0, 1, 2, 3]


def test_number_given_up_keeps_no_others_and_goes_when_its_series_passes_it(bench):
    give_up_number_in_second_shard(bench)
    others = [pass_numbers(bench, series, secondary=0) for series in ("other", "another")]
    assert NUMBER.name in bench.remembered()
    assert not set(others[0]) & set(bench.remembered())
    for number in (2, 3):
        publish_number(bench, TransactionId("app", number), [30 + number * 2])
        bench.stream.finish_transactions()
    names = pass_numbers(bench, "last", secondary=0)
    assert bench.remembered() == names


def test_damaged_mark_of_one_series_stops_no_other(bench):
    publish_number(bench, NUMBER, [0])
    bench.stream.finish_transactions()
    flip_bit(next(bench.directory.glob("series/*/mark.json")), 20)
    publish_number(bench, TransactionId("other", 1), [2])
    bench.stream.finish_transactions()
    assert sorted(bench.remembered()) == [NUMBER.name, "staged:other/1"]


def test_damaged_mark_of_a_staged_number_is_told_with_a_way_on(bench):
    publish_number(bench, NUMBER, [0])
    bench.stream.finish_transactions()
    later = TransactionId(NUMBER.series, 2)
    publish_number(bench, later, [2])
    flip_bit(next(bench.directory.glob("series/*/mark.json")), 20)
    with pytest.raises(CorruptionError, match=rf"give_up_transactions=\['{later.name}'\]"):
        bench.stream.finish_transactions()
    bench.reopen(give_up_transactions=[later.name])
    assert sorted(bench.primaries()) == [0, 2]


def test_id_that_comes_again_with_other_rows_is_no_replay(bench):
    once = TransactionId("once")
    publish_number(bench, once, [0, 1])
    bench.stream.finish_transactions()
    publish_number(bench, once, [4, 5, 6])
    with pytest.raises(InvalidRequestError, match=r"'staged:once' has 1 rows here.*staged again"):
        bench.stream.finish_transactions()
    bench.reopen(give_up_transactions=[once.name])
    assert sorted(bench.primaries()) == [0, 1]

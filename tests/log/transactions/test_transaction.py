"""Transactions: all rows at once or none, once per id, finished by whoever opens the shards."""

import shutil
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import timedelta
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from storage_core import (
    ClosedError,
    CorruptionError,
    InvalidRequestError,
    ShardPoisonedError,
    UnavailableError,
)
from tests.log.disks import BesideThread, ReinedDisk
from tests.log.on_disk import flip_bit
from tests.log.workbench import Workbench, batch_of, each_a_write, rows_of
from tests.snapshots import bytes_of

SHORT = timedelta(milliseconds=20)


def transact(
    bench: Workbench, name: str, primaries: list[int], secondary: int = 1, payload: bytes = b""
) -> None:
    """Append single records in a transaction."""
    with bench.stream.transaction(name, len(primaries)) as transaction:
        for primary in primaries:
            transaction.append(primary, secondary, payload)


def transact_in_parts(bench: Workbench, total: int, *parts: object, name: str = "t") -> None:
    """Append batches in a transaction; a part that is an error is raised."""
    with bench.stream.transaction(name, total) as transaction:
        for part in parts:
            if isinstance(part, Exception):
                raise part
            transaction.append_batch(part)  # type: ignore[arg-type]  # a test may hand over anything


def staged_files(bench: Workbench) -> list[str]:
    return sorted(path.name for path in bench.staging.rglob("*")) if bench.staging.exists() else []


# --- all or nothing ---------------------------------------------------------------------------


def test_rows_of_a_large_transaction_are_written_once_beside_rocksdb(bench):
    rows = 3_000
    payloads = np.random.default_rng(0).bytes(rows * 1_000)
    apart = [payloads[at : at + 1_000] for at in range(0, len(payloads), 1_000)]
    transact_in_parts(bench, rows, batch_of(range(rows), payload=apart))
    in_segments = bytes_of(bench.database.glob("segments/*"))
    assert in_segments > 0.6 * len(payloads)
    assert bench.primaries() == list(range(rows))


def test_nothing_is_visible_inside_the_block(bench):
    with bench.stream.transaction("t", 2) as transaction:
        transaction.append(1, 1, b"")
        transaction.append_batch(batch_of([2]))
        bench.commit()
        assert bench.primaries() == []


def test_exception_in_the_block_leaves_nothing(bench):
    with pytest.raises(KeyError):
        transact_in_parts(bench, 1, batch_of([1]), KeyError())
    assert (bench.commit(), staged_files(bench)) == ({0: 0}, [])
    transact(bench, "t", [7])
    assert bench.primaries() == [7]


@pytest.mark.parametrize("staged", [0, 1, 3])
def test_wrong_total_is_refused_and_leaves_nothing(bench, staged):
    with pytest.raises(InvalidRequestError, match=f"staged {staged} rows of 2"):
        transact_in_parts(bench, 2, batch_of(range(staged)))
    assert (bench.commit(), staged_files(bench)) == ({0: 0}, [])


def test_refused_record_fails_the_whole_transaction(bench):
    with pytest.raises(InvalidRequestError):
        transact(bench, "t", [1, 2**63])
    assert (bench.commit(), staged_files(bench)) == ({0: 0}, [])


def test_batches_of_a_transaction_may_have_other_columns_each(make_bench):
    bench = make_bench(shards=2)
    with bench.stream.transaction("t", 5) as transaction:
        transaction.append_batch(batch_of([8, 7], secondary=[0, 1], key=b"k"))
        transaction.append(5, 0, b"")
        transaction.append_batch(batch_of([6, 4], secondary=[0, 1], key=b"l"))
    batches = bench.stream.scan(columns=("shard", "primary", "key"))
    expected = [(0, 8, b"k"), (0, 5, None), (0, 6, b"l"), (1, 7, b"k"), (1, 4, b"l")]
    assert [tuple(row.values()) for row in rows_of(batches)] == expected


def test_batch_refused_for_one_shard_changes_nothing_in_the_others(make_bench):
    bench = make_bench(shards=2)
    bench.reopen(shards=[0])
    with bench.stream.transaction("t", 3) as transaction:
        transaction.append(1, 0, b"")
        with pytest.raises(InvalidRequestError, match="shard 1 is not open"):
            transaction.append_batch(batch_of([2, 2], secondary=[0, 1]))
        transaction.append_batch(batch_of([3, 4], secondary=0))
    assert bench.primaries() == [1, 3, 4]


def test_batch_is_stored_as_it_was_when_it_was_appended(bench):
    primaries = np.array([1, 2], np.int64)
    with bench.stream.transaction("t", 4) as transaction:
        for _ in range(2):
            columns = {"secondary": pa.array([1, 1], pa.int32()), "payload": [b"x", b"x"]}
            transaction.append_batch(pa.record_batch({"primary": pa.array(primaries), **columns}))
            primaries += 10
    assert bench.arrivals() == [1, 2, 11, 12]


@pytest.mark.parametrize("how", ["append", "append_batch", "transact one by one", "transact"])
def test_block_of_a_shard_is_that_of_its_rows_alone(make_bench, how):
    payload = [b"a" * 8, b"of the other shard" * 3, b"b", b"of the other shard" * 3]
    batch = batch_of(range(4), secondary=[0, 1, 0, 1], payload=payload)
    alone, mixed = make_bench(), make_bench(shards=2)
    alone.append([0, 2], secondary=0, payload=payload[::2])
    if how == "append":
        for number in range(4):
            mixed.stream.append(number, number % 2, payload[number])
    elif how == "append_batch":
        mixed.stream.append_batch(batch)
    elif how == "transact":
        transact_in_parts(mixed, 4, batch)
    else:
        with mixed.stream.transaction("t", 4) as transaction:
            for number in range(4):
                transaction.append(number, number % 2, payload[number])
    for bench in (alone, mixed):
        bench.commit()
        bench.close()
    assert mixed.rows_on_disk(0) == alone.rows_on_disk(0)


@pytest.mark.parametrize("secondary", [np.int64(1), np.int32(1), True])
def test_any_integer_is_routed_as_append_routes_it(make_bench, secondary):
    bench = make_bench(shards=2)
    with bench.stream.transaction("t", 1) as transaction:
        transaction.append(1, secondary, b"")
    assert bench.stream.committed() == {0: 0, 1: 1}


@pytest.mark.parametrize("secondary", ["1", None, 1.0])
def test_secondary_that_is_no_integer_is_refused(bench, secondary):
    with pytest.raises(InvalidRequestError, match="secondary"):
        transact(bench, "t", [1], secondary)


def test_row_of_a_shard_that_is_not_open_is_refused(make_bench):
    bench = make_bench(shards=2)
    bench.reopen(shards=[0])
    with pytest.raises(InvalidRequestError, match="shard 1 is not open"):
        transact(bench, "t", [1], secondary=1)
    assert staged_files(bench) == []


def test_transaction_without_rows_is_remembered(bench):
    transact(bench, "t", [])
    with pytest.raises(InvalidRequestError, match="made with 0 rows, not 1"):
        bench.stream.transaction("t", 1)


def test_transaction_that_was_left_takes_no_more(bench):
    with bench.stream.transaction("t", 1) as transaction:
        transaction.append(1, 1, b"")
    with pytest.raises(ClosedError, match="'t' has ended"):
        transaction.append(2, 1, b"")
    with pytest.raises(ClosedError):
        transaction.append_batch(batch_of([2]))


# --- once per id ------------------------------------------------------------------------------


@pytest.mark.parametrize("between", [lambda _: None, Workbench.reopen], ids=["at once", "reopened"])
def test_replay_is_a_no_op(bench, between):
    transact(bench, "t", [1, 2])
    between(bench)
    assert bench.stream.transaction("t", 2).is_replay
    transact(bench, "t", [8, 9])
    assert bench.primaries() == [1, 2]


@pytest.mark.parametrize("total", [0, 1, 3, -1])
def test_id_used_again_with_another_total_is_refused(bench, total):
    transact(bench, "t", [1, 2])
    with pytest.raises(InvalidRequestError, match=f"made with 2 rows, not {total}"):
        bench.stream.transaction("t", total)


def test_replay_is_known_where_only_some_shards_are_open(make_bench):
    bench = make_bench(shards=2)
    with bench.stream.transaction("t", 2) as transaction:
        transaction.append_batch(batch_of([1, 2], secondary=[0, 1]))
    bench.reopen(shards=[1])
    assert bench.stream.transaction("t", 2).is_replay


def test_other_ids_are_other_transactions(bench):
    for name in ("t", "T", "t ", "t/u", "ü"):
        transact(bench, name, [1])
    assert bench.primaries() == [1] * 5


def test_attempt_that_finds_another_of_its_id_with_another_total_is_refused(bench):
    second = bench.stream.transaction("t", 2)
    second.append_batch(batch_of([2, 3]))
    with bench.stream.transaction("t", 1) as first:
        first.append_batch(batch_of([1]))
    with pytest.raises(InvalidRequestError, match="made with 1 rows, not 2"):
        second.__exit__(None, None, None)
    assert (bench.primaries(), staged_files(bench)) == ([1], [])


def test_rows_cleared_away_before_they_were_published_are_told(bench):
    transaction = bench.stream.transaction("t", 1)
    transaction.append_batch(batch_of([1]))
    # Of other columns, so that what stands before goes to the disk.
    transaction.append_batch(batch_of([], key=b"k"))
    shutil.rmtree(bench.staging)
    with pytest.raises(UnavailableError, match="deleted before they were published"):
        transaction.__exit__(None, None, None)
    transact(bench, "t", [1])
    assert bench.primaries() == [1]


def beside_each_other(*calls: Callable[[int], object], rounds: int) -> None:
    """Make calls on threads of their own, each so many times."""
    with ExitStack() as threads:
        for call in calls:
            threads.enter_context(BesideThread(partial(list, map(call, range(rounds)))))


def transact_in_two_shards(bench: Workbench, name: str) -> None:
    parts = [batch_of([1, 2], secondary=[0, 1])] * 4
    transact_in_parts(bench, 8, *parts, name=name)


def test_transactions_of_many_threads_land_once_while_others_finish_them(make_bench):
    bench = make_bench(shards=2, block_records=1)
    beside_each_other(
        lambda n: transact_in_two_shards(bench, f"a-{n}"),
        lambda n: transact_in_two_shards(bench, f"b-{n}"),
        lambda _: bench.stream.finish_transactions(),
        lambda _: bench.stream.finish_transactions(),
        rounds=15,
    )
    assert len(bench.primaries()) == 2 * 15 * 8
    assert staged_files(bench) == []


def test_attempts_that_are_left_by_an_error_disturb_no_others_of_their_id(bench):
    def leave_by_an_error(_: int) -> None:
        with suppress(ZeroDivisionError):
            transact_in_parts(bench, 1, batch_of([1]), ZeroDivisionError())

    beside_each_other(*[leave_by_an_error] * 3, rounds=60)
    assert staged_files(bench) == []


# --- finished by whoever opens ----------------------------------------------------------------


def test_one_transaction_of_many_threads_lands_once(make_bench):
    bench = make_bench(shards=2)

    def transact_the_same(number: int) -> None:
        transact_in_two_shards(bench, f"t-{number}")

    beside_each_other(*[transact_the_same] * 3, rounds=15)
    assert len(bench.primaries()) == 15 * 8
    assert staged_files(bench) == []


def cut_short(bench: Workbench, disk: ReinedDisk, call: str) -> None:
    """Let a transaction of six rows fail at its first write or at its sync; the process is gone."""
    bench.keep([1])
    disk.failing = {call}
    with pytest.raises(ShardPoisonedError):
        # Of large rows few are read at once, and each time it is a write of its own.
        transact(bench, "t", [10, 11, 12, 13, 14, 15], payload=bytes(2**20 // 3))
    disk.failing = set()
    bench.crash()


@pytest.fixture
def small_blocks(make_bench, disk):
    return make_bench(disk=disk, block_records=2)


@pytest.mark.parametrize("call", ["write", "sync", "third write"])
def test_opener_finishes_what_was_cut_short(small_blocks, disk, call):
    cut_short(small_blocks, disk, call)
    small_blocks.open()
    assert small_blocks.primaries() == [1, 10, 11, 12, 13, 14, 15]
    assert staged_files(small_blocks) == []
    transact(small_blocks, "t", [10, 11, 12, 13, 14, 15])
    assert small_blocks.stream.stats().records == 7


def test_shards_of_a_transaction_never_wait_for_each_other(make_bench, disk):
    bench = make_bench(disk=disk, shards=4)
    before_s = disk.clock.monotonic_s()
    for number in range(20):
        with bench.stream.transaction(str(number), 4) as transaction:
            transaction.append_batch(batch_of(range(4), secondary=[0, 1, 2, 3]))
    assert disk.clock.monotonic_s() == before_s


def test_heads_below_a_transaction_of_many_blocks_survive_its_end_and_a_reopen(make_bench, disk):
    bench = make_bench(disk=disk, block_records=1)
    for secondary in range(5):
        bench.keep([1000], secondary=[secondary])
    disk.failing = {"third write"}
    parts = (batch_of([2000] * count, secondary=[500] * count) for count in (26, 40, 5))
    with pytest.raises(ShardPoisonedError):
        transact_in_parts(bench, 71, *each_a_write(parts))
    disk.failing = set()
    bench.crash()
    bench.open()
    bench.reopen()
    assert bench.stream.verify().is_clean
    assert len(bench.stream.latest(range(5))) == 5


@pytest.mark.parametrize("call", ["write", "sync", "third write"])
def test_reader_sees_none_of_what_was_cut_short(small_blocks, disk, call):
    cut_short(small_blocks, disk, call)
    with small_blocks.read_beside() as reader:
        assert reader.read()["primary"].to_pylist() == [1]
        assert reader.latest()[1].primary == 1


def test_staged_rows_that_are_gone_stop_the_open_until_given_up(small_blocks, disk):
    cut_short(small_blocks, disk, "third write")
    shutil.rmtree(small_blocks.staging)
    with pytest.raises(CorruptionError, match=r"'t' is unfinished.*give_up_transactions"):
        small_blocks.open()
    small_blocks.open(give_up_transactions=["t"])
    assert small_blocks.primaries() == [1]
    assert small_blocks.stream.stats().records == 1
    assert small_blocks.stream.verify().is_clean


def test_transaction_of_which_a_shard_has_a_part_is_no_replay_once_its_staging_is_gone(
    small_blocks, disk
):
    disk.failing = {"third write"}
    primaries = [*range(6)]
    with pytest.raises(ShardPoisonedError):
        transact(small_blocks, "t", primaries, payload=bytes(2**20 // 3))
    disk.failing = set()
    shutil.rmtree(small_blocks.staging)
    assert not small_blocks.stream.transaction("t", 6).is_replay


def test_damaged_staged_file_stops_the_open_until_given_up(small_blocks, disk):
    cut_short(small_blocks, disk, "write")
    flip_bit(next(small_blocks.staging.rglob("*.arrow")), 50)
    with pytest.raises(CorruptionError, match=r"'t' is missing or damaged.*shard 0"):
        small_blocks.open()
    small_blocks.open(give_up_transactions=["t"])
    assert small_blocks.primaries() == [1]
    assert staged_files(small_blocks) == []


def test_id_that_was_given_up_can_be_used_anew(small_blocks, disk):
    cut_short(small_blocks, disk, "third write")
    small_blocks.open(give_up_transactions=["t"])
    transact(small_blocks, "t", [20])
    small_blocks.keep([5])
    assert small_blocks.arrivals() == [1, 20, 5]
    assert small_blocks.primaries() == [1, 5, 20]
    assert small_blocks.stream.verify().is_clean


def test_late_rows_of_a_transaction_go_when_it_is_given_up(small_blocks, disk):
    small_blocks.append([100])
    cut_short(small_blocks, disk, "third write")
    small_blocks.open(give_up_transactions=["t"])
    assert small_blocks.primaries() == [1, 100]
    assert small_blocks.stream.stats().late_arrivals == 1
    assert small_blocks.stream.verify().is_clean


def test_giving_up_what_is_unknown_changes_nothing(bench):
    bench.append([1])
    bench.reopen(give_up_transactions=["t", "u"])
    assert bench.primaries() == [1]


def test_open_of_some_shards_finishes_its_part_only(make_bench, disk):
    bench = make_bench(disk=disk, shards=2)
    disk.failing = {"write"}
    with pytest.raises(ShardPoisonedError):
        transact_in_parts(bench, 2, batch_of([1, 2], secondary=[0, 1]))
    disk.failing = set()
    bench.crash()
    bench.open(shards=[1])
    assert (bench.primaries(), bench.stream.committed()) == ([2], {1: 1})
    bench.close()
    bench.open(shards=[0])
    assert bench.primaries() == [1]
    assert staged_files(bench) == []


def test_transaction_waits_for_the_shard_no_longer_than_allowed(make_bench):
    bench = make_bench(wait_max=SHORT)
    with bench.held_by_another_thread(), pytest.raises(UnavailableError):
        transact(bench, "t", [1])
    transact(bench, "t", [1])
    assert bench.primaries() == [1]

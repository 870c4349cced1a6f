"""What a shard remembers of transactions: each id by its key, the last so many, none for free."""

from dataclasses import replace

import pytest

from storage_core import (
    InvalidRequestError,
    StagingArea,
    StreamOptions,
    TransactionId,
    UnavailableError,
)
from storage_core.format.record import rows_from_arrow
from storage_core.format.shard_state import STATE_RANGE, TransactionProgress
from storage_core.testing import ManualClock
from storage_core.transactions.finish import _write, append, finish
from storage_core.transactions.manifest import remove_transaction, staged_transactions
from storage_core.write.ledger import StagedTransaction
from tests.log.workbench import Workbench, batch_of


def transact(bench: Workbench, *names: str, secondary: int = 1) -> None:
    for name in names:
        with bench.stream.transaction(name, 1) as transaction:
            transaction.append(int(name), secondary, b"")


def is_known(bench: Workbench, name: str) -> bool:
    return bench.stream.transaction(name, 1).is_replay


def read_at_each_refresh(bench: Workbench) -> int:
    """Return how many entries opening a shard, and each refresh of a reader, reads."""
    view = bench.shard.view()
    entries = list(view.meta_items(*STATE_RANGE))
    view.close()
    return len(entries)


def publish(bench: Workbench, transaction: TransactionId, secondaries: list[int]) -> None:
    area = StagingArea.open(bench.root, bench.name)
    writer = area.writer(transaction)
    writer.write(batch_of([1] * len(secondaries), secondary=secondaries))
    area.publish(transaction, writer.finish())


def test_refresh_and_open_read_no_more_however_many_transactions_there_were(bench):
    transact(bench, "1")
    before = read_at_each_refresh(bench)
    transact(bench, *map(str, range(2, 20)))
    assert read_at_each_refresh(bench) == before
    bench.reopen()
    assert read_at_each_refresh(bench) == before
    assert all(is_known(bench, str(number)) for number in range(1, 20))


def test_shard_remembers_the_last_transactions_it_is_told_to_keep(make_bench):
    bench = make_bench(transactions_kept=3)
    transact(bench, "1", "2", "3", "4", "5")
    bench.reopen()
    assert bench.remembered() == ["3", "4", "5"]
    assert [is_known(bench, name) for name in "12345"] == [False, False, True, True, True]


def test_forgotten_transaction_lands_again_and_is_the_newest_then(make_bench):
    bench = make_bench(transactions_kept=2)
    transact(bench, "1", "2", "3", "1")
    assert (bench.arrivals(), bench.remembered()) == ([1, 2, 3, 1], ["3", "1"])


def test_replay_is_given_no_new_place(make_bench):
    bench = make_bench(transactions_kept=2)
    transact(bench, "1", "2", "1", "2", "1")
    assert (bench.arrivals(), bench.remembered()) == ([1, 2], ["1", "2"])


def test_keeping_fewer_forgets_a_few_with_each_transaction(make_bench):
    bench = make_bench(transactions_kept=12)
    transact(bench, *map(str, range(12)))
    bench.stream.alter(transactions_kept=1)
    transact(bench, "12")
    assert bench.remembered() == ["8", "9", "10", "11", "12"]
    transact(bench, "13")
    assert bench.remembered() == ["13"]


def test_transaction_that_another_shard_still_waits_for_is_not_forgotten(make_bench):
    bench = make_bench(shards=2, transactions_kept=1)
    bench.close()
    waiting = TransactionId("waiting")
    publish(bench, waiting, [0, 1])
    bench.open(shards=[0])
    transact(bench, "2", "3", secondary=0)
    assert bench.remembered() == [waiting.name, "2", "3"]
    bench.reopen()
    assert sorted(bench.primaries()) == [1, 1, 2, 3]
    transact(bench, "4", secondary=0)
    assert bench.remembered() == ["4"]


def test_numbered_transactions_push_no_other_out(make_bench):
    bench = make_bench(transactions_kept=1)
    transact(bench, "1")
    for number in range(3):
        publish(bench, TransactionId("app", number), [1])
        bench.stream.finish_transactions()
    assert bench.remembered() == ["1", "staged:app/2"]


def test_finisher_that_comes_late_adds_nothing_once_the_number_is_forgotten(bench):
    publish(bench, TransactionId("app", 1), [1])
    (manifest,) = staged_transactions(bench.staging)
    bench.stream.finish_transactions()
    publish(bench, TransactionId("app", 2), [1])
    bench.stream.finish_transactions()
    finish(manifest, {0: bench.shard}, ManualClock())
    assert (bench.stream.stats().records, bench.remembered()) == (2, ["staged:app/2"])


def test_finisher_of_rows_that_somebody_removed_is_told(bench):
    publish(bench, TransactionId("once"), [1])
    (manifest,) = staged_transactions(bench.staging)
    remove_transaction(manifest.directory)
    with pytest.raises(UnavailableError, match="'staged:once' were removed"):
        finish(manifest, {0: bench.shard}, ManualClock())


def test_replay_makes_durable_what_was_done_without_it(bench):
    planned = TransactionProgress(0, 1, 1, 0)
    staged = StagedTransaction("t", planned, is_numbered=False)
    rows = rows_from_arrow(batch_of([5]), 100)
    with bench.shard.guard.appending():
        # As a transaction is left that is interrupted between its last row and the sync.
        _write(bench.shard, staged, rows, replace(planned, rows_done=1))
    assert bench.stream.committed() == {0: 0}
    append(bench.shard, staged, iter([rows]))
    assert (bench.stream.committed(), bench.primaries()) == ({0: 1}, [5])


def test_ids_of_a_transaction_that_was_written_and_never_committed_go_with_its_rows(bench):
    transact(bench, "1")
    bench.append([2])
    bench.commit()
    transact(bench, "3")
    bench.crash()
    bench.cut_log(bench.write_ahead_log().stat().st_size // 8)
    bench.open()
    assert bench.remembered() == ["1"] * is_known(bench, "1") + ["3"] * is_known(bench, "3")


@pytest.mark.parametrize("kept", [0, -1, 10**9 + 1, "5", None, True])
def test_number_of_ids_kept_is_a_bounded_integer(kept):
    with pytest.raises(InvalidRequestError, match="transactions_kept"):
        StreamOptions(transactions_kept=kept)

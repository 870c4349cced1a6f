"""What a shard remembers of transactions: each id by its key, the last so many, none for free."""

import pytest

from storage_core import (
    InvalidRequestError,
    StreamOptions,
    TransactionId,
)
from tests.log.workbench import Workbench, pass_numbers, publish, transact


def is_known(bench: Workbench, name: str) -> bool:
    return bench.stream.transaction(name, 1).is_replay


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
    publish(bench, waiting, [1, 1], [0, 1])
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
    names = pass_numbers(bench, "app")
    assert bench.remembered() == ["1", *names]
    names = pass_numbers(bench, "other")
    assert bench.remembered() == ["1", *names]


def test_ids_of_a_transaction_that_was_written_and_never_committed_go_with_its_rows(bench):
    transact(bench, "1")
    bench.keep([2])
    transact(bench, "3")
    bench.crash()
    bench.cut_log(bench.write_ahead_log().stat().st_size // 8)
    bench.open()
    assert bench.remembered() == ["1"] * is_known(bench, "1") + ["3"] * is_known(bench, "3")


@pytest.mark.parametrize("count", [0, -1, 10**9 + 1, "5", None, True])
def test_number_of_ids_kept_is_a_bounded_integer(count):
    with pytest.raises(InvalidRequestError, match="transactions_kept"):
        StreamOptions(transactions_kept=count)

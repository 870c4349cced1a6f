"""A transaction's rows at each call of the disk: what others see, and what stands before them."""

import shutil

import pytest

from storage_core import ShardPoisonedError
from tests.log.on_disk import flip_bit, newest, newest_slot_at
from tests.log.workbench import Workbench, batch_of, each_a_write


@pytest.fixture
def bench(make_bench, hooked):
    return make_bench(unit="sequence", environment=hooked.environment)


def transact(bench: Workbench, name: str, *batches: list[int]) -> None:
    """Append batches in a transaction, each of them a write of its own."""
    with bench.stream.transaction(name, sum(len(batch) for batch in batches)) as transaction:
        for batch in each_a_write(map(batch_of, batches)):
            transaction.append_batch(batch)


@pytest.mark.parametrize("writes", range(3))
def test_commit_in_the_middle_of_a_transaction_shows_none_of_it(bench, hooked, writes):
    """Whoever syncs meanwhile makes its rows durable, and publishes nothing."""
    bench.keep([1])
    seen = []

    def commit_now(passed: int = 0) -> None:
        if passed < writes:
            hooked.on("after write", lambda: commit_now(passed + 1))
            return
        bench.shard.commit_path.run(None, durable=True)
        with bench.read_beside() as reader:
            seen.append((bench.stream.committed(), bench.primaries(), reader.committed()))

    hooked.on("after write", commit_now)
    transact(bench, "t", [2], [3], [4])
    assert seen == [({0: 1}, [1], {0: 1})]
    assert bench.primaries() == [1, 2, 3, 4]


def test_rows_before_a_transaction_are_committed_before_its_first_write(bench, hooked):
    bench.append([1])
    bench.stream.append(2, 1, b"")
    seen = []
    # The record that waits in the builder is written first.
    hooked.on("after sync", lambda: hooked.on("before write", look))

    def look() -> None:
        seen.append(bench.stream.committed())

    transact(bench, "t", [3], [4])
    assert seen == [{0: 2}]


def test_transaction_given_up_takes_nothing_with_it_of_what_stood_before(bench, hooked):
    """All above the marker goes with it; a source above it would speak of rows that are gone."""
    bench.append([1], source={"next": 1})
    hooked.on("after sync", lambda: hooked.fail("write", 1))
    with pytest.raises(ShardPoisonedError):
        transact(bench, "t", [2], [3])
    bench.crash()
    for manifest in bench.staging.rglob("*.arrow"):
        manifest.unlink()
    bench.open(give_up_transactions=["t"])
    assert (bench.primaries(), bench.stream.source(0)) == ([1], {"next": 1})


@pytest.mark.parametrize("gives_up", [True, False])
def test_rows_before_a_transaction_are_known_to_be_committed_by_an_older_slot_too(
    bench, hooked, gives_up
):
    bench.keep([1])
    bench.keep([2])
    hooked.fail("write", 1)
    with pytest.raises(ShardPoisonedError):
        transact(bench, "t", [3], [4])
    bench.crash()
    # The slot that is left says what was committed one commit before.
    flip_bit(bench.marker, newest_slot_at(bench.marker) + 20)
    if gives_up:
        shutil.rmtree(bench.staging)
        bench.open(give_up_transactions=["t"])
        assert bench.primaries() == [1, 2]
    else:
        seen = []
        hooked.on("after write_both", lambda: hooked.on("after write_both", look))

        def look() -> None:
            seen.append(newest(bench.marker).committed)

        bench.open()
        assert seen == [2]
        assert bench.primaries() == [1, 2, 3, 4]


def test_transaction_that_was_begun_is_finished_before_others_that_were_published(bench, hooked):
    hooked.on("before write", lambda: hooked.fail("write"))
    with pytest.raises(ShardPoisonedError):
        transact(bench, "b", [1], [2])
    for later in ("a", "c"):
        with pytest.raises(ShardPoisonedError):
            transact(bench, later, [3])
    bench.crash()
    bench.open()
    assert bench.arrivals() == [1, 2, 3, 3]

"""A batch over several shards: all of its rows or none, whatever stands in one shard's way."""

from datetime import timedelta

import pytest

from storage_core import ShardPoisonedError, UnavailableError
from tests.log.workbench import column_of

ROWS = {"primary": [1, 2, 3, 4], "secondary": [0, 1, 2, 3]}


@pytest.fixture
def bench(make_bench, hooked):
    wait = timedelta(seconds=0.02)
    return make_bench(shards=4, unit="sequence", wait_max=wait, environment=hooked.environment)


@pytest.mark.parametrize("held", [0, 2, 3])
def test_wait_for_one_shard_that_runs_out_leaves_all_unchanged(bench, held):
    with (
        bench.held_by_another_thread(held),
        pytest.raises(UnavailableError, match=f"shard {held}") as error,
    ):
        bench.append(**ROWS)
    assert error.value.retriable
    assert bench.append(**ROWS).appended == 4
    bench.commit()
    assert sorted(bench.primaries()) == [1, 2, 3, 4]


def test_no_shard_stays_held_by_a_batch_that_was_refused(bench):
    with bench.held_by_another_thread(3), pytest.raises(UnavailableError):
        bench.append(**ROWS)
    for number in range(4):
        with bench.held_by_another_thread(number):
            pass


@pytest.mark.parametrize("passes", range(4))
def test_shard_whose_heads_cannot_be_read_leaves_all_unchanged(bench, hooked, passes):
    hooked.fail("get_many", passes)
    with pytest.raises(UnavailableError, match="no space left"):
        bench.append(**ROWS)
    assert bench.stream.stats().records == 0
    assert bench.append(**ROWS).appended == 4


def test_disk_that_fails_in_the_middle_is_told_with_the_shards_that_have_their_rows(bench, hooked):
    hooked.fail("write", 2)
    message = (
        r"rows of this batch are in shards \[0, 1\], may be in shard 2, are not in shards \[3\]"
    )
    with pytest.raises(ShardPoisonedError, match=message) as failed:
        bench.append(**ROWS)
    assert (failed.value.retriable, failed.value.shard) == (False, 2)
    bench.release()
    bench.open()
    assert sorted(bench.primaries()) == [1, 2]


def interrupt() -> None:
    raise KeyboardInterrupt


def test_interruption_in_the_middle_is_raised_once_all_shards_have_their_rows(bench, hooked):
    hooked.on("before write", lambda: hooked.on("before write", interrupt))
    with pytest.raises(KeyboardInterrupt):
        bench.append(**ROWS)
    bench.commit()
    assert sorted(bench.primaries()) == sorted(ROWS["primary"])


def test_disk_that_fails_behind_an_interruption_is_told_beside_it(bench, hooked):
    def interrupt_and_fail() -> None:
        hooked.fail("write", 1)
        interrupt()

    hooked.on("before write", lambda: hooked.on("before write", interrupt_and_fail))
    with pytest.raises(KeyboardInterrupt) as error:
        bench.append(**ROWS)
    assert "are in shards [0], may be in shard 1" in error.value.__notes__[0]
    with pytest.raises(ShardPoisonedError):
        bench.append(**ROWS)


def test_batch_stands_behind_the_records_added_before_it(bench):
    for secondary in range(4):
        bench.stream.append(10 + secondary, secondary, b"")
    bench.keep([20, 21, 22, 23], secondary=[0, 1, 2, 3])
    shards = [column_of(bench.stream.tail(number), "primary") for number in range(4)]
    assert shards == [[10, 20], [11, 21], [12, 22], [13, 23]]


def test_batch_at_sync_level_interval_is_committed_once_the_interval_has_passed(make_bench, hooked):
    bench = make_bench(
        shards=2,
        unit="sequence",
        sync="interval",
        sync_interval=timedelta(seconds=1),
        environment=hooked.environment,
    )
    bench.append([1, 2], secondary=[0, 1])
    hooked.clock.advance(2)
    bench.append([3, 4], secondary=[0, 1])
    assert bench.stream.committed() == {0: 2, 1: 2}

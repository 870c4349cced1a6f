"""The guard of a shard: who waits for whom, for how long, and what a failed write does to all.

Sync levels and group commit are here too, since they are about callers beside each other.
"""

import threading
from contextlib import suppress
from datetime import timedelta

import pytest

from storage_core import (
    ClosedError,
    DirectoryLock,
    Environment,
    ShardlogError,
    ShardPoisonedError,
    UnavailableError,
)
from storage_core.testing import ManualClock
from tests.log.disks import STALL_MAX_S, BesideThread, ReinedDisk
from tests.log.workbench import Workbench

SHORT = timedelta(milliseconds=20)


@pytest.fixture
def reined(make_bench, disk):
    """A workbench whose disk the test holds by the reins; waits are short."""
    return make_bench(disk=disk, wait_max=SHORT)


# --- sync levels ------------------------------------------------------------------------------


def test_level_commit_syncs_at_each_commit(reined, disk):
    disk.reset()
    for primary in range(3):
        reined.keep([primary])
    assert disk.syncs == 3


def test_level_interval_commits_by_itself_once_it_is_due(make_bench, disk):
    bench = make_bench(disk=disk, sync="interval", sync_interval=timedelta(seconds=5))
    bench.append([1])
    assert bench.stream.committed() == {0: 0}
    disk.clock.advance(5)
    bench.append([2])
    assert bench.primaries() == [1, 2]


def test_level_interval_makes_commit_wait_for_the_interval(make_bench, disk):
    bench = make_bench(disk=disk, sync="interval", sync_interval=timedelta(seconds=5))
    bench.append([1])
    before = disk.clock.monotonic_s()
    assert bench.commit() == {0: 1}
    assert disk.clock.monotonic_s() - before == pytest.approx(5)


def test_level_interval_makes_nobody_wait_who_holds_the_shard(make_bench, disk):
    bench = make_bench(disk=disk, sync="interval", sync_interval=timedelta(seconds=5))
    bench.append([1])
    before = disk.clock.monotonic_s()
    transact(bench)
    bench.append([2])
    bench.close()
    assert disk.clock.monotonic_s() == before


class GatedClock:
    """A clock on which a sleeper sleeps until the test wakes it."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.is_asleep, self.wake = threading.Event(), threading.Event()
        self.now_ns, self.monotonic_s = clock.now_ns, clock.monotonic_s

    def sleep(self, seconds: float) -> None:
        self.is_asleep.set()
        assert self.wake.wait(STALL_MAX_S)
        self._clock.sleep(seconds)


def test_level_interval_makes_commit_wait_without_a_lock(make_bench, disk):
    clock = GatedClock(disk.clock)
    bench = make_bench(environment=Environment(clock), sync="interval", wait_max=SHORT)
    bench.append([1])
    with BesideThread(bench.commit):
        assert clock.is_asleep.wait(STALL_MAX_S)
        bench.stream.skip(0, 10)
        clock.wake.set()
    assert bench.commit() == {0: 10}


def test_level_interval_takes_a_row_once_though_another_call_is_syncing(make_bench, disk):
    bench = make_bench(disk=disk, sync="interval", wait_max=SHORT)
    bench.append([1])
    disk.stall()
    with BesideThread(bench.commit):
        disk.stalled.wait()
        disk.clock.advance(60)
        bench.append([2])
        disk.go_on()
    bench.commit()
    assert bench.primaries() == [1, 2]


# --- several callers --------------------------------------------------------------------------


def test_append_waits_for_no_sync_and_its_rows_are_not_published_by_it(reined, disk):
    reined.append([1])
    disk.stall()
    with BesideThread(reined.commit):
        disk.stalled.wait()
        reined.append([2])
        disk.go_on()
    assert reined.primaries() == [1]
    assert reined.commit() == {0: 2}


def test_one_sync_serves_all_that_wait(make_bench, disk):
    bench = make_bench(disk=disk)
    bench.append([1])
    disk.stall()
    disk.reset()
    with BesideThread(bench.commit):
        disk.stalled.wait()
        bench.append([2])
        with BesideThread(bench.commit), BesideThread(bench.commit), BesideThread(bench.commit):
            disk.go_on()
    assert (disk.syncs, bench.primaries()) == (2, [1, 2])


def test_wait_for_another_commit_is_bounded(reined, disk):
    reined.append([1])
    disk.stall()
    with BesideThread(reined.commit):
        disk.stalled.wait()
        reined.append([2])
        with pytest.raises(UnavailableError, match=r"waited 0\.02 s to commit"):
            reined.commit()
        disk.go_on()
    assert reined.commit() == {0: 2}


def test_wait_for_another_append_is_bounded_and_takes_nothing(reined):
    with reined.held_by_another_thread():
        for call in (lambda: reined.append([1]), lambda: reined.stream.append(1, 1, b"")):
            with pytest.raises(UnavailableError, match="to append; another call holds the shard"):
                call()
    assert reined.commit() == {0: 0}


def test_threads_append_side_by_side_and_nothing_is_lost_or_doubled(make_bench):
    bench = make_bench(block_records=50)

    def write(thread: int) -> None:
        for primary in range(300):
            bench.stream.append(primary, thread, b"")
            if primary % 100 == 99:
                bench.keep([primary], secondary=thread, version=1)

    with BesideThread(lambda: write(0)), BesideThread(lambda: write(1)):
        write(2)
    for thread in range(3):
        assert bench.primaries(ids=thread, versions=0) == list(range(300))
        assert bench.primaries(ids=thread, versions=1) == [99, 199, 299]
    assert bench.stream.verify().is_clean


# --- the end ----------------------------------------------------------------------------------


def test_row_that_comes_while_a_close_commits_is_refused(reined, disk):
    reined.append([1])
    disk.stall()
    with BesideThread(reined.close):
        disk.stalled.wait()
        with pytest.raises(UnavailableError):
            reined.stream.append(2, 1, b"")
        disk.go_on()
    with pytest.raises(ClosedError):
        reined.stream.append(3, 1, b"")
    assert reined.open().committed() == {0: 1}


def test_close_that_waited_too_long_has_done_nothing_and_the_next_commits(reined, disk):
    reined.stream.append(1, 1, b"")
    with reined.held_by_another_thread(), pytest.raises(UnavailableError, match="to append"):
        reined.close()
    disk.reset()
    disk.stall()
    with BesideThread(reined.commit):
        disk.stalled.wait()
        reined.stream.append(2, 1, b"")
        with pytest.raises(UnavailableError, match="to commit"):
            reined.close()
        disk.go_on()
    assert reined.shard.tail.next == 1
    reined.close()
    reined.open()
    assert reined.primaries() == [1, 2]


def test_threads_append_beside_a_close_and_no_row_is_lost(make_bench):
    bench = make_bench(block_records=50)
    taken = [0, 0]

    def write(thread: int) -> None:
        with suppress(ClosedError):
            while True:
                bench.stream.append(taken[thread], thread, b"")
                taken[thread] += 1

    with BesideThread(lambda: write(0)), BesideThread(lambda: write(1)):
        while min(taken) < 200:
            bench.commit()
        bench.close()
    bench.open()
    assert [bench.primaries(ids=at) for at in (0, 1)] == [list(range(end)) for end in taken]


# --- poison -----------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["write", "sync"])
def test_failed_durable_write_is_told_with_its_cause(reined, disk, call):
    disk.failing = {call}
    with pytest.raises(ShardPoisonedError, match=r"no space left.*reopen.*shard 0") as error:
        reined.keep([1])
    assert isinstance(error.value.__cause__, UnavailableError)


def poisoned(bench: Workbench, disk: ReinedDisk) -> Workbench:
    """Let a commit fail; the disk is well again afterwards."""
    bench.keep([1])
    bench.append([2])
    disk.failing = {"sync"}
    with pytest.raises(ShardPoisonedError):
        bench.commit()
    disk.failing = set()
    return bench


def transact(bench: Workbench) -> None:
    with bench.stream.transaction("t", 1) as transaction:
        transaction.append(3, 1, b"")


REFUSED = {
    "append": lambda bench: bench.stream.append(3, 1, b""),
    "append_batch": lambda bench: bench.append([3]),
    "commit": lambda bench: bench.commit(),
    "alter": lambda bench: bench.stream.alter(codec="lz4"),
    "accept_loss": lambda bench: bench.stream.accept_loss(0, 0, 1),
    "transaction": transact,
}


@pytest.mark.parametrize("call", REFUSED)
def test_poisoned_shard_refuses_all_work_until_it_is_reopened(reined, disk, call):
    bench = poisoned(reined, disk)
    with pytest.raises(ShardPoisonedError):
        REFUSED[call](bench)
    bench.reopen()
    bench.keep([3])
    assert bench.primaries()[-1] == 3


def test_poisoned_shard_still_shows_what_was_committed(reined, disk):
    assert poisoned(reined, disk).primaries() == [1]


def test_reopen_finds_what_the_failed_write_left_and_adopts_it(reined, disk):
    bench = poisoned(reined, disk)
    bench.reopen()
    assert (bench.primaries(), bench.stream.committed()) == ([1, 2], {0: 2})


def test_poisoned_shard_closes_quietly_and_frees_its_lock(reined, disk):
    bench = poisoned(reined, disk)
    bench.close()
    bench.close()
    bench.open()


def test_failed_commit_of_a_close_is_told_and_frees_the_lock(reined, disk):
    reined.append([1])
    disk.failing = {"sync"}
    with pytest.raises(ShardPoisonedError):
        reined.close()
    disk.failing = set()
    assert reined.open().committed() == {0: 1}


def test_leaving_the_block_of_a_poisoned_stream_frees_its_lock(reined, disk):
    reined.append([1])
    disk.failing = {"sync"}
    with pytest.raises(ShardPoisonedError), reined.stream as stream:
        stream.commit()
    disk.failing = set()
    reined.open()


def test_failed_write_of_one_shard_leaves_the_others_usable(make_bench, disk):
    bench = make_bench(disk=disk, shards=2)
    disk.failing = {"write"}
    with pytest.raises(ShardPoisonedError):
        bench.append([1], secondary=0)
    disk.failing = set()
    bench.append([2], secondary=1)
    with pytest.raises(ShardlogError):
        bench.append([1], secondary=0)
    assert bench.shards()[1].commit() == 1


def test_open_that_fails_frees_the_lock(reined, disk):
    reined.close()
    disk.failing = {"write"}
    with pytest.raises(UnavailableError):
        reined.open()
    disk.failing = set()
    reined.open()


def test_waiting_calls_learn_of_the_poison(make_bench, disk):
    bench = make_bench(disk=disk)
    bench.append([1])
    learned: list[BaseException] = []
    disk.stall()

    def commit() -> None:
        try:
            bench.commit()
        except ShardPoisonedError as error:
            learned.append(error)

    with BesideThread(commit):
        disk.stalled.wait()
        with BesideThread(commit):
            disk.failing = {"stalled sync"}
            disk.go_on()
    assert len(learned) == 2


# --- the lock of the stream -------------------------------------------------------------------


def test_wait_for_another_holder_of_the_stream_turns_no_clock(bench):
    clock = ManualClock()
    bench.close()
    bench.open(environment=Environment(clock=clock))
    other = DirectoryLock.if_free(bench.directory)
    assert other is not None
    letting_go = threading.Timer(0.05, other.release)
    letting_go.start()
    with bench.stream.transaction("t", 1) as transaction:
        transaction.append(1, 1, b"x")
    letting_go.join()
    assert (bench.primaries(), clock.elapsed_s) == ([1], 0)

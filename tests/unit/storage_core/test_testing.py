"""What is shipped for tests: time turned by hand, disks that fail on cue."""

import pytest

from storage_core import Environment
from storage_core.platform.clock import SystemClock
from storage_core.testing import FaultyDisk, ManualClock, SimulatedCrash
from tests.log.workbench import Workbench


def test_manual_clock_moves_when_told_only():
    clock = ManualClock()
    before = clock.now_ns(), clock.monotonic_s()
    assert (clock.now_ns(), clock.monotonic_s()) == before
    clock.sleep(1.5)
    assert (clock.now_ns() - before[0], clock.monotonic_s() - before[1]) == (1_500_000_000, 1.5)


def test_system_clock_goes_forward():
    clock = SystemClock()
    first = clock.monotonic_s(), clock.now_ns()
    clock.sleep(0)
    assert clock.monotonic_s() >= first[0]
    assert clock.now_ns() > 1_700_000_000 * 10**9


def test_environment_is_the_machine_unless_told():
    assert isinstance(Environment().clock, SystemClock)


def crashing(make_bench, call: int) -> tuple[Workbench, FaultyDisk]:
    """Return a workbench whose disk crashes at its N-th writing call from now."""
    disk = FaultyDisk()
    bench = make_bench(environment=disk.environment(ManualClock()))
    disk.crash_at = disk.calls + call
    return bench, disk


@pytest.mark.parametrize(("call", "committed"), [(1, 0), (2, 1), (3, 1)])
def test_crash_at_write_sync_and_publication_is_what_a_reopen_finds(make_bench, call, committed):
    bench, disk = crashing(make_bench, call)
    with pytest.raises(SimulatedCrash, match="writing call"):
        bench.keep([1])
    disk.bury()
    disk.crash_at = None
    bench.release()
    assert bench.open().committed() == {0: committed}


def test_after_a_crash_nothing_is_written_any_more(make_bench):
    bench, disk = crashing(make_bench, 1)
    for _ in range(3):
        with pytest.raises(SimulatedCrash):
            disk.count()
    assert bench.stream.committed() == {0: 0}


def test_calls_are_counted_over_all_stores_and_markers(make_bench):
    disk = FaultyDisk()
    bench = make_bench(environment=disk.environment(ManualClock()), shards=2)
    before = disk.calls
    bench.keep([1, 2], secondary=[0, 1])
    assert disk.calls - before == 6

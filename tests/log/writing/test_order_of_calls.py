"""Opening, committing, closing: what holds at each call of the disk, so that none can be moved.

Of a commit broken off for good nobody knows what the disk holds until it is asked, so the shard
refuses everything until it is opened again.
"""

import pytest

from storage_core import ShardLockedError, ShardPoisonedError, Stream
from storage_core.testing import SimulatedCrash
from tests.log.on_disk import SLOTS, flip_bit, newest, slots
from tests.log.workbench import Workbench

MOMENTS = ["before write", "after write", "before sync", "after sync", "before publish"]


@pytest.fixture
def bench(make_bench, hooked):
    bench = make_bench(unit="sequence", environment=hooked.environment)
    bench.keep([1])
    return bench


def generation(bench: Workbench) -> int:
    return newest(bench.marker).generation


def test_generation_is_raised_before_the_store_is_recovered_and_once_more_after(bench, hooked):
    """A reader that came before and one that came meanwhile both have to start over."""
    seen = [generation(bench)]
    bench.crash()
    hooked.on("before strict", lambda: seen.append(generation(bench)))
    bench.open()
    seen.append(generation(bench))
    assert seen == sorted(set(seen))
    assert len(seen) == 3


@pytest.mark.parametrize("moment", ["before strict", "after write_both"])
def test_both_slots_say_the_same_from_the_first_step_of_an_opening(bench, hooked, moment):
    seen: list[tuple[int, int]] = []

    def look() -> None:
        seen.extend(
            (slot.generation, slot.committed) for slot in slots(bench.marker) if slot is not None
        )

    bench.keep([2])
    bench.crash()
    hooked.on(moment, look)
    bench.open()
    assert len(seen) == 2
    assert len(set(seen)) == 1


def test_both_slots_say_the_same_once_a_shard_is_open(bench):
    bench.append([2])
    bench.crash()
    bench.open()
    first, second = slots(bench.marker)
    assert first is not None
    assert second is not None
    assert (first.generation, first.committed) == (second.generation, second.committed)
    assert first.committed == 2


@pytest.mark.parametrize("damaged", SLOTS)
def test_whichever_slot_is_damaged_next_its_opener_knows_what_was_adopted(bench, damaged):
    bench.append([2])
    bench.crash()
    bench.open()
    bench.crash()
    flip_bit(bench.marker, damaged + 20)
    assert [slot and slot.committed for slot in slots(bench.marker)].count(None) == 1
    assert newest(bench.marker).committed == 2


def test_store_is_opened_strictly_and_less_strictly_only_where_that_is_refused(bench, hooked):
    bench.append([2])
    bench.crash()
    hooked.calls.clear()
    bench.open()
    assert "point_in_time" not in hooked.calls
    bench.append([3])
    bench.crash()
    bench.cut_log(5)
    hooked.calls.clear()
    bench.open()
    opened = [call for call in hooked.calls if call in ("strict", "point_in_time")]
    assert opened == ["strict", "point_in_time"]
    assert bench.primaries() == [1, 2]


def refused(bench: Workbench) -> bool:
    try:
        Stream.open(bench.root, bench.name).close()
    except ShardLockedError:
        return True
    return False


def test_nobody_else_gets_in_before_store_and_marker_are_closed(bench, hooked):
    seen = []

    def look_again() -> None:
        seen.append(refused(bench))
        hooked.on("after close", lambda: seen.append(refused(bench)))

    hooked.on("before close", lambda: seen.append(refused(bench)))
    hooked.on("after close", look_again)
    bench.close()
    assert seen == [True, True, True]
    assert not refused(bench)


def test_nobody_else_gets_in_before_a_failed_opening_has_closed_its_store(bench, hooked):
    seen = []
    bench.close()
    hooked.fail("sync")
    hooked.on("after close", lambda: seen.append(refused(bench)))
    with pytest.raises(Exception, match="no space left"):
        bench.open()
    assert seen == [True]
    assert not refused(bench)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SimulatedCrash, GeneratorExit, MemoryError])
@pytest.mark.parametrize("moment", MOMENTS)
def test_commit_that_any_error_breaks_off_refuses_work_until_the_shard_is_opened_again(
    bench, hooked, moment, error
):
    def break_off() -> None:
        hooked.on(moment, break_off)
        raise error

    hooked.on(moment, break_off)
    with pytest.raises(error):
        bench.keep([2])
    hooked.on(moment, lambda: None)
    for call in (lambda: bench.append([3]), bench.commit):
        with pytest.raises(ShardPoisonedError, match="reopen the stream"):
            call()
    assert bench.primaries() in ([1], [1, 2])
    bench.release()
    bench.open()
    assert bench.primaries() == ([1] if moment == "before write" else [1, 2])

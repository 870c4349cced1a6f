"""Expiry that is broken off, refused or in another's way: all of it is done, or none is wrong.

What is broken off hides no more than it may and takes no row that stays; another run finds what
is left.
"""

from datetime import timedelta

import pytest

from storage_core import CorruptionError, ShardPoisonedError, UnavailableError
from storage_core.testing import FaultyDisk, ManualClock, SimulatedCrash
from tests.log.disks import BesideThread
from tests.log.expiry.shelf import HOUR, NOW, Shelf, start_of
from tests.log.writing.interruptions import interrupted_everywhere
from tests.thin import rounds

EVERY_OF_MANY = 8 * rounds("SHARDLOG_INTERRUPT_EVERY", few=19, many=1)
# A batch, a sync, a marker, and what is given back.
CALLS = 4


def filled(make_bench, **options) -> tuple[Shelf, list[int]]:
    """Return a shelf with old rows before and behind a straggler, and what of it is to stay."""
    shelf = Shelf(make_bench, **options)
    shelf.put(-30, 3)
    kept = shelf.put(3, secondary=9)
    for hours in range(-20, -10):
        shelf.put(hours, 2)
    shelf.bench.keep([NOW + 200 * HOUR], secondary=7)
    kept.append(NOW + 200 * HOUR)
    kept += shelf.put(-2)
    shelf.put(-9)
    kept += shelf.put(-3)
    return shelf, kept


@pytest.mark.parametrize("call", range(1, CALLS + 2))
def test_expiry_that_dies_at_any_call_is_done_in_full_by_the_next(make_bench, call):
    disk = FaultyDisk()
    shelf, kept = filled(make_bench, environment=disk.environment(ManualClock(NOW * 10**9)))
    disk.crash_at = disk.calls + call
    try:
        shelf.expire()
        has_died = False
    except SimulatedCrash:
        has_died = True
    disk.crash_at = None
    with shelf.bench.read_beside() as reader:
        shown = set(reader.read(columns=["primary"]).column(0).to_pylist())
        assert shown >= set(kept)
    if has_died:
        shelf.bench.crash()
        shelf.bench.open()
        shelf.stream.verify()
    shelf.expire()
    shelf.expect(kept)
    assert start_of(shelf.bench) == 3
    assert has_died == (call <= CALLS)


@pytest.mark.parametrize("call", ["write", "sync", "write_both"])
def test_expiry_that_the_disk_refuses_poisons_and_is_done_after_a_reopen(make_bench, hooked, call):
    shelf, kept = filled(make_bench, environment=hooked.environment)
    hooked.fail(call)
    with pytest.raises(ShardPoisonedError):
        shelf.expire()
    with pytest.raises(ShardPoisonedError):
        shelf.expire()
    shelf.bench.crash()
    shelf.bench.open()
    shelf.expire()
    shelf.expect(kept)


def test_interrupted_expiry_leaves_no_lock_and_nothing_by_half(make_bench):
    shelf = Shelf(make_bench, wait_max=timedelta(seconds=1))
    shelf.put(-6, 2)
    for place in interrupted_everywhere(lambda at: shelf.expire(hours=at / 99), EVERY_OF_MANY):
        with BesideThread(lambda at=place: shelf.expire(hours=at / 99)):  # type: ignore[misc]
            pass
        assert shelf.stream.read().num_rows == 0
        shelf.put(place / 99 - 4.9, 2)
    assert shelf.stream.verify().is_clean


def test_expiry_waits_in_bounded_time_and_changes_nothing(make_bench):
    shelf, kept = filled(make_bench, wait_max=timedelta(milliseconds=20))
    with shelf.bench.held_by_another_thread(), pytest.raises(UnavailableError, match="append"):
        shelf.expire()
    assert start_of(shelf.bench) == 0
    shelf.expire()
    shelf.expect(kept)


def test_expiry_and_verify_exclude_each_other_and_nothing_else(make_bench):
    shelf, kept = filled(make_bench, wait_max=timedelta(milliseconds=20))
    with shelf.bench.looked_after_by_another_thread():
        for call in (shelf.expire, shelf.stream.verify):
            with pytest.raises(UnavailableError, match="maintain the shard"):
                call()
        kept += shelf.put(-1)
        assert sorted(shelf.bench.primaries(start=NOW - 5 * HOUR)) == sorted(kept)
    shelf.expire()
    shelf.expect(kept)


def test_expiry_inside_the_call_that_it_interrupts_is_refused(make_bench, hooked):
    shelf, kept = filled(make_bench, environment=hooked.environment)
    refused = []

    def expire() -> None:
        with pytest.raises(UnavailableError, match="same thread"):
            shelf.expire()
        refused.append(True)

    hooked.on("after snapshot", expire)
    shelf.expire()
    assert refused
    shelf.expect(kept)


def test_appends_and_commits_go_on_while_expiry_looks(make_bench, hooked):
    shelf, kept = filled(make_bench, environment=hooked.environment)
    beside: list[int] = []

    def work() -> None:
        beside.extend(shelf.put(-1))
        assert shelf.bench.append([NOW - 6 * HOUR]).expired == 1
        shelf.bench.append([NOW - 4 * HOUR])
        beside.append(NOW - 4 * HOUR)

    hooked.on("after snapshot", work)
    shelf.expire()
    shelf.bench.commit()
    shelf.expect(kept + beside)


def test_broken_chain_of_zones_is_told_and_nothing_goes(make_bench):
    shelf, _ = filled(make_bench)
    end = shelf.stream.committed()[0]
    shelf.bench.close()
    shelf.bench.remove_zone(4)
    shelf.bench.call_heads_written(end)
    shelf.bench.open()
    with pytest.raises(CorruptionError, match="chain"):
        shelf.expire()
    assert start_of(shelf.bench) == 0


def test_block_that_cannot_be_read_goes_with_its_loss(make_bench):
    shelf = Shelf(make_bench)
    shelf.put(-8, 3)
    kept = shelf.put(-1)
    shelf.bench.close()
    shelf.bench.damage_block(0)
    shelf.bench.open()
    assert shelf.stream.lost_ranges() == {0: [(0, 3)]}
    shelf.expire()
    assert shelf.stream.lost_ranges() == {0: []}
    shelf.expect(kept)

"""The sparse index: entries of committed rows, written behind the appender's back."""

import gc
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from storage_core import (
    ClosedError,
    Environment,
    IndexOptions,
    InvalidRequestError,
    ReadRequest,
    ShardPoisonedError,
    Stream,
)
from storage_core.testing import FaultyDisk, ManualClock, SimulatedCrash
from tests.log.disks import ReinedDisk
from tests.log.indexed import (
    alone,
    ending,
    entries_of,
    hand_over_what_breaks_a_turn,
    thread_runs,
    window_of,
    write_entry,
    write_key_of_the_index,
)
from tests.log.workbench import Workbench, column_of
from tests.waiting import WAIT_MAX_S, await_that

MakeBench = Callable[..., Workbench]


def fill(bench: Workbench, rows: int, ids: int = 1, start: int = 0, commits: bool = True) -> None:
    """Append a block of rows whose ids take turns."""
    primaries = range(start, start + rows)
    bench.append(primaries, secondary=[one % ids for one in primaries])
    if commits:
        bench.commit()


# --- entries -----------------------------------------------------------------------------------


def test_first_row_of_an_id_and_each_one_so_many_rows_later_has_an_entry(bench):
    for number in range(100):
        fill(bench, 1, start=number)
        bench.stream.index.look()
    bench.stream.index.drain()
    assert [address for _, _, address in entries_of(bench.stream)] == [*range(0, 100, 16)]


def test_rows_looked_at_together_have_one_entry_an_id(bench):
    fill(bench, 1000, ids=2)
    bench.stream.index.drain()
    assert entries_of(bench.stream) == [(0, 0, 0), (1, 1, 1)]


@pytest.mark.parametrize("is_looked_at_apart", [False, True])
def test_first_row_of_an_id_in_each_window_has_an_entry(make_bench, is_looked_at_apart):
    bench = make_bench(unit="s")
    for primaries in ([5, 6], [86_400, 86_401]):
        bench.keep(primaries)
        if is_looked_at_apart:
            bench.stream.index.look()
    bench.stream.index.drain()
    assert [primary for _, primary, _ in entries_of(bench.stream)] == [5, 86_400]


def test_late_and_ahead_rows_have_no_entry(make_bench):
    bench = make_bench(unit="s", ahead_max=10, environment=alone(1000))
    bench.keep([100, 50, 5000])
    bench.keep([40], secondary=2)
    bench.stream.index.drain()
    assert [primary for _, primary, _ in entries_of(bench.stream)] == [100, 40]


def test_ids_by_the_thousand_get_no_entries_until_they_come_again(make_bench):
    bench = make_bench(index=IndexOptions(spacing_min=2))
    written = []
    for start in range(0, 3000, 1000):
        fill(bench, 1000, ids=1000, start=start)
        bench.stream.index.drain()
        written.append(len(entries_of(bench.stream)))
    # Two ids may meet in one place; the next time one of them has another.
    assert written[0] == 0
    assert written[1] < 100
    assert written[2] > 900


def test_row_that_is_not_committed_gets_no_entry_before_it_is(bench):
    fill(bench, 10, commits=False)
    bench.stream.index.drain()
    assert entries_of(bench.stream) == []
    assert bench.stream.stats().index_queue == 1
    bench.commit()
    bench.stream.index.drain()
    assert len(entries_of(bench.stream)) == 1
    assert bench.stream.stats().index_queue == 0


def test_caller_that_changes_its_rows_afterwards_changes_no_entry(bench):
    primaries = np.arange(10)
    ids = np.zeros(10, dtype=np.int32)
    addresses = np.arange(5, 15)
    rows = pa.table({"primary": primaries, "secondary": ids, "payload": [b""] * 10})
    bench.stream.append_batch(rows, shard=0, addresses=addresses)
    primaries += 1000
    ids += 7
    addresses -= 5
    bench.commit()
    bench.stream.index.drain()
    assert entries_of(bench.stream) == [(0, 0, 5)]


def test_index_that_is_off_writes_nothing_until_it_is_on(make_bench):
    bench = make_bench(index=IndexOptions(is_on=False))
    fill(bench, 100)
    bench.stream.index.drain()
    assert entries_of(bench.stream) == []
    bench.stream.alter(index=IndexOptions(spacing_min=4))
    fill(bench, 100, start=100)
    bench.stream.index.drain()
    assert [address for _, _, address in entries_of(bench.stream)] == [100]
    bench.reopen()
    assert bench.stream.options.index == IndexOptions(spacing_min=4)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"spacing_min": 1}, "spacing_min"),
        ({"spacing_min": 64, "spacing_max": 32}, "spacing_max"),
        ({"queue_max": 0}, "queue_max"),
        ({"high_percent": 101}, "high_percent"),
        ({"low_percent": 60}, "low_percent"),
        ({"ticks_between": -1}, "ticks_between"),
        ({"tick": timedelta(0)}, "tick"),
        ({"is_on": 1}, "is_on"),
    ],
)
def test_options_that_cannot_work_are_refused_by_name(wrong, complaint):
    with pytest.raises(InvalidRequestError, match=f"index.{complaint}"):
        IndexOptions(**wrong)


# --- adapting ----------------------------------------------------------------------------------


def test_held_index_widens_drops_and_counts_and_comes_back_once_released(make_bench):
    environment = alone()
    bench = make_bench(unit="sequence", environment=environment)
    index, clock = bench.stream.index, environment.clock
    index.hold()
    spacings = []
    for number in range(60):
        # Ids that are new in each block, so that no spacing is in their way.
        primaries = range(number * 2048, (number + 1) * 2048)
        bench.keep(primaries, secondary=[number * 1000 + one % 512 for one in primaries])
        index.run_once(is_idle=False)
        spacings.append(bench.stream.stats().spacing)
    stats = bench.stream.stats()
    assert spacings[-1] == 4096
    assert sorted(spacings) == spacings
    changed_at = [number for number in range(1, 60) if spacings[number] != spacings[number - 1]]
    assert min(b - a for a, b in pairwise(changed_at)) > 5
    assert (stats.scale_up, stats.scale_down, stats.index_entries) == (8, 0, 0)
    assert stats.index_queue + stats.index_dropped > 4096 == stats.index_queue
    of_one_id = column_of(bench.stream.read(30_007), "primary")
    assert of_one_id == [*range(30 * 2048 + 7, 31 * 2048, 512)]
    index.release()
    for _ in range(100):
        assert isinstance(clock, ManualClock)
        clock.advance(0.1)
        index.run_once(is_idle=True)
    stats = bench.stream.stats()
    assert (stats.spacing, stats.scale_down, stats.index_queue) == (16, 8, 0)
    assert stats.index_entries == 4096
    assert column_of(bench.stream.read(30_007), "primary") == of_one_id


def test_held_index_writes_nothing_when_all_that_waits_is_due(bench):
    fill(bench, 10)
    bench.stream.index.hold()
    for is_idle in (False, True):
        bench.stream.index.run_once(is_idle=is_idle)
    assert entries_of(bench.stream) == []
    bench.stream.index.release()
    bench.stream.index.run_once(is_idle=True)
    assert len(entries_of(bench.stream)) == 1


def test_firsts_are_dropped_last(make_bench):
    bench = make_bench(unit="sequence", index=IndexOptions(spacing_min=2, queue_max=4))
    bench.stream.index.hold()
    for start in range(0, 100, 10):
        fill(bench, 10, start=start)
        bench.stream.index.look()
    fill(bench, 10, ids=5, start=100)
    bench.stream.index.look()
    bench.stream.index.drain()
    assert {one for one, _, _ in entries_of(bench.stream)} == {0, 1, 2, 3, 4}
    assert bench.stream.stats().index_dropped == 7
    assert len(entries_of(bench.stream)) == 8


def test_counts_and_spacing_last_over_a_reopening_and_are_shown_to_readers(make_bench):
    bench = make_bench(unit="sequence", index=IndexOptions(queue_max=8))
    for number in range(20):
        fill(bench, 100, ids=20, start=number * 100)
        bench.stream.index.look()
    bench.stream.index.drain()
    before = bench.stream.stats()
    assert before.spacing > 16
    assert before.index_dropped > 0
    with bench.read_beside() as reader:
        assert reader.stats() == before
    bench.reopen()
    assert bench.stream.stats() == before


# --- the worker --------------------------------------------------------------------------------


@pytest.fixture
def worked(make_bench: MakeBench) -> Workbench:
    """A stream with a worker, whose ticks are short."""
    return make_bench(environment=Environment(), index=IndexOptions(tick=timedelta(milliseconds=1)))


def test_worker_writes_what_is_committed_and_ends_with_the_stream(worked):
    stream = worked.stream
    assert not thread_runs(stream)
    fill(worked, 10)
    assert thread_runs(stream)
    await_that(lambda: stream.stats().index_entries == 1, "an entry")
    stream.close()
    assert not thread_runs(stream)


def test_held_worker_writes_nothing_until_it_is_released(worked):
    stream = worked.stream
    stream.index.hold()
    fill(worked, 10)
    await_that(lambda: stream.stats().index_queue == 1, "an entry that waits")
    assert stream.stats().index_entries == 0
    stream.index.release()
    await_that(lambda: stream.stats().index_entries == 1, "an entry")


def test_stream_that_is_forgotten_takes_its_worker_along(root):
    stream = Stream.create(root, "s", environment=Environment())
    stream.append(1, 1, b"x")
    stream.commit()
    has_ended = ending(stream)
    del stream
    gc.collect()
    assert has_ended(WAIT_MAX_S)


def test_readers_beside_use_the_entries(worked):
    fill(worked, 100)
    await_that(lambda: worked.stream.stats().index_entries == 1, "an entry")
    with worked.read_beside() as reader:
        assert reader.stats().index_entries == 1
        assert column_of(reader.read(0, 50, 60), "primary") == [*range(50, 61)]


def test_writer_and_readers_beside_begin_where_an_entry_says(make_bench):
    bench = make_bench(block_records=1)
    bench.keep(range(100))
    bench.stream.index.drain()
    # Of no row: what it hides tells that it was followed.
    write_entry(bench, window_of(bench, 5), 1, 5, 50)
    bench.keep([100])
    with bench.read_beside() as reader:
        for reads in (bench.stream, reader):
            assert column_of(reads.read(1, 10, 60), "primary") == [*range(50, 61)]


# --- what can fail -----------------------------------------------------------------------------


def test_entry_that_cannot_be_written_poisons_the_shard_and_a_reopening_goes_on(make_bench):
    disk = ReinedDisk()
    bench = make_bench(disk=disk)
    fill(bench, 10)
    disk.failing.add("write")
    bench.stream.index.drain()
    disk.failing.clear()
    with pytest.raises(ShardPoisonedError, match="a durable write failed"):
        bench.append([100])
    assert column_of(bench.stream.scan(), "primary") == [*range(10)]
    bench.crash()
    bench.open()
    fill(bench, 10, start=100)
    bench.stream.index.drain()
    assert bench.stream.verify().is_clean
    assert len(entries_of(bench.stream)) == 1


def test_turn_that_fails_is_told_once_its_rows_are_counted_and_the_worker_goes_on(worked, caplog):
    stream = worked.stream
    for dropped in (2, 4):
        hand_over_what_breaks_a_turn(worked, 20)
        await_that(partial(has_dropped, stream, dropped), "entries left out")
    fill(worked, 10)
    await_that(lambda: stream.stats().index_entries == 1, "an entry")
    (message,) = caplog.messages
    assert message.startswith(
        f"entries are left out of the index of {worked.name}, shard 0: ValueError"
    )


def has_dropped(stream: Stream, entries: int) -> bool:
    return stream.stats().index_dropped == entries


def test_write_that_finds_no_memory_holds_up_no_other_shard_and_is_done_again(make_bench, hooked):
    def find_no_memory() -> None:
        raise MemoryError

    bench = make_bench(disk=hooked, shards=2)
    bench.append([10], shard=0)
    bench.append([20], shard=1)
    bench.commit()
    hooked.on("before write", find_no_memory)
    index = bench.stream.index
    index.run_once(is_idle=False)
    assert [entries_of(bench.stream, shard) for shard in (0, 1)] == [[], [(1, 20, 0)]]
    index.run_once(is_idle=True)
    assert entries_of(bench.stream) == [(1, 10, 0)]
    assert bench.stream.stats().index_dropped == 0
    bench.keep([11], shard=0)
    assert bench.stream.verify().is_clean


def test_crash_before_entries_are_written_loses_entries_and_no_row(root):
    disk = FaultyDisk()
    bench = Workbench(root, "s", environment=disk.environment(ManualClock()))
    fill(bench, 10)
    disk.crash_at = disk.calls + 1
    with pytest.raises(SimulatedCrash):
        bench.stream.index.drain()
    bench.crash()
    disk.bury()
    disk.crash_at = None
    bench.open()
    assert entries_of(bench.stream) == []
    assert column_of(bench.stream.read(0), "primary") == [*range(10)]
    assert bench.stream.verify().is_clean
    bench.release()


def test_entry_of_a_lost_row_hides_no_row_that_came_behind_it(bench):
    bench.keep([1000])
    bench.keep([10], secondary=2)
    bench.stream.index.drain()
    bench.crash()
    bench.damage_block(0)
    bench.open()
    # Nobody knows the lost row's primary any more: what was late is not.
    bench.keep([20, 30])
    assert bench.stream.stats().late_arrivals == 0
    assert (1, 1000, 0) in entries_of(bench.stream)
    behind = ReadRequest(0, start=0, end=100, ids=(1,), start_address=1, order="time")
    assert column_of(bench.shard.scan(behind), "primary") == [20, 30]
    bench.stream.accept_loss(0, 0, 1)
    assert column_of(bench.stream.read(1, 0, 100), "primary") == [20, 30]
    with bench.read_beside() as reader:
        assert column_of(reader.read(1, 0, 100), "primary") == [20, 30]
    assert bench.stream.verify().is_clean


def test_closed_stream_is_not_written_to(bench):
    fill(bench, 10)
    index = bench.stream.index
    bench.stream.close()
    index.drain()
    index.run_once(is_idle=True)
    with pytest.raises(ClosedError):
        bench.stream.stats()
    bench.open()
    assert entries_of(bench.stream) == []


def test_expiry_takes_entries_along_also_one_that_came_behind_it(make_bench):
    bench = make_bench(unit="s", retention=timedelta(minutes=10), environment=alone(10_000))
    bench.keep([9_000])
    bench.stream.index.look()
    bench.keep([9_990], secondary=2)
    bench.stream.expire(9_995)
    bench.stream.index.drain()
    assert [primary for _, primary, _ in entries_of(bench.stream)] == [9_990]
    write_entry(bench, window_of(bench, 9_000), 1, 9_000, 0)
    assert bench.stream.verify().is_clean
    assert column_of(bench.stream.read([1, 2]), "primary") == [9_990]
    bench.keep([10_700], secondary=2)
    bench.stream.expire(10_700)
    assert entries_of(bench.stream) == []


@pytest.mark.parametrize(
    ("secondary", "primary", "address", "complaint"),
    [
        (1, 6, 5, "differs"),
        (2, 5, 5, "differs"),
        (1, 5, 4, "differs"),
        (1, 3, 10, "differs"),
        (1, 5, 99, "without a block"),
    ],
)
def test_verify_tells_an_entry_that_names_no_such_row(
    bench, secondary, primary, address, complaint
):
    bench.keep([*range(10), 3], secondary=1)
    assert bench.stream.verify().is_clean
    write_entry(bench, 0, secondary, primary, address)
    problems = bench.stream.verify().problems
    assert [(one.kind, complaint in one.message) for one in problems] == [("index", True)]


def test_verify_tells_an_entry_under_another_window_and_one_that_is_none(bench):
    bench.keep(range(10), secondary=1)
    write_entry(bench, 1, 1, 5, 5)
    write_key_of_the_index(bench, b"short")
    assert [one.kind for one in bench.stream.verify().problems] == ["index", "index"]

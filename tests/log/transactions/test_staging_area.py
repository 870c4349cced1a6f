"""The staging area: the first to publish decides, anybody finishes, a number lands once."""

import shutil
import threading
from datetime import timedelta

import pytest

from storage_core import (
    Contents,
    CorruptionError,
    ForeignDataError,
    InvalidRequestError,
    ShardLockedError,
    ShardPoisonedError,
    StagedRows,
    StagingArea,
    Stream,
    StreamOptions,
    TransactionId,
    UnavailableError,
)
from tests.log.on_disk import directory_of, flip_bit, manifest_of, rewrite
from tests.log.topics import TopicCopy
from tests.log.workbench import Workbench, batch_of, pass_numbers
from tests.waiting import WAIT_MAX_S, await_that

FIRST, SECOND, THIRD = (TransactionId("app", number) for number in (1, 2, 3))


@pytest.fixture
def bench(make_bench):
    return make_bench(shards=2)


def area_of(bench: Workbench) -> StagingArea:
    return StagingArea.open(bench.root, bench.name)


def stage(bench: Workbench, transaction: TransactionId, primaries) -> dict:
    """Stage rows whose secondaries alternate between the shards."""
    writer = area_of(bench).writer(transaction)
    numbers = list(primaries)
    writer.write(batch_of(numbers, secondary=[number % 2 for number in numbers]))
    return writer.finish()


def land(bench: Workbench, transaction: TransactionId, primaries) -> None:
    area_of(bench).publish(transaction, stage(bench, transaction, primaries))
    bench.stream.finish_transactions()


def landed(bench: Workbench) -> list[int]:
    return sorted(bench.primaries())


def done(bench: Workbench) -> int | None:
    """Return the largest number that the series has done."""
    mark = area_of(bench).mark("app")
    return None if mark is None else mark.number


def remembered(bench: Workbench) -> list[str]:
    return [name for number in (0, 1) for name in bench.remembered(number)]


def left(bench: Workbench) -> list[str]:
    return [path.name for path in bench.staging.iterdir()]


# --- decided once -----------------------------------------------------------------------------


def test_staged_rows_are_nothing_until_they_are_published(bench):
    stage(bench, FIRST, [1, 2])
    bench.stream.finish_transactions()
    bench.reopen()
    assert (landed(bench), bench.stream.committed()) == ([], {0: 0, 1: 0})


def test_published_rows_land_with_the_next_opener(bench):
    bench.close()
    area_of(bench).publish(FIRST, stage(bench, FIRST, [1, 2]))
    bench.open()
    assert (landed(bench), left(bench)) == ([1, 2], [])


def test_of_two_attempts_the_first_to_publish_wins(bench):
    first, twin = stage(bench, FIRST, [1, 2]), stage(bench, FIRST, [1, 2])
    area_of(bench).publish(FIRST, first)
    assert area_of(bench).publish(FIRST, twin) == {0, 1}
    bench.stream.finish_transactions()
    assert (landed(bench), left(bench)) == ([1, 2], [])


def test_number_that_landed_never_lands_again(bench):
    land(bench, FIRST, [1])
    assert area_of(bench).is_decided(FIRST)
    assert area_of(bench).publish(FIRST, stage(bench, FIRST, [1])) == frozenset()
    bench.reopen()
    assert (landed(bench), left(bench)) == ([1], [])


def test_number_below_one_that_landed_is_passed(bench):
    land(bench, SECOND, [2])
    assert area_of(bench).is_decided(FIRST)
    assert area_of(bench).publish(FIRST, stage(bench, FIRST, [1])) == frozenset()
    assert not area_of(bench).is_decided(THIRD)


def test_number_below_one_that_is_only_published_is_passed(bench):
    area_of(bench).publish(SECOND, stage(bench, SECOND, [2]))
    assert area_of(bench).publish(FIRST, stage(bench, FIRST, [1])) == frozenset()
    bench.stream.finish_transactions()
    assert landed(bench) == [2]


def test_number_without_rows_counts_as_landed(bench):
    assert area_of(bench).publish(FIRST, {}) == frozenset()
    assert done(bench) == 1
    assert area_of(bench).is_decided(FIRST)


def test_series_do_not_know_each_other(bench):
    land(bench, FIRST, [1])
    land(bench, TransactionId("app2", 1), [2])
    assert landed(bench) == [1, 2]


def test_transaction_without_a_number_lands_once_though_others_ran_since(bench):
    once = TransactionId("once")
    for transaction, primary in ((once, 1), (TransactionId("other"), 2), (FIRST, 3), (once, 1)):
        land(bench, transaction, [primary])
    bench.reopen()
    land(bench, once, [1])
    assert (landed(bench), left(bench)) == ([1, 2, 3], [])


def test_late_publisher_of_a_cleared_number_is_told_that_it_is_over(bench):
    late = stage(bench, FIRST, [1])
    land(bench, FIRST, [1])
    land(bench, SECOND, [2])
    assert area_of(bench).publish(FIRST, late) == frozenset()
    bench.reopen()
    assert landed(bench) == [1, 2]


# --- finished whatever stops ------------------------------------------------------------------


def test_replay_of_a_number_that_is_not_finished_goes_on_with_it(bench):
    bench.close()
    area_of(bench).publish(FIRST, stage(bench, FIRST, [1, 2]))
    bench.open(shards=[0])
    assert done(bench) is None
    assert area_of(bench).publish(FIRST, stage(bench, FIRST, [1, 2])) == {0, 1}
    bench.reopen(shards=[0, 1])
    assert landed(bench) == [1, 2]
    assert done(bench) == 1


def test_crash_between_the_mark_and_the_clearing_changes_nothing(bench):
    area_of(bench).publish(FIRST, stage(bench, FIRST, [1, 2]))
    directory = directory_of(bench.staging, FIRST.name)
    shutil.copytree(directory, bench.root / "copy")
    bench.stream.finish_transactions()
    shutil.copytree(bench.root / "copy", directory)
    assert done(bench) == 1
    bench.reopen()
    assert (landed(bench), left(bench)) == ([1, 2], [])


def test_opener_goes_on_where_a_commit_of_many_parts_was_cut_short(make_bench, disk):
    bench = make_bench(disk=disk)
    parts: list[StagedRows] = []
    for task in range(2):
        writer = area_of(bench).writer(FIRST)
        # Of large rows few are read at once, and each time it is a write of its own.
        writer.write(batch_of(range(task, 8, 2), payload=bytes(2**20)))
        parts.extend(writer.finish()[0])
    area_of(bench).publish(FIRST, {0: tuple(parts)})
    disk.failing = {"third write"}
    with pytest.raises(ShardPoisonedError):
        bench.stream.finish_transactions()
    disk.failing = set()
    bench.crash()
    with bench.read_beside() as reader:
        assert reader.read().num_rows == 0
    bench.open()
    assert (bench.arrivals(), left(bench)) == ([*range(8)], [])
    assert bench.stream.stats().records == 8


def test_shards_forget_what_cannot_come_again(bench):
    for number in range(1, 6):
        land(bench, TransactionId("app", number), [number, number + 1])
    with bench.stream.transaction("mine", 1) as mine:
        mine.append(9, 0, b"")
    last = [name for shard in (0, 1) for name in pass_numbers(bench, f"later-{shard}", shard)]
    assert sorted(remembered(bench)) == ["mine", *sorted(last)]
    bench.reopen()
    assert sorted(remembered(bench)) == ["mine", *sorted(last)]
    with pytest.raises(InvalidRequestError, match="made with 1 rows"):
        bench.stream.transaction("mine", 2)


def test_damaged_mark_is_told_by_its_path(bench):
    land(bench, FIRST, [1])
    (mark,) = (bench.root / bench.name / "series").rglob("mark.json")
    flip_bit(mark, 20)
    with pytest.raises(CorruptionError, match=r"mark\.json"):
        area_of(bench).is_decided(FIRST)


# --- cleared ----------------------------------------------------------------------------------


def test_discarded_attempt_leaves_others_alone(bench):
    mine, other = stage(bench, FIRST, [1]), stage(bench, FIRST, [1])
    area_of(bench).discard(FIRST, [mine])
    area_of(bench).publish(FIRST, other)
    bench.stream.finish_transactions()
    assert landed(bench) == [1]


def test_published_attempt_cannot_be_discarded(bench):
    parts = stage(bench, FIRST, [1, 2])
    area_of(bench).publish(FIRST, parts)
    area_of(bench).discard(FIRST, [parts])
    bench.stream.finish_transactions()
    assert landed(bench) == [1, 2]


def test_discarding_what_is_gone_is_quiet(bench):
    parts = stage(bench, FIRST, [1])
    for _ in range(2):
        area_of(bench).discard(FIRST, [parts])
    assert left(bench) == []


# --- of another stream ------------------------------------------------------------------------


DECISIONS = {
    "stage": lambda area, _: stage_one(area),
    "publish": lambda area, parts: area.publish(FIRST, parts),
    "publish nothing": lambda area, _: area.publish(FIRST, {}),
    "discard": lambda area, parts: area.discard(FIRST, [parts]),
    "claim": lambda area, _: area.claim("n", "me"),
}


@pytest.mark.parametrize("decide", DECISIONS.values(), ids=DECISIONS)
def test_area_decides_nothing_in_another_stream_of_its_name(bench, decide):
    area = area_of(bench)
    bench.close()
    shutil.rmtree(bench.directory)
    Stream.create(bench.root, bench.name, StreamOptions(shards=4)).close()
    anew = area_of(bench)
    parts = stage_one(anew)
    with pytest.raises(ForeignDataError, match=r"made anew.*stream"):
        decide(area, parts)
    assert (anew.is_decided(FIRST), anew.claim("n", "another")) == (False, "another")
    assert anew.publish(FIRST, parts) == {1}


def test_area_of_a_dropped_stream_says_so(bench):
    area, parts = area_of(bench), stage(bench, FIRST, [1])
    bench.close()
    shutil.rmtree(bench.directory)
    with pytest.raises(UnavailableError, match="publishing a transaction"):
        area.publish(FIRST, parts)


def test_rows_that_are_staged_for_a_dropped_stream_make_nothing_in_its_place(bench):
    writer = area_of(bench).writer(FIRST)
    writer.write(batch_of([1]))
    bench.close()
    shutil.rmtree(bench.directory)
    with pytest.raises(UnavailableError, match="staging rows"):
        writer.finish()
    assert not bench.directory.exists()


# --- names that belong to somebody ------------------------------------------------------------


def test_name_belongs_to_who_came_first_until_it_is_taken_over(bench):
    area = area_of(bench)
    assert area.claim("n", "a") == "a"
    assert area.claim("n", "a") == "a"
    assert area.claim("n", "b") == "a"
    assert area.claim("n", "b", takes_over=True) == "b"
    assert area.claim("n", "a") == "b"
    assert area.claim("m", "a") == "a"


# --- whose turn it is -------------------------------------------------------------------------


def test_waiter_is_told_who_holds_the_shard_after_its_time(bench):
    began = area_of(bench)
    with pytest.raises(ShardLockedError, match=r"waited 0 s: another writer holds .* process \d+"):
        began.open_shards([1], 0)


def test_asking_whether_somebody_waits_brings_no_directory_back(bench):
    area = area_of(bench)
    bench.close()
    shutil.rmtree(bench.root)
    assert not area.somebody_waits()
    assert not bench.root.exists()


def test_waiter_gets_the_shards_when_they_are_let_go_and_is_seen_waiting(bench):
    area = area_of(bench)
    assert not area.somebody_waits()
    opened: list[Stream] = []
    waiter = threading.Thread(target=lambda: opened.append(area.open_shards([0, 1], WAIT_MAX_S)))
    waiter.start()
    await_that(area.somebody_waits, "somebody is seen waiting")
    bench.close()
    waiter.join(WAIT_MAX_S)
    assert not area.somebody_waits()
    (stream,) = opened
    stream.close()


def test_two_waiters_are_refused_in_bounded_time(bench):
    bench.reopen(shards=[0])
    area = area_of(bench)
    opened = area.open_shards([1], 0)
    with pytest.raises(ShardLockedError):
        area.open_shards([1], 0.1)
    opened.close()
    assert (bench.root / bench.name / "shard-0000" / "owner.json").exists()


# --- refused ----------------------------------------------------------------------------------


def test_stream_with_an_origin_takes_no_staged_rows(root):
    TopicCopy(root).release()
    area = StagingArea.open(root, "clicks")
    with pytest.raises(InvalidRequestError, match="its rows come from there alone"):
        area.writer(FIRST)


@pytest.mark.parametrize("number", [-1, 2**63, 1.0, True, "1"])
def test_number_that_cannot_be_kept_is_refused(number):
    with pytest.raises(InvalidRequestError, match="integer from 0"):
        TransactionId("app", number)


@pytest.mark.parametrize("series", ["", "a\n", "a" * 513, None])
def test_series_that_cannot_be_kept_is_refused(series):
    with pytest.raises(InvalidRequestError, match="1 to 512 printable bytes"):
        TransactionId(series, 1)


def test_parts_whose_files_are_gone_are_not_published(bench):
    parts = stage(bench, FIRST, [1])
    shutil.rmtree(directory_of(bench.staging, FIRST.name))
    with pytest.raises(UnavailableError, match="stage them again"):
        area_of(bench).publish(FIRST, parts)
    land(bench, FIRST, [1])
    assert landed(bench) == [1]


def test_area_of_nothing_is_refused(root):
    with pytest.raises(InvalidRequestError, match="not a shardlog root"):
        StagingArea.open(root / "gone", "s")


def test_area_says_what_the_stream_is(root):
    options = StreamOptions(shards=8, unit="s", jitter=3, retention=timedelta(days=2))
    with Stream.create(root, "s", options):
        pass
    area = StagingArea.open(root, "s")
    assert (area.shards, area.unit, area.jitter, area.options) == (8, "s", 3, options)
    assert isinstance(next(iter(stage_one(area).values()))[0], StagedRows)


def stage_one(area: StagingArea) -> dict:
    writer = area.writer(FIRST)
    writer.write(batch_of([1]))
    return writer.finish()


# --- what a transaction held ------------------------------------------------------------------


HELD, OTHER = Contents(2, 7, 8), Contents(3, 7, 8)


def publish(bench: Workbench, transaction: TransactionId, contents: Contents) -> None:
    area_of(bench).publish(transaction, stage(bench, transaction, [1, 2]), contents)


@pytest.mark.parametrize("is_finished", [False, True])
def test_number_that_comes_again_with_other_contents_is_refused(bench, is_finished):
    publish(bench, FIRST, HELD)
    if is_finished:
        bench.stream.finish_transactions()
    with pytest.raises(ForeignDataError, match="with 2 rows, and is repeated with 3 others"):
        publish(bench, FIRST, OTHER)
    publish(bench, FIRST, HELD)
    bench.stream.finish_transactions()
    assert landed(bench) == [1, 2]


def test_numbers_without_rows_keep_that_they_had_none(bench):
    area_of(bench).publish(FIRST, {}, Contents())
    with pytest.raises(ForeignDataError):
        publish(bench, FIRST, HELD)
    assert area_of(bench).contents(FIRST) == Contents()


def test_mark_remembers_what_the_last_numbers_held(bench):
    area = area_of(bench)
    for number in range(130):
        area.publish(TransactionId("app", number), {}, Contents(number, 0, 0))
    assert [area.contents(TransactionId("app", number)) for number in (0, 1)] == [None, None]
    assert area.contents(TransactionId("app", 2)) == Contents(2, 0, 0)


def test_numbers_that_come_again_are_counted(bench):
    for _ in range(3):
        publish(bench, FIRST, HELD)
        bench.stream.finish_transactions()
    mark = area_of(bench).mark("app")
    assert mark is not None
    assert (mark.number, mark.contents, mark.skipped) == (1, {1: HELD}, 2)


def test_mark_without_contents_compares_nothing(bench):
    land(bench, FIRST, [1, 2])
    publish(bench, FIRST, OTHER)
    assert area_of(bench).contents(FIRST) is None


def test_damaged_manifest_hides_neither_that_it_was_decided_nor_what_others_held(bench):
    publish(bench, FIRST, HELD)
    flip_bit(manifest_of(bench.staging, FIRST.name), 20)
    area = area_of(bench)
    assert area.is_decided(FIRST)
    assert area.contents(SECOND) is None


@pytest.mark.parametrize("held", [5, {"1": [2]}, {"1": [2, "x" * 32]}, {"one": [2, "0" * 32]}])
def test_damaged_contents_are_told(bench, held):
    publish(bench, FIRST, HELD)
    bench.stream.finish_transactions()
    [path] = (bench.root / bench.name / "series").glob("*/mark.json")
    rewrite(path, contents=held)
    with pytest.raises(CorruptionError, match="the mark is damaged"):
        area_of(bench).mark("app")

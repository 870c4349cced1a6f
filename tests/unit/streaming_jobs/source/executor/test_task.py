"""A task proves where it is and that nothing of its range is gone as it reads."""

import re
from dataclasses import replace

import pytest

from storage_core import ForeignDataError, LostRangeError, UnavailableError
from streaming_jobs.source.driver.ranges import RangeReader
from streaming_jobs.source.driver.snapshot import snapshot
from streaming_jobs.source.executor.open_readers import OpenReaders
from streaming_jobs.source.executor.row_batches import RowBatches, StreamShape
from streaming_jobs.source.executor.task import TaskRules, read_range
from streaming_jobs.source.options import parse_source_options
from streaming_jobs.source.requests import RowRules, replay_request
from tests.unit.streaming_jobs.source.source_lab import NAME

ROWS = RowRules(("offset",))
STRICT = TaskRules(ROWS, fails_on_loss=True, end_wait_s=0.05)
LENIENT = TaskRules(ROWS, fails_on_loss=False)


def ranges_of(lab, **options):
    tasks = RangeReader(parse_source_options(lab.options(**options), "batch")).partitions()
    return [one for task in tasks for one in task.ranges]  # type: ignore[attr-defined]  # ours


def offsets(task, rules=STRICT, readers=None):
    batches = read_range(task, rules, readers or OpenReaders())
    return [offset for batch in batches for offset in batch["offset"].to_pylist()]


@pytest.fixture
def task(lab):
    """A task over the twenty rows of one shard, which nobody writes any more."""
    lab.create(shards=1, block_records=4)
    lab.append(20)
    lab.close()
    return ranges_of(lab, snapshot=snapshot(lab.root, NAME))[0]


def test_task_reads_its_range(task):
    assert offsets(replace(task, begin=3, end=9)) == list(range(3, 9))


def test_range_below_the_logs_start_is_a_loss(lab, task):
    lab.cut(0, 8)
    with pytest.raises(LostRangeError, match=re.escape("failOnDataLoss=false")) as raised:
        offsets(replace(task, begin=5))
    assert (raised.value.start, raised.value.end) == (5, 8)
    assert offsets(replace(task, begin=8)) == list(range(8, 20))


def test_loss_may_be_told_and_passed_by(lab, task, caplog):
    lab.cut(0, 8)
    assert offsets(task, LENIENT) == list(range(8, 20))
    assert "8 offsets of [0, 20) were lost" in caplog.text
    assert len(caplog.records) == 1


def test_lost_range_is_a_loss(lab, task):
    lab.lose(0, 8, 12)
    with pytest.raises(LostRangeError):
        offsets(task)
    assert offsets(replace(task, end=8)) == list(range(8))


def test_what_is_left_around_lost_ranges_is_read(lab, task, caplog):
    lab.lose(0, 4, 8)
    lab.lose(0, 16, 20)
    assert offsets(task, LENIENT) == [0, 1, 2, 3, *range(8, 16)]
    assert "8 offsets of [0, 20) were lost" in caplog.text


def test_range_that_goes_while_it_is_read_is_read_as_it_was(lab, task):
    readers = OpenReaders()
    with readers.of(task.place, task.shard) as reader:
        batches = RowBatches(StreamShape.of(reader, NAME), task.shard, ROWS)
        scanned = reader.shard(0).scan(replay_request(0, 0, 20, batches.stored, 0))
        first = next(scanned)
        lab.cut(0, 8)
        lab.reopen()
        rest = list(scanned)
    assert [at for one in (first, *rest) for at in one["address"].to_pylist()] == list(range(20))
    with pytest.raises(LostRangeError):
        offsets(task, readers=readers)


def test_start_below_a_shards_birth_is_no_loss(lab):
    lab.create_topic({0: 100})
    lab.put(0, [100, 101])
    task = ranges_of(lab, startingOffsets={NAME: {"0": 40}})[0]
    assert task.begin == 40
    assert offsets(task) == [100, 101]


def test_end_that_does_not_come_is_told_with_the_host(task):
    with pytest.raises(UnavailableError, match=r"on host .* did not reach offset 21"):
        offsets(replace(task, end=21))


def test_root_that_is_not_on_this_machine_is_told_with_the_host(lab, task, tmp_path):
    lab.root.rename(tmp_path / "away")
    with pytest.raises(ForeignDataError, match=r"host .* has no stream 'events' at"):
        offsets(task)


def test_another_root_at_the_path_is_told(task):
    place = replace(task.place, root="other")
    with pytest.raises(ForeignDataError, match=r"host .* has another root"):
        offsets(replace(task, place=place))


def test_another_incarnation_is_told(task):
    place = replace(task.place, incarnation="other")
    with pytest.raises(ForeignDataError, match="the stream was re-created since"):
        offsets(replace(task, place=place))


def test_another_log_of_the_shard_is_told(task):
    with pytest.raises(ForeignDataError, match="another log of the shard"):
        offsets(replace(task, lineage="0" * 32))


def test_columns_that_need_nothing_stored_are_counted_right(task):
    rules = TaskRules(RowRules(("topic",), has_expired=True), fails_on_loss=True)
    assert sum(len(batch) for batch in read_range(task, rules, OpenReaders())) == 20


def test_range_of_primaries_that_is_empty_reads_nothing(task):
    assert offsets(task, TaskRules(replace(ROWS, start=5, end=4), fails_on_loss=True)) == []

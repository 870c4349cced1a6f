"""The tail as Spark calls it: offsets, births, batches replayed, limits, and shards added."""

import json
import pickle

import pytest

from storage_core import CorruptionError, ForeignDataError, InvalidRequestError
from streaming_jobs.common.spark_features import ReadAllAvailable, ReadMaxRows, ReadMinRows
from tests.unit.streaming_jobs.source.source_lab import NAME, numbers_of

ALL = ReadAllAvailable()


def through_json(offset):
    return json.loads(json.dumps(offset))


def batch(reader, start, end):
    return numbers_of(reader, reader.partitions(through_json(start), through_json(end)))


def test_batches_follow_each_other_without_gap_or_repeat(lab):
    lab.create()
    lab.append(10)
    reader = lab.tail(startingOffsets="earliest")
    start = reader.initialOffset()
    first = reader.latestOffset(start, ALL)
    lab.append(5, first=10)
    second = reader.latestOffset(first, ALL)
    assert batch(reader, start, first) == list(range(10))
    assert batch(reader, first, second) == list(range(10, 15))


def test_rows_that_are_not_committed_are_not_there(lab):
    lab.create()
    lab.append(4)
    lab.append(4, first=4, commit=False)
    reader = lab.tail(startingOffsets="earliest")
    start = reader.initialOffset()
    assert batch(reader, start, reader.latestOffset(start, ALL)) == [0, 1, 2, 3]


def test_start_itself_comes_back_verbatim_when_there_is_nothing_new(lab):
    lab.create()
    lab.append(4)
    reader = lab.tail()
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert json.dumps(reader.latestOffset(through_json(end), ALL)) == json.dumps(end)


def test_latest_is_resolved_once(lab):
    lab.create()
    lab.append(4)
    reader = lab.tail()
    first = reader.initialOffset()
    lab.append(4, first=4)
    assert reader.initialOffset() == first


def test_failed_batch_0_comes_again_with_the_same_rows_though_the_tip_moved(lab):
    lab.create()
    lab.append(4)
    reader = lab.tail()
    start = reader.initialOffset()
    lab.append(4, first=4)
    end = reader.latestOffset(start, ALL)
    lab.append(4, first=8)
    restarted = lab.tail()
    moved = restarted.initialOffset()
    assert moved[NAME] != start[NAME]
    assert batch(restarted, moved, end) == batch(reader, start, end) == [4, 5, 6, 7]


def test_second_batch_after_a_restart_goes_on_from_the_first(lab):
    lab.create()
    lab.append(4)
    end = lab.tail().latestOffset(lab.tail().initialOffset(), ALL)
    lab.append(4, first=4)
    restarted = lab.tail()
    later = restarted.latestOffset(through_json(end), ALL)
    assert batch(restarted, end, later) == [4, 5, 6, 7]
    assert later["@"]["birth"] == end["@"]["birth"]


def test_replayed_range_has_the_same_tasks(lab):
    lab.create()
    lab.append(1000)
    reader = lab.tail(startingOffsets="earliest", minPartitions="7")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    before = reader.partitions(start, end)
    lab.append(1000, first=1000)
    again = lab.tail(startingOffsets="earliest", minPartitions="7")
    assert pickle.dumps(again.partitions(start, end)) == pickle.dumps(before)
    assert len(before) >= 7


def test_user_writes_offsets_as_for_kafka(lab):
    lab.create()
    lab.append(10)
    reader = lab.tail(startingOffsets={NAME: {"0": -2, "1": -1}})
    assert reader.initialOffset()[NAME] == {"0": 0, "1": 5}


def test_offset_of_another_query_can_be_begun_from(lab):
    lab.create()
    lab.append(10)
    offset = lab.tail().initialOffset()
    assert lab.tail(startingOffsets=json.dumps(offset)).initialOffset()[NAME] == offset[NAME]


@pytest.mark.parametrize(
    ("offsets", "said"),
    [({"0": 1}, "there are"), ({"0": 1, "1": 1, "2": 1}, "there are"), ({"0": 1, "1": 99}, "end")],
)
def test_offsets_that_do_not_fit_are_refused(lab, offsets, said):
    lab.create()
    lab.append(10)
    with pytest.raises(InvalidRequestError, match=said):
        lab.tail(startingOffsets={NAME: offsets}).initialOffset()


def test_shard_added_later_is_read_from_its_birth(lab):
    lab.create_topic({0: 0})
    lab.put(0, [0, 1])
    reader = lab.tail()
    end = reader.latestOffset(reader.initialOffset(), ALL)
    lab.add_shards({1: 40})
    lab.put(1, [40, 44])
    later = reader.latestOffset(through_json(end), ALL)
    tasks = reader.partitions(end, later)
    assert [(one.shard, one.begin, one.end) for task in tasks for one in task.ranges] == [
        (1, 40, 45)
    ]
    assert later["@"]["birth"] == {"0": 2, "1": 40}


def test_gaps_in_offsets_are_no_loss(lab):
    lab.create_topic({0: 5})
    lab.put(0, [7, 8, 20])
    reader = lab.tail(startingOffsets="earliest")
    start = reader.initialOffset()
    rows = reader.partitions(start, reader.latestOffset(start, ALL))
    offsets = [
        value
        for task in rows
        for batch in reader.read(task)
        for value in batch["offset"].to_pylist()
    ]
    assert offsets == [7, 8, 20]


def test_limit_is_shared_out_by_backlog(lab):
    lab.create()
    for round_number in range(90):
        lab.writer.append(round_number, 0 if round_number % 9 else 1, b"%d" % round_number)
    lab.writer.commit()
    reader = lab.tail(startingOffsets="earliest", maxOffsetsPerTrigger="18")
    assert reader.getDefaultReadLimit() == ReadMaxRows(18)
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(18))
    assert end[NAME] == {"0": 16, "1": 2}


def test_batch_waits_for_enough_but_not_the_first_of_a_run(lab):
    lab.create()
    lab.append(4)
    reader = lab.tail(startingOffsets="earliest", minOffsetsPerTrigger="10")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMinRows(10)
    first = reader.latestOffset(reader.initialOffset(), limit)
    lab.append(9, first=4)
    assert reader.latestOffset(first, limit) == first
    lab.append(1, first=13)
    assert sum(reader.latestOffset(first, limit)[NAME].values()) == 14


def test_run_with_an_end_takes_no_more_than_was_there(lab):
    lab.create_topic({0: 0})
    lab.put(0, [0, 1])
    reader = lab.tail(startingOffsets="earliest", minOffsetsPerTrigger="100")
    reader.prepareForTriggerAvailableNow()
    lab.put(0, [2, 3])
    lab.add_shards({1: 0})
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert {shard: end[NAME][shard] for shard in ("0",)} == {"0": 2}
    assert reader.latestOffset(end, ALL) == end


def test_latest_offset_is_reported_as_it_was_seen(lab):
    lab.create()
    reader = lab.tail()
    assert reader.reportLatestOffset() is None
    lab.append(10)
    reader.latestOffset(reader.initialOffset(), ReadMaxRows(2))
    assert reader.reportLatestOffset() == {NAME: {"0": 5, "1": 5}}


def test_recreated_stream_is_refused(lab, tmp_path):
    lab.create()
    lab.append(4)
    reader = lab.tail(startingOffsets="earliest")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    lab.close()
    (lab.root / NAME).rename(tmp_path / "away")
    lab.create()
    lab.append(4)
    with pytest.raises(ForeignDataError, match="the stream was re-created"):
        reader.latestOffset(end, ALL)
    with pytest.raises(ForeignDataError, match="the stream was re-created"):
        reader.partitions(end, end)


def test_shard_made_anew_is_refused(lab):
    lab.create()
    reader = lab.tail()
    end = reader.latestOffset(reader.initialOffset(), ALL)
    end["@"]["lineage"]["1"] = "0" * 32
    with pytest.raises(ForeignDataError, match="the shard was re-created"):
        reader.latestOffset(end, ALL)


def test_deleted_root_is_told(lab, tmp_path):
    lab.create()
    reader = lab.tail()
    end = reader.latestOffset(reader.initialOffset(), ALL)
    lab.close()
    lab.root.rename(tmp_path / "away")
    with pytest.raises(InvalidRequestError, match="not a shardlog root"):
        reader.latestOffset(end, ALL)


def test_log_that_was_set_back_is_told_or_waited_for(lab):
    lab.create()
    lab.append(4)
    ahead = lab.tail().latestOffset(lab.tail().initialOffset(), ALL)
    ahead[NAME]["0"] += 10
    with pytest.raises(CorruptionError, match="the shard was set back"):
        lab.tail().latestOffset(ahead, ALL)
    assert lab.tail(failOnDataLoss="false").latestOffset(ahead, ALL) == ahead


def test_empty_stream_of_a_topic_without_partitions_can_be_tailed(lab):
    lab.create_topic({0: 0})
    reader = lab.tail()
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert reader.partitions(reader.initialOffset(), end) == []


def test_reader_is_pickled_with_nothing_open(lab):
    lab.create()
    lab.append(4)
    reader = lab.tail(startingOffsets="earliest")
    start = reader.initialOffset()
    tasks = reader.partitions(start, reader.latestOffset(start, ALL))
    copy = pickle.loads(pickle.dumps(reader))  # noqa: S301 - our own bytes
    assert numbers_of(copy, tasks) == [0, 1, 2, 3]


def test_writer_of_this_process_may_close_between_batches(lab):
    lab.create()
    lab.append(4)
    reader = lab.tail(startingOffsets="earliest")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert batch(reader, start, end) == [0, 1, 2, 3]
    lab.close()
    lab.open()
    lab.append(4, first=4)
    later = reader.latestOffset(end, ALL)
    assert batch(reader, end, later) == [4, 5, 6, 7]

"""Tasks are planned once a frame and run for each action: what is not given moves with the log."""

import pytest

from storage_core import ForeignDataError, InvalidRequestError
from streaming_jobs.source.driver.ranges import RangeReader
from streaming_jobs.source.options import parse_source_options
from tests.unit.streaming_jobs.source.source_lab import (
    FIRST_MS,
    NAME,
    SourceLab,
    numbers_of,
    rows_of,
)

BEYOND = FIRST_MS + 15


class Frame:
    """What Spark keeps of a loaded frame: a reader, and its tasks as they were planned."""

    def __init__(self, lab, **options):
        self.reader = RangeReader(parse_source_options(lab.options(**options), "batch"))
        self.tasks = self.reader.partitions()

    def numbers(self):
        """Run an action; return the numbers of its rows."""
        return numbers_of(self.reader, self.tasks)

    def offsets(self):
        """Run an action; return shards and offsets of its rows."""
        rows = rows_of(self.reader, self.tasks)
        return sorted((row["partition"], row["offset"]) for row in rows)


def offsets(*by_shard):
    return {NAME: {str(shard): offset for shard, offset in enumerate(by_shard)}}


@pytest.mark.parametrize(
    "options",
    [{}, {"maxRecordsPerPartition": "3"}, {"minPartitions": "5"}, {"endingOffsets": "latest"}],
    ids=str,
)
def test_each_action_shows_what_is_committed_by_then(full, options):
    frame = Frame(full, **options)
    assert frame.numbers() == list(range(10))
    full.append(10, first=10)
    assert frame.numbers() == list(range(20))
    full.append(10, first=20)
    assert frame.numbers() == list(range(30))


def test_frame_over_an_empty_stream_shows_what_comes(lab):
    lab.create()
    frame = Frame(lab)
    assert frame.numbers() == []
    lab.append(3)
    assert frame.numbers() == [0, 1, 2]


def test_given_end_stays_and_only_other_shards_grow(full):
    frame = Frame(full, endingOffsets=offsets(2, -1))
    full.append(4, first=10)
    assert frame.numbers() == [0, 1, 2, 3, 5, 7, 9, 11, 13]


def test_given_start_stays(full):
    frame = Frame(full, startingOffsets=offsets(3, 4))
    full.append(2, first=10)
    assert frame.numbers() == [6, 8, 9, 10, 11]


def test_earliest_follows_what_expires(full):
    frame = Frame(full)
    full.close()
    full.cut(0, 2)
    assert frame.numbers() == [1, 3, 4, 5, 6, 7, 8, 9]


def test_time_that_no_record_had_reached_ends_the_frame_once_one_does(full):
    frame = Frame(full, endingTimestamp=str(BEYOND))
    full.append(3, first=10)
    assert frame.numbers() == list(range(13))
    full.append(10, first=13)
    assert frame.numbers() == list(range(15))


def test_time_that_no_record_had_reached_begins_the_frame_once_one_does(full):
    strategy = {"startingOffsetsByTimestampStrategy": "latest"}
    frame = Frame(full, startingTimestamp=str(BEYOND), **strategy)
    full.append(3, first=10)
    assert frame.numbers() == []
    full.append(10, first=13)
    assert frame.numbers() == list(range(15, 23))


def test_time_that_a_record_had_keeps_its_place(full):
    frame = Frame(full, startingTimestamp=str(FIRST_MS + 4), endingTimestamp=str(FIRST_MS + 8))
    full.append(3, first=10)
    assert frame.numbers() == [4, 5, 6, 7]
    full.close()
    full.cut(0, 3)
    full.reopen()
    assert frame.numbers() == [5, 6, 7]


def test_shards_added_later_are_read_too(lab):
    lab.create_topic({0: 0})
    frame = Frame(lab)
    lab.add_shards({1: 40})
    lab.put(1, [40, 41])
    lab.put(0, [0])
    assert frame.offsets() == [(0, 0), (1, 40), (1, 41)]


def test_shards_added_later_are_none_of_a_frame_with_given_offsets(lab):
    lab.create_topic({0: 0})
    lab.put(0, [0, 1])
    frame = Frame(lab, startingOffsets=offsets(1))
    lab.add_shards({1: 40})
    lab.put(1, [40])
    assert frame.offsets() == [(0, 1)]


@pytest.fixture
def other(full):
    """Another stream of the root, `events2`, with the numbers 20 and 21."""
    made = SourceLab(full.root, "events2")
    made.create()
    made.append(2, 20)
    yield made
    made.close()


def test_frame_over_several_streams_shows_what_is_committed_in_each_by_then(full, other):
    frame = Frame(full, subscribe="events,events2", minPartitions="4")
    full.append(1, 10)
    other.append(1, 22)
    assert frame.numbers() == [*range(11), 20, 21, 22]


@pytest.mark.usefixtures("other")
def test_stream_that_matches_later_is_read_too(full):
    frame = Frame(full, subscribePattern="^events")
    third = SourceLab(full.root, "events3")
    third.create()
    third.append(2, 30)
    third.close()
    assert frame.numbers() == [*range(10), 20, 21, 30, 31]
    named = Frame(full, subscribe="events,events2")
    assert named.numbers() == [*range(10), 20, 21]


def test_frame_over_no_stream_yet_shows_the_first_that_matches(full):
    frame = Frame(full, subscribePattern="2$")
    assert frame.numbers() == []
    late = SourceLab(full.root, "events2")
    late.create()
    late.append(2)
    late.close()
    assert frame.numbers() == [0, 1]


@pytest.mark.usefixtures("other")
def test_offsets_of_a_frame_are_given_of_every_stream_that_matches(full):
    with pytest.raises(InvalidRequestError, match=r"no offsets are given .*'events2'"):
        Frame(full, subscribePattern="^events", startingOffsets=offsets(1, 1))
    both = {**offsets(4, 5), "events2": {"0": 1, "1": 0}}
    frame = Frame(full, subscribePattern="^events", startingOffsets=both)
    assert frame.numbers() == [8, 21]


def test_shards_added_later_are_none_of_a_frame_of_assigned_ones(lab):
    lab.create_topic({0: 0, 1: 0})
    lab.put(0, [0, 1])
    lab.put(1, [5])
    frame = Frame(lab, assign={NAME: [0]})
    lab.add_shards({2: 40})
    lab.put(2, [40])
    lab.put(0, [2])
    assert frame.offsets() == [(0, 0), (0, 1), (0, 2)]


def test_stream_made_anew_is_told_instead_of_rows_of_the_old_one(full, tmp_path):
    frame = Frame(full)
    assert frame.numbers() == list(range(10))
    full.close()
    (full.root / NAME).rename(tmp_path / "away")
    full.create()
    full.append(20)
    with pytest.raises(ForeignDataError, match="re-created since the driver saw it: load or"):
        frame.numbers()

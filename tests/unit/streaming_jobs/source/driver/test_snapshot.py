"""A snapshot: one moment of all shards, as a text, for as many reads as want it."""

import json

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict

import pyspark_shardlog
from pyspark_shardlog import snapshot
from storage_core import ForeignDataError, InvalidRequestError, LostRangeError
from streaming_jobs.source.options import parse_source_options
from tests.unit.streaming_jobs.source.source_lab import FIRST_MS, NAME, SourceLab
from tests.unit.streaming_jobs.source.test_moving_ends import Frame


def test_frames_over_a_snapshot_show_its_moment_and_no_other(full):
    text = snapshot(full.root, NAME)
    full.append(10, first=10)
    early, late = Frame(full, snapshot=text), Frame(full, snapshot=text, minPartitions="4")
    full.append(10, first=20)
    assert early.numbers() == late.numbers() == list(range(10))


def test_snapshot_reads_as_one_line_of_json(full):
    document = json.loads(snapshot(full.root, NAME))
    assert (document[NAME], document["@"]["birth"]) == ({"0": 5, "1": 5}, {"0": 0, "1": 0})


def test_shards_added_later_are_no_part_of_a_snapshot(lab):
    lab.create_topic({0: 0})
    lab.put(0, [0])
    text = snapshot(lab.root, NAME)
    lab.add_shards({1: 40})
    lab.put(1, [40])
    assert Frame(lab, snapshot=text).offsets() == [(0, 0)]


def test_snapshot_says_which_rows_and_other_options_choose_among_them(full):
    text = snapshot(full.root, NAME)
    assert Frame(full, snapshot=text, ids="3,4", startPrimary=str(FIRST_MS + 4)).numbers() == [4]


@pytest.fixture
def two(full):
    """Another stream of the root, `events2`, with the numbers 20 and 21."""
    made = SourceLab(full.root, "events2")
    made.create()
    made.append(2, 20)
    made.close()
    return full


def test_snapshot_of_several_streams_shows_the_moment_of_each(two):
    text = snapshot(two.root, "events,events2")
    two.append(3, 10)
    by_name, by_pattern = {"subscribe": "events2,events"}, {"subscribePattern": "^events"}
    for subscribed in (by_name, by_pattern):
        assert Frame(two, snapshot=text, **subscribed).numbers() == [*range(10), 20, 21]
    began = two.tail(startingOffsets=text, **by_name).initialOffset()
    assert (began[NAME], began["events2"]) == ({"0": 5, "1": 5}, {"0": 1, "1": 1})


def test_streams_that_match_later_are_no_part_of_a_snapshot(two):
    text = snapshot(two.root, "events2")
    assert Frame(two, snapshot=text, subscribePattern="^events").numbers() == [20, 21]
    with pytest.raises(
        InvalidRequestError, match=r"of streams \['events2'\], not of stream 'events'"
    ):
        Frame(two, snapshot=text)


def test_what_has_expired_since_is_a_loss(full):
    text = snapshot(full.root, NAME)
    full.close()
    full.cut(0, 2)
    with pytest.raises(LostRangeError, match="failOnDataLoss=false"):
        Frame(full, snapshot=text).numbers()


def test_snapshot_of_a_stream_made_anew_is_refused(full, tmp_path):
    text = snapshot(full.root, NAME)
    full.close()
    (full.root / NAME).rename(tmp_path / "away")
    full.create()
    with pytest.raises(ForeignDataError, match="re-created"):
        Frame(full, snapshot=text)


def test_snapshot_that_ends_above_the_log_is_refused(full):
    taken = json.loads(snapshot(full.root, NAME))
    taken[NAME]["1"] = 6
    with pytest.raises(InvalidRequestError, match="offset 6, beyond the log's, 5") as raised:
        Frame(full, snapshot=taken)
    assert raised.value.shard == 1


def test_stream_goes_on_from_a_snapshot(full):
    text = snapshot(full.root, NAME)
    full.append(2, first=10)
    assert full.tail(startingOffsets=text).initialOffset()[NAME] == {"0": 5, "1": 5}


def source(lab, **options):
    """Return what Spark pickles once `load` has asked for the schema."""
    made = pyspark_shardlog.DefaultSource(CaseInsensitiveDict(lab.options(**options)))
    return made, made.schema()


def test_snapshot_of_now_is_taken_by_load(full):
    loaded, schema = source(full, snapshot="now", startingTimestamp=str(FIRST_MS + 4))
    full.append(10, first=10)
    reader = loaded.reader(schema)
    rows = [
        row for task in reader.partitions() for batch in reader.read(task) for row in rows_in(batch)
    ]
    assert sorted(rows) == list(range(4, 10))


def rows_in(batch):
    return [int(value) for value in batch["value"].to_pylist()]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"snapshot": "yesterday"}, "is not now, or the text that snapshot"),
        ({"snapshot": "[]"}, "is not now, or the text that snapshot"),
        ({"snapshot": '{"events":{"0":5}}'}, "is not now, or the text that snapshot"),
        ({"snapshot": '{"other":{"0":5}}'}, "not of stream 'events'"),
        ({"snapshot": None, "endingOffsets": "latest"}, "option endingOffsets: the snapshot says"),
    ],
    ids=str,
)
def test_what_is_no_snapshot_is_refused(full, options, said):
    chosen = {**options, "snapshot": options["snapshot"] or snapshot(full.root, NAME)}
    with pytest.raises(InvalidRequestError, match=said):
        parse_source_options(full.options(**chosen), "batch")


def test_stream_takes_no_snapshot_and_says_what_does(full):
    with pytest.raises(InvalidRequestError, match="startingOffsets takes the same text"):
        full.tail(snapshot="now")

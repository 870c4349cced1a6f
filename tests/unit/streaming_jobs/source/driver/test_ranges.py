"""Batch reads: bounds by offset and by time, ranges of primaries, ids and keys."""

import pyarrow as pa
import pytest

from storage_core import InvalidRequestError
from streaming_jobs.source.driver.ranges import RangeReader
from streaming_jobs.source.options import parse_source_options
from tests.unit.streaming_jobs.source.source_lab import FIRST_MS, NAME, numbers_of, rows_of


def numbers(lab, **options):
    reader = RangeReader(parse_source_options(lab.options(**options), "batch"))
    return numbers_of(reader, reader.partitions())


@pytest.fixture
def full(lab):
    """Twenty rows, even numbers in shard 0."""
    lab.create()
    lab.append(20)
    return lab


def test_batch_reads_all_that_is_committed(full):
    full.append(5, first=20, commit=False)
    assert numbers(full) == list(range(20))


def test_batch_reads_between_offsets(full):
    bounds = {
        "startingOffsets": {NAME: {"0": 8, "1": -2}},
        "endingOffsets": {NAME: {"0": -1, "1": 2}},
    }
    assert numbers(full, **bounds) == [1, 3, 16, 18]


def test_start_above_the_end_is_refused_with_the_shard_and_both_offsets(full):
    bounds = {
        "startingOffsets": {NAME: {"0": 0, "1": 8}},
        "endingOffsets": {NAME: {"0": 0, "1": 5}},
    }
    with pytest.raises(InvalidRequestError, match="offset 8, lies above the end, 5") as raised:
        numbers(full, **bounds)
    assert raised.value.shard == 1


def test_time_after_that_of_the_end_is_refused(full):
    bounds = {"startingTimestamp": str(FIRST_MS + 9), "endingTimestamp": str(FIRST_MS + 5)}
    with pytest.raises(InvalidRequestError, match="lies above the end"):
        numbers(full, **bounds)


def test_batch_reads_between_timestamps(full):
    bounds = {"startingTimestamp": str(FIRST_MS + 5), "endingTimestamp": str(FIRST_MS + 9)}
    assert numbers(full, **bounds) == [5, 6, 7, 8]


def test_each_shard_may_have_its_own_timestamp(full):
    times = {NAME: {"0": FIRST_MS + 17, "1": FIRST_MS + 18}}
    assert numbers(full, startingOffsetsByTimestamp=times) == [18, 19]


def test_end_that_no_record_reaches_is_the_end(full):
    assert numbers(full, endingTimestamp=str(FIRST_MS + 10**9)) == list(range(20))


def test_start_that_no_record_reaches_is_told_unless_latest_will_do(full):
    beyond = str(FIRST_MS + 10**9)
    with pytest.raises(InvalidRequestError, match="startingOffsetsByTimestampStrategy"):
        numbers(full, startingTimestamp=beyond)
    strategy = {"startingOffsetsByTimestampStrategy": "latest"}
    assert numbers(full, startingTimestamp=beyond, **strategy) == []


def test_timestamps_are_found_where_primaries_are_offsets(lab):
    lab.create_topic({0: 0}, primary="offset")
    lab.put(0, [0, 1, 5, 6], primary=[0, 1, 5, 6])
    assert numbers_by_offset(lab, startingTimestamp=str(FIRST_MS + 2)) == [5, 6]


def numbers_by_offset(lab, **options):
    reader = RangeReader(parse_source_options(lab.options(**options), "batch"))
    return [row["offset"] for row in rows_of(reader, reader.partitions())]


def test_late_rows_are_found_by_their_primary(lab):
    lab.create()
    lab.append(20)
    lab.writer.append(FIRST_MS + 3, 18, b"99")
    lab.writer.commit()
    bounds = {"startPrimary": str(FIRST_MS + 2), "endPrimary": str(FIRST_MS + 4)}
    assert numbers(lab, **bounds) == [2, 3, 4, 99]
    assert numbers(lab, includeLate="false", **bounds) == [2, 3, 4]


def test_ids_choose_rows(full):
    assert numbers(full, ids="3,4,77") == [3, 4]


def test_keys_choose_rows_of_a_topic(lab):
    lab.create_topic({0: 0}, key_mode="none")
    lab.put(0, [0, 1, 2], key=[b"a", None, b"b"])
    assert numbers_by_offset(lab, keys='["b", null]') == [1, 2]


def test_keys_choose_rows_of_any_stream(lab):
    lab.create()
    lab.append(2)
    keyed = {
        "primary": pa.array([FIRST_MS + 2, FIRST_MS + 3]),
        "secondary": pa.array([2, 3]),
        "payload": pa.array([b"2", b"3"]),
        "key": pa.array([b"a", b"b"]),
    }
    lab.writer.append_batch(pa.record_batch(keyed))
    lab.writer.commit()
    assert numbers(lab, keys='["a"]') == [2]
    assert numbers(lab, keys='["b", null]') == [0, 1, 3]


def test_keys_choose_rows_of_a_dictionary_and_no_row_shows_its_number(lab):
    lab.create(key_mode="dictionary")
    keyed = {
        "primary": pa.array([FIRST_MS, FIRST_MS + 1, FIRST_MS + 2, FIRST_MS + 3]),
        "payload": pa.array([b"0", b"1", b"2", b"3"]),
        "key": pa.array([b"a", None, b"b", b"a"]),
    }
    lab.writer.append_batch(pa.record_batch(keyed))
    lab.writer.commit()
    assert numbers(lab) == [0, 1, 2, 3]
    assert numbers(lab, keys='["a", "nobody"]') == [0, 3]
    assert numbers(lab, keys="[null]") == [1]
    assert numbers(lab, keys='["nobody"]') == []
    reader = RangeReader(parse_source_options(lab.options(), "batch"))
    assert {row["secondary"] for row in rows_of(reader, reader.partitions())} == {None}
    with pytest.raises(InvalidRequestError, match=r"option ids: .* use keys"):
        numbers(lab, ids="1")


def test_ids_are_refused_where_keys_are_no_integers(lab):
    lab.create_topic({0: 0}, key_mode="none")
    with pytest.raises(InvalidRequestError, match=r"option ids: .* use keys"):
        numbers(lab, ids="1")


def test_field_of_the_values_is_an_id_as_a_key_is(lab):
    lab.create_topic({0: 0}, key_mode="none", secondary="field:device")
    lab.put(0, [0, 1], key=[None, b"a"], secondary=pa.array([7, 9], pa.int32()))
    reader = RangeReader(parse_source_options(lab.options(), "batch"))
    assert [row["secondary"] for row in rows_of(reader, reader.partitions())] == [7, 9]
    assert numbers_by_offset(lab, ids="9") == [1]


def test_sequence_refuses_timestamps(lab):
    lab.create(unit="sequence")
    with pytest.raises(InvalidRequestError, match="counts a sequence"):
        numbers(lab, startingTimestamp="5")

"""Batch reads: bounds by offset and by time, ranges of primaries, ids, keys, and filters taken."""

from collections.abc import Callable

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from storage_core import InvalidRequestError
from streaming_jobs.batch_reader import RangeReader
from streaming_jobs.options import parse_source_options
from streaming_jobs.pushdown import PushedRangeReader
from tests.unit.streaming_jobs.source_lab import FIRST_MS, NAME, numbers_of, rows_of


def numbers(lab, kind=RangeReader, filters=(), **options):
    reader = kind(parse_source_options(lab.options(**options), "batch"))
    if filters:
        assert list(reader.pushFilters(list(filters))) == []
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


@pytest.mark.parametrize(
    ("key_mode", "option"), [("none", {"ids": "1"}), (None, {"keys": '["a"]'})], ids=["ids", "keys"]
)
def test_choice_that_a_stream_cannot_answer_is_refused(lab, key_mode, option):
    if key_mode is None:
        lab.create()
    else:
        lab.create_topic({0: 0}, key_mode=key_mode)
    with pytest.raises(InvalidRequestError, match=next(iter(option))):
        numbers(lab, **option)


def test_sequence_refuses_timestamps(lab):
    lab.create(unit="sequence")
    with pytest.raises(InvalidRequestError, match="counts a sequence"):
        numbers(lab, startingTimestamp="5")


FILTERS: list[tuple[list[Filter], Callable[[int], bool]]] = [
    ([EqualTo(("primary",), FIRST_MS + 3)], lambda at: at == 3),
    ([GreaterThan(("primary",), FIRST_MS + 17)], lambda at: at > 17),
    ([GreaterThanOrEqual(("primary",), FIRST_MS + 17)], lambda at: at >= 17),
    ([LessThan(("primary",), FIRST_MS + 3)], lambda at: at < 3),
    ([LessThanOrEqual(("primary",), FIRST_MS + 3)], lambda at: at <= 3),
    ([IsNotNull(("primary",)), GreaterThan(("primary",), 2**62)], lambda _: False),
    ([EqualTo(("secondary",), 4)], lambda at: at == 4),
    ([In(("secondary",), (3, 4, 2**40, None))], lambda at: at in (3, 4)),
    ([In(("secondary",), (3, 4)), EqualTo(("secondary",), 4)], lambda at: at == 4),
    ([EqualTo(("partition",), 1)], lambda at: at % 2 == 1),
    ([In(("partition",), (0, 9))], lambda at: not at % 2),
    ([GreaterThan(("partition",), 0)], lambda at: at % 2 == 1),
    ([GreaterThanOrEqual(("offset",), 8)], lambda at: at >= 16),
    ([LessThan(("offset",), 1)], lambda at: at < 2),
    ([GreaterThan(("offset",), 2**63 - 1)], lambda _: False),
]


@pytest.mark.parametrize(("filters", "holds"), FILTERS, ids=[str(one[0][-1]) for one in FILTERS])
def test_filter_that_is_taken_is_answered_to_the_row(full, filters, holds):
    found = numbers(full, PushedRangeReader, filters)
    assert found == [at for at in range(20) if holds(at)]


def test_filters_go_together_with_options(full):
    taken = [GreaterThan(("primary",), FIRST_MS + 3), In(("secondary",), (3, 4, 5, 6))]
    assert numbers(full, PushedRangeReader, taken, ids="4,5,9", endPrimary=str(FIRST_MS + 4)) == [4]


@pytest.mark.parametrize(
    "asked",
    [
        EqualTo(("value",), b"x"),
        EqualTo(("headers", "key"), "x"),
        EqualTo(("primary",), 1.5),
        EqualTo(("primary",), True),
        In(("primary",), (1, 2)),
        In(("secondary",), (1, "2")),
        GreaterThan(("secondary",), 4),
        Not(EqualTo(("primary",), 3)),
    ],
    ids=str,
)
def test_filter_that_is_not_answered_exactly_is_left_to_spark(full, asked):
    reader = PushedRangeReader(parse_source_options(full.options(), "batch"))
    assert list(reader.pushFilters([asked])) == [asked]
    assert numbers_of(reader, reader.partitions()) == list(range(20))


def test_ids_that_are_shown_as_null_are_left_to_spark(lab):
    lab.create_topic({0: 0}, key_mode="none")
    lab.put(0, [0, 1])
    reader = PushedRangeReader(parse_source_options(lab.options(), "batch"))
    asked = [EqualTo(("secondary",), 7), IsNotNull(("secondary",))]
    assert list(reader.pushFilters(asked)) == asked

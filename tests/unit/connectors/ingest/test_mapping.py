"""Records become rows byte for byte; what cannot becomes a dead letter, alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.ingest.dead_letter import decode_dead_letter
from connectors.ingest.mapping import (
    NULL_KEY_ID,
    join_records,
)
from connectors.settings.stream_settings import MappingRules
from tests.unit.connectors.records import record, shard_records

INTEGERS = MappingRules()
CARRIED = MappingRules(key_mode="none")
IDS = st.integers(-(2**31), 2**31 - 1)
VALUES = st.none() | st.binary(max_size=20)
HEADERS = st.none() | st.lists(
    st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), min_size=1, max_size=3
)


def map_records(messages, rules):
    ((_, records),) = shard_records(messages, rules)
    return records


def key_of(secondary):
    return secondary.to_bytes(4, "big", signed=True)


def column(mapped, name):
    return mapped.rows.column(name).to_pylist()


@given(st.lists(st.tuples(IDS, VALUES, st.integers(0, 2**40)), min_size=1, max_size=20))
def test_rows_are_the_records(items):
    messages = [
        record(3 * at, key_of(secondary), value, timestamp=(1, stamp))
        for at, (secondary, value, stamp) in enumerate(items)
    ]
    mapped = map_records(messages, INTEGERS)
    assert list(mapped.offsets) == [3 * at for at in range(len(items))]
    rows = zip(*(column(mapped, name) for name in ("secondary", "payload", "primary")), strict=True)
    assert list(rows) == items


def test_tombstone_differs_from_an_empty_value():
    mapped = map_records([record(0, value=None), record(1, value=b"")], INTEGERS)
    assert column(mapped, "payload") == [None, b""]


def test_record_without_a_key_has_the_reserved_id():
    mapped = map_records([record(0), record(1, key=None)], INTEGERS)
    assert column(mapped, "secondary") == [7, NULL_KEY_ID]
    assert column(mapped, "key") == [b"\x00\x00\x00\x07", None]


def test_record_without_a_key_is_a_dead_letter_where_it_should_be():
    mapped = map_records([record(0), record(1, key=None)], MappingRules(null_key="dead-letter"))
    assert list(mapped.offsets) == [0]
    assert decode_dead_letter(mapped.dead_letters[1]).reason.startswith("no key")


def test_any_key_is_carried_where_keys_mean_nothing():
    mapped = map_records([record(0, key=b"text"), record(1, key=None)], CARRIED)
    assert column(mapped, "key") == [b"text", None]
    assert column(mapped, "secondary") == [NULL_KEY_ID] * 2


@pytest.mark.parametrize("key", [b"", b"abc", b"abcde", b"eightbyt"])
def test_integer_key_of_the_wrong_length_costs_its_neighbours_nothing(key):
    mapped = map_records([record(0), record(1, key=key), record(2)], INTEGERS)
    assert list(mapped.offsets) == [0, 2]
    assert list(mapped.dead_letters) == [1]


def test_wrong_lengths_that_add_up_are_not_taken_for_right_ones():
    mapped = map_records([record(0, key=b"abc"), record(1, key=b"abcde")], INTEGERS)
    assert sorted(mapped.dead_letters) == [0, 1]


def test_value_above_the_limit_is_a_dead_letter():
    mapped = map_records([record(0, value=b"12345"), record(1)], MappingRules(payload_bytes_max=4))
    assert list(mapped.offsets) == [1]
    assert "payload_bytes_max is 4" in decode_dead_letter(mapped.dead_letters[0]).reason


def test_record_without_a_timestamp_has_no_primary():
    bare = record(0, timestamp=(0, -1))
    assert list(map_records([bare], INTEGERS).dead_letters) == [0]
    assert not map_records([bare], MappingRules(primary="offset")).dead_letters


def test_primary_may_be_the_offset():
    mapped = map_records([record(5), record(9)], MappingRules(primary="offset"))
    assert column(mapped, "primary") == [5, 9]
    assert column(mapped, "timestamp") == [1005, 1009]


def test_kind_of_timestamp_has_the_number_that_java_gives_it():
    messages = [record(0, timestamp=(1, 5)), record(1, timestamp=(2, 6))]
    assert column(map_records(messages, INTEGERS), "timestamp_type") == [0, 1]


@given(st.lists(HEADERS, min_size=1, max_size=6))
def test_headers_keep_order_repeats_and_nulls(headers):
    messages = [record(at, headers=given) for at, given in enumerate(headers)]
    mapped = map_records(messages, INTEGERS)
    if not any(headers):
        assert "headers" not in mapped.rows.schema.names
        return
    found = [
        None if each is None else [(item["key"], item["value"]) for item in each]
        for each in column(mapped, "headers")
    ]
    assert found == headers


@given(VALUES, st.none() | st.binary(max_size=9), HEADERS)
def test_dead_letter_is_the_record_byte_for_byte(value, key, headers):
    rules = MappingRules(payload_bytes_max=1, null_key="dead-letter")
    message = record(4, key, (value or b"") + b"12", headers=headers, partition=3)
    found = decode_dead_letter(map_records([message], rules).dead_letters[4])
    assert (found.topic, found.partition, found.offset) == ("orders", 3, 4)
    assert (found.key, found.value) == (key, message.value())
    assert found.headers == headers
    assert (found.timestamp, found.timestamp_type) == (1004, 0)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), min_size=1, max_size=30))
def test_partitions_of_several_topics_come_apart_in_their_order(places):
    messages = [
        record(at, topic=topic, partition=number) for at, (topic, number) in enumerate(places)
    ]
    found = {
        (part.topic, part.number): list(records.offsets)
        for part, records in shard_records(messages, INTEGERS)
    }
    expected = {
        place: [at for at, each in enumerate(places) if each == place] for place in set(places)
    }
    assert found == expected


def test_partitions_of_one_call_keep_their_own_values_and_dead_letters():
    messages = [
        record(0, value=b"first"),
        record(9, value=None, partition=1),
        record(1, key=b"poison"),
        record(10, value=b"", partition=1),
        record(2, value=b"last"),
    ]
    (_, first), (_, second) = shard_records(messages, INTEGERS)
    assert (column(first, "payload"), list(first.dead_letters)) == ([b"first", b"last"], [1])
    assert (column(second, "payload"), list(second.dead_letters)) == ([None, b""], [])
    assert (first.end, second.end) == (3, 11)


def test_end_lies_behind_the_last_record_though_it_was_refused():
    records = map_records([record(3), record(7, key=b"poison")], INTEGERS)
    assert (list(records.offsets), records.end) == ([3], 8)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=8))
def test_what_was_fetched_again_is_joined_once_whatever_came_first(starts):
    parts = [
        map_records([record(at) for at in range(start, start + 5)], INTEGERS) for start in starts
    ]
    joined = join_records(parts)
    expected = sorted({at for start in starts for at in range(start, start + 5)})
    assert list(joined.offsets) == expected
    assert joined.rows.column("primary").to_pylist() == [1000 + at for at in expected]
    assert joined.end == max(starts) + 5


def test_headers_of_some_parts_are_null_in_the_others():
    with_headers = map_records([record(1, headers=[("a", b"b")])], INTEGERS)
    joined = join_records([map_records([record(0)], INTEGERS), with_headers])
    assert column(joined, "headers") == [None, [{"key": "a", "value": b"b"}]]

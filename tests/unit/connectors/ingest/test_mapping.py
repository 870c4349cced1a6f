"""Records become rows byte for byte; what cannot becomes a dead letter, alone."""

import mmap
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.dlq.record import advice_for, decode_dead_letter
from connectors.ingest.mapping import concat_rows, join_records, map_partitions
from connectors.kafka import Fetched, Partition
from connectors.kafka.terms import NULL_KEY_ID
from connectors.settings.stream_settings import MappingRules
from storage_core import HEADERS_TYPE, KEY_BYTES_MAX, InvalidRequestError
from tests.unit.connectors.records import Plain, plain, record, shard_records

STORE_SOME = """
import sys
import numpy as np
import pyarrow as pa
from connectors.ingest.mapping import map_partitions
from connectors.kafka import Fetched, Partition
from connectors.settings.stream_settings import MappingRules
from storage_core import Stream
offsets = np.arange(100)
column = pa.array([int(each).to_bytes(4, "big") for each in offsets], pa.binary())
only = Partition("orders", 0)
kinds = np.ones(100, np.int8)
fetched = Fetched({only: (0, 100)}, {only: 0}, offsets, offsets, kinds, column, column)
with Stream.create(sys.argv[1], "orders") as stream:
    for _, records in map_partitions(fetched, [only], MappingRules()):
        stream.append_batch(records.rows, shard=0, addresses=records.offsets)
print("numpy.ma" in sys.modules)
"""
INTEGERS = MappingRules()
CARRIED = MappingRules(key_mode="none")
DICTIONARY = MappingRules(key_mode="dictionary")
IDS = st.integers(-(2**31), 2**31 - 1)
VALUES = st.none() | st.binary(max_size=20)
HEADERS = st.none() | st.lists(
    st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), min_size=1, max_size=3
)
# Headers that cannot be read are null.
PLAIN = st.builds(
    Plain,
    st.builds(Partition, st.sampled_from(["orders", "payments"]), st.integers(0, 2)),
    st.integers(0, 2**40),
    st.none() | st.binary(min_size=4, max_size=4) | st.binary(max_size=6),
    st.none() | st.binary(max_size=6),
    st.integers(-1, 2**40),
    st.integers(0, 2),
    HEADERS,
    st.booleans(),
).map(lambda item: item._replace(headers=None) if item.is_misnamed else item)
RULES = st.builds(
    MappingRules,
    primary=st.sampled_from(["timestamp", "offset"]),
    key_mode=st.sampled_from(["integer", "dictionary", "none"]),
    null_key=st.sampled_from(["keep", "dead-letter"]),
    payload_bytes_max=st.integers(0, 7),
)


def map_records(messages, rules):
    ((_, records),) = shard_records(messages, rules)
    return records


def key_of(secondary):
    return secondary.to_bytes(4, "big", signed=True)


def column(mapped, name):
    return mapped.rows.column(name).to_pylist()


def binary(values, ahead):
    """Return a column that is a part of another one."""
    return pa.array([*ahead, *values], pa.binary()).slice(len(ahead))


def fetched_of_plain(records, ahead):
    """Return records as they are fetched."""
    of_partitions: dict[Partition, list[Plain]] = {}
    for item in records:
        of_partitions.setdefault(item.partition, []).append(item)
    ordered: list[Plain] = []
    runs, epochs = {}, {}
    for epoch, (partition, own) in enumerate(of_partitions.items()):
        runs[partition] = len(ordered), len(ordered) + len(own)
        epochs[partition] = epoch
        ordered += sorted(own, key=lambda item: item.offset)
    headers = [item.headers for item in ordered]
    misnamed = np.array([item.is_misnamed for item in ordered], np.bool_)
    return Fetched(
        runs,
        epochs,
        np.array([item.offset for item in ordered], np.int64),
        np.array([item.timestamp for item in ordered], np.int64),
        np.array([item.kind for item in ordered], np.int8),
        binary([item.key for item in ordered], ahead),
        binary([item.value for item in ordered], ahead),
        pa.array(headers, HEADERS_TYPE) if any(headers) else None,
        misnamed if misnamed.any() else None,
    )


def reason_of(item, rules):
    """Return how the reason begins for which a record cannot become a row, if it cannot."""
    if len(item.value or b"") > rules.payload_bytes_max:
        return f"value of {len(item.value)} bytes"
    if item.is_misnamed:
        return "a header's name"
    if rules.primary == "timestamp" and item.kind == 0:
        return "no timestamp"
    if rules.key_mode == "none" or (item.key is None and rules.null_key == "keep"):
        return None
    if item.key is None:
        return "no key"
    is_fit = rules.key_mode == "dictionary" or len(item.key) == 4
    return None if is_fit else f"key of {len(item.key)} bytes"


def row_of(item, rules):
    has_id = rules.key_mode == "integer" and item.key is not None
    no_id = None if rules.key_mode == "dictionary" else NULL_KEY_ID
    return {
        "primary": item.timestamp if rules.primary == "timestamp" else item.offset,
        "secondary": int.from_bytes(item.key, "big", signed=True) if has_id else no_id,
        "payload": item.value,
        "key": item.key,
        "timestamp": item.timestamp,
        "timestamp_type": item.kind - 1,
        "headers": item.headers and [{"key": name, "value": of} for name, of in item.headers],
    }


@given(
    st.lists(PLAIN, min_size=1, max_size=20, unique_by=lambda item: item.offset),
    st.lists(VALUES, max_size=2),
    RULES,
)
def test_whatever_comes_each_record_is_its_row_or_its_dead_letter(records, ahead, rules):
    fetched = fetched_of_plain(records, ahead)
    mapped = dict(map_partitions(fetched, fetched.runs, rules))
    assert mapped.keys() == fetched.runs.keys()
    for partition, own in mapped.items():
        expected = [item for item in plain(fetched) if item.partition == partition]
        sound = [item for item in expected if reason_of(item, rules) is None]
        assert own.offsets.tolist() == [item.offset for item in sound]
        rows = [{"headers": None} | row for row in own.rows.to_pylist()]
        assert rows == [row_of(item, rules) for item in sound]
        letters = {i: decode_dead_letter(raw) for i, raw in own.dead_letters.items()}
        refused = [item for item in expected if reason_of(item, rules) is not None]
        assert list(letters) == [item.offset for item in refused]
        for letter, item in zip(letters.values(), refused, strict=True):
            assert letter.reason.startswith(reason_of(item, rules))
            assert (letter.topic, letter.partition, letter.offset) == (*partition, item.offset)
            assert (letter.key, letter.value, letter.headers) == (
                item.key,
                item.value,
                item.headers,
            )
            assert (letter.timestamp, letter.timestamp_type) == (item.timestamp, item.kind - 1)
        assert (own.start, own.end) == (expected[0].offset, expected[-1].offset + 1)
        assert own.epoch == fetched.epochs[partition]


@given(st.lists(IDS, min_size=1, max_size=20), st.lists(VALUES, max_size=3))
def test_keys_that_are_all_ids_are_read_where_their_column_begins(ids, ahead):
    here = Partition("orders", 0)
    records = [
        Plain(here, i, key_of(item), None, 0, 1, None, is_misnamed=False)
        for i, item in enumerate(ids)
    ]
    fetched = fetched_of_plain(records, ahead)
    ((_, mapped),) = map_partitions(fetched, [here], INTEGERS)
    assert column(mapped, "secondary") == ids


def test_dead_letter_is_written_as_it_always_was():
    headers: list[tuple[str, bytes | None]] = [("\u00e4", b"b"), ("\u00e4", None)]
    messages = [record(7, b"text7", b"\0v", headers=headers, partition=3), record(9, b"")]
    (_, first), (_, second) = shard_records(messages, INTEGERS)
    assert first.dead_letters[7] == (
        b'{"reason": "key of 5 bytes; an integer key has 4", "topic": "orders", "partition": 3, '
        b'"offset": 7, "timestamp": 1007, "timestamp_type": 0, "key": "dGV4dDc=", '
        b'"value": "AHY=", "headers": [["\\u00e4", "Yg=="], ["\\u00e4", null]]}'
    )
    assert second.dead_letters[9] == (
        b'{"reason": "key of 0 bytes; an integer key has 4", "topic": "orders", "partition": 0, '
        b'"offset": 9, "timestamp": 1009, "timestamp_type": 0, "key": "", "value": "dg==", '
        b'"headers": null}'
    )


@given(st.lists(st.tuples(IDS, VALUES, st.integers(0, 2**40)), min_size=1, max_size=20))
def test_rows_are_the_records(items):
    messages = [
        record(3 * i, key_of(secondary), value, timestamp=(1, stamp))
        for i, (secondary, value, stamp) in enumerate(items)
    ]
    mapped = map_records(messages, INTEGERS)
    assert list(mapped.offsets) == [3 * i for i in range(len(items))]
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
    messages = [record(i, headers=given) for i, given in enumerate(headers)]
    mapped = map_records(messages, INTEGERS)
    if not any(headers):
        assert "headers" not in mapped.rows.schema.names
        return
    result = [
        None if item is None else [(item["key"], item["value"]) for item in item]
        for item in column(mapped, "headers")
    ]
    assert result == headers


@given(st.lists(st.tuples(st.integers(0, 2), VALUES, HEADERS), min_size=1, max_size=40))
def test_size_is_what_the_columns_and_dead_letters_take(records):
    messages = [
        record(i, value=value, headers=headers, partition=partition)
        for i, (partition, value, headers) in enumerate(records)
    ]
    for _, mapped in shard_records(messages, MappingRules(payload_bytes_max=5)):
        taken = mapped.rows.nbytes + sum(map(len, mapped.dead_letters.values()))
        # Places behind the last, and bits of what is null.
        assert mapped.size <= taken <= mapped.size + 8 + 3 * (mapped.count // 8 + 2)


@given(VALUES, st.none() | st.binary(max_size=9), HEADERS)
def test_dead_letter_is_the_record_byte_for_byte(value, key, headers):
    rules = MappingRules(payload_bytes_max=1, null_key="dead-letter")
    message = record(4, key, (value or b"") + b"12", headers=headers, partition=3)
    result = decode_dead_letter(map_records([message], rules).dead_letters[4])
    assert (result.topic, result.partition, result.offset) == ("orders", 3, 4)
    assert (result.key, result.value) == (key, message.value())
    assert result.headers == headers
    assert (result.timestamp, result.timestamp_type) == (1004, 0)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), min_size=1, max_size=30))
def test_partitions_of_several_topics_come_apart_in_their_order(places):
    messages = [
        record(i, topic=topic, partition=number) for i, (topic, number) in enumerate(places)
    ]
    result = {
        (part.topic, part.number): list(records.offsets)
        for part, records in shard_records(messages, INTEGERS)
    }
    expected = {
        place: [i for i, item in enumerate(places) if item == place] for place in set(places)
    }
    assert result == expected


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
        map_records([record(i) for i in range(start, start + 5)], INTEGERS) for start in starts
    ]
    joined = join_records(parts)
    expected = sorted({i for start in starts for i in range(start, start + 5)})
    assert list(joined.offsets) == expected
    assert joined.rows.column("primary").to_pylist() == [1000 + i for i in expected]
    assert joined.end == max(starts) + 5


def test_headers_of_some_parts_are_null_in_the_others():
    with_headers = map_records([record(1, headers=[("a", b"b")])], INTEGERS)
    joined = join_records([map_records([record(0)], INTEGERS), with_headers])
    assert column(joined, "headers") == [None, [{"key": "a", "value": b"b"}]]


def test_more_values_than_a_column_takes_are_refused_and_not_cut():
    # Memory that nobody writes to takes no room.
    value = pa.py_buffer(mmap.mmap(-1, 2**30))
    bounds = pa.py_buffer(np.array([0, 2**30], dtype=np.int32).tobytes())
    half = pa.BinaryArray.from_buffers(pa.binary(), 1, [None, bounds, value])
    batch = pa.RecordBatch.from_arrays([half], names=["payload"])
    with pytest.raises(InvalidRequestError, match="lower round_bytes_max"):
        concat_rows([batch, batch])


def test_first_round_of_a_process_does_without_masked_arrays(tmp_path):
    command = [sys.executable, "-c", STORE_SOME, str(tmp_path / "root")]
    here = Path(__file__).parents[4]
    ran = subprocess.run(command, cwd=here, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


def test_key_longer_than_a_dictionary_takes_is_a_dead_letter_with_what_to_set():
    messages = [record(0, key=b"a" * KEY_BYTES_MAX), record(1, key=b"a" * (KEY_BYTES_MAX + 1))]
    mapped = map_records(messages, DICTIONARY)
    assert mapped.offsets.tolist() == [0]
    reason = decode_dead_letter(mapped.dead_letters[1]).reason
    assert reason == "key of 65536 bytes; a key that rows belong to has 65535 at most"
    assert "key_mode" in (advice_for(reason) or "")

"""Stored batches become Spark's to the row and to the type, whatever state rows are in."""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_core import HEADERS_TYPE
from streaming_jobs.common.timestamps import as_timestamps
from streaming_jobs.source.executor.row_batches import RowBatches, StreamShape
from streaming_jobs.source.requests import RowRules
from streaming_jobs.source.spark_columns import arrow_schema, known_columns

PLAIN = StreamShape("events", "ms", is_kafka=False, has_ids=True)
TOPIC = StreamShape("orders", "ms", is_kafka=True, has_ids=True)
SEQUENCE = StreamShape("events", "sequence", is_kafka=False, has_ids=True)
INT64S = st.integers(-(2**63), 2**63 - 1)
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def stored(count=4, first=0, **columns):
    values = {
        "payload": pa.array([b"v%d" % (first + at) for at in range(count)], pa.binary()),
        "address": pa.array(range(first, first + count), pa.int64()),
        "primary": pa.array(range(first, first + count), pa.int64()),
        "secondary": pa.array([7] * count, pa.int32()),
        "version": pa.array([65535] * count, pa.uint16()),
        "late": pa.array([False] * count),
        "state": pa.array([0] * count, pa.uint8()),
        "key": pa.array([b"k"] * count, pa.binary()),
        "headers": pa.nulls(count, HEADERS_TYPE),
        "timestamp": pa.array([1_000] * count, pa.int64()),
        "timestamp_type": pa.array([0] * count, pa.int8()),
        "schema_id": pa.nulls(count, pa.int32()),
        **columns,
    }
    return pa.RecordBatch.from_pydict(values)


def at_ms(time):
    return datetime.fromtimestamp(time / 1000, UTC)


def made(batch, shape=PLAIN, **rules):
    return list(RowBatches(shape, 3, RowRules(known_columns(), **rules)).of([batch]))


def values(batch, column, shape=PLAIN, **rules):
    return [
        value
        for spark_batch in made(batch, shape, **rules)
        for value in spark_batch.column(column).to_pylist()
    ]


@pytest.mark.parametrize("shape", [PLAIN, TOPIC], ids=["plain", "topic"])
def test_batches_have_the_declared_schema(shape):
    assert [batch.schema for batch in made(stored(), shape)] == [arrow_schema(known_columns())]


def test_version_is_not_cut_to_a_smaller_type():
    assert values(stored(1), "version") == [65535]


def test_schema_id_is_that_of_a_registry_or_null():
    batch = stored(3, schema_id=pa.array([7, None, 0], pa.int32()))
    assert values(batch, "schema_id") == [7, None, None]


def test_expired_rows_are_hidden_by_their_stored_state():
    batch = stored(state=pa.array([0, 3, 1, 3], pa.uint8()))
    assert values(batch, "offset") == [0, 2]
    assert values(batch, "offset", has_expired=True) == [0, 1, 2, 3]


def test_late_rows_are_hidden_when_asked():
    batch = stored(late=pa.array([False, True, True, False]))
    assert values(batch, "offset", has_late=False) == [0, 3]


def test_keys_choose_rows_and_null_is_a_key():
    batch = stored(key=pa.array([b"a", None, b"b", b"a"], pa.binary()))
    assert values(batch, "offset", TOPIC, keys=(b"a",)) == [0, 3]
    assert values(batch, "offset", TOPIC, keys=(b"b", None)) == [1, 2]


def test_ids_that_mean_nothing_outside_are_null():
    shape = StreamShape("orders", "ms", is_kafka=True, has_ids=False)
    assert values(stored(2), "secondary", shape) == [None, None]


def test_record_without_headers_has_null_and_not_an_empty_list():
    headers = pa.array([None, [("a", b"1"), ("a", None)], []], HEADERS_TYPE)
    assert values(stored(3, headers=headers), "headers", TOPIC) == [
        None,
        [{"key": "a", "value": b"1"}, {"key": "a", "value": None}],
        [],
    ]


def test_record_without_a_timestamp_has_null():
    batch = stored(2, timestamp=pa.array([5, -1]), timestamp_type=pa.array([1, -1], pa.int8()))
    assert values(batch, "timestampType", TOPIC) == [1, -1]
    assert [value is None for value in values(batch, "timestamp", TOPIC)] == [False, True]


def test_sequence_has_no_timestamps_but_those_that_were_written():
    none = {"timestamp": pa.nulls(1, pa.int64()), "timestamp_type": pa.nulls(1, pa.int8())}
    assert values(stored(1, **none), "timestamp", SEQUENCE) == [None]
    assert values(stored(1, **none), "timestampType", SEQUENCE) == [-1]
    assert values(stored(1), "timestamp", SEQUENCE) == [at_ms(1_000)]
    assert values(stored(1), "timestampType", SEQUENCE) == [0]


@pytest.mark.parametrize("column", ["key", "headers", "timestamp", "timestampType"])
def test_envelope_written_without_kafka_reads_as_kafkas_does(column):
    headers = pa.array([None, [("a", b"1")], []], HEADERS_TYPE)
    kinds = pa.array([0, 1, 1], pa.int8())
    batch = stored(3, headers=headers, timestamp_type=kinds)
    assert values(batch, column) == values(batch, column, TOPIC)


def test_time_of_a_row_that_brought_none_is_its_primary():
    stamps = pa.array([None, 9_000, None], pa.int64())
    kinds = pa.array([None, None, 1], pa.int8())
    batch = stored(3, timestamp=stamps, timestamp_type=kinds)
    assert values(batch, "timestamp") == [at_ms(0), at_ms(9_000), at_ms(2)]
    assert values(batch, "timestampType") == [0, 0, 0]


@given(st.lists(INT64S, min_size=1), st.sampled_from(sorted(PER_SECOND)))
def test_moments_are_exact_or_null(times, unit):
    micros = as_timestamps(pa.array(times, pa.int64()), unit).view(pa.int64()).to_pylist()
    for time, moment in zip(times, micros, strict=True):
        exact = time * 10**6 // PER_SECOND[unit]
        assert moment == (exact if -(2**63) <= exact < 2**63 else None)


def test_missing_times_stay_missing():
    assert as_timestamps(pa.array([None, 1], pa.int64()), "ms").null_count == 1


def test_small_blocks_are_joined_and_large_ones_left_alone():
    row_batches = RowBatches(PLAIN, 3, RowRules(known_columns()))
    sizes = [3000, *[100] * 30]
    firsts = np.cumsum([0, *sizes])
    blocks = [stored(size, int(first)) for size, first in zip(sizes, firsts, strict=False)]
    batches = list(row_batches.of(blocks))
    assert [len(batch) for batch in batches] == [3000, 2100, 900]
    offsets = [value for batch in batches for value in batch.column("offset").to_pylist()]
    assert offsets == list(range(6000))


def test_value_is_handed_on_and_not_copied():
    batch = stored(3000)
    handed = made(batch)[0].column("value")
    assert handed.buffers()[2].address == batch.column("payload").buffers()[2].address


def test_only_what_columns_need_is_read():
    assert RowBatches(PLAIN, 0, RowRules(("value",), has_expired=True)).stored == ("payload",)
    assert RowBatches(PLAIN, 0, RowRules(("topic",))).stored == ("state",)

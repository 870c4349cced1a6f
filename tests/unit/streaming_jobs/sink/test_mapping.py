"""The sink's columns: which schemas it takes, and that values fit without loss or are refused."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from storage_core import HEADERS_TYPE, InvalidRequestError
from storage_core.format.record import rows_from_arrow
from streaming_jobs.common.timestamps import as_timestamps
from streaming_jobs.sink.mapping import ColumnMapping, mapping_of
from streaming_jobs.source.spark_columns import (
    HEADERS_ARROW,
    arrow_schema,
    known_columns,
    spark_schema,
)
from tests.examples import examples

RECORDS = "primary long, secondary int, value binary"
KAFKA = "key binary, value binary, timestamp timestamp"
ORIGIN = "topic string, partition int, offset long, timestampType int"
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
MOMENT_MS = 1_767_323_045_678
TIME = pa.timestamp("us", tz="UTC")
NOW_NS = 1_800_000_000_123_456_789


OF_KAFKA = ["primary", "secondary", "payload", "key"]
HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
TYPES: dict[str, DataType] = {
    "binary": BinaryType(),
    "byte": ByteType(),
    "double": DoubleType(),
    "headers": ArrayType(HEADER),
    "texts": ArrayType(StringType()),
    "pairs": ArrayType(
        StructType([StructField("k", StringType()), StructField("v", BinaryType())])
    ),
    "int": IntegerType(),
    "long": LongType(),
    "short": ShortType(),
    "string": StringType(),
    "timestamp": TimestampType(),
    "timestamp_ntz": TimestampNTZType(),
}


def mapped(schema: str, unit: str = "ms", *, has_keys: bool = False) -> ColumnMapping:
    """Return the mapping of a schema of `name type` separated by commas."""
    columns = (column.split() for column in schema.split(","))
    fields = [StructField(name, TYPES[kind]) for name, kind in columns]
    return mapping_of(StructType(fields), unit, has_keys=has_keys)  # type: ignore[arg-type]  # a unit's name


def kafka_batch(keys, times=None, kind: pa.DataType | None = None) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "key": pa.array(keys, kind or pa.binary()),
            "value": pa.array([b"v"] * len(keys), pa.binary()),
            "timestamp": pa.array(times or [MOMENT] * len(keys), TIME),
        }
    )


def records(**columns: object) -> pa.RecordBatch:
    chosen = {"primary": pa.array([1]), "secondary": pa.array([2]), "value": pa.array([b"v"])}
    return pa.record_batch({**chosen, **columns})


@pytest.mark.parametrize(
    "schema",
    [
        RECORDS,
        f"{RECORDS}, version int",
        "value string, secondary long, primary short, version byte",
        "primary timestamp, secondary int, value binary",
        KAFKA,
        f"{KAFKA}, {ORIGIN}, headers headers",
        "key int, value string, timestamp timestamp",
        "key binary, value binary",
        f"key string, {RECORDS}, headers headers, timestamp timestamp",
    ],
)
def test_schema_of_records_or_of_kafka_is_taken(schema):
    mapped(schema)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("primary long, secondary int", "the sink takes columns primary, secondary, value"),
        (f"{RECORDS}, colour string", "not primary, secondary, value, colour"),
        (f"{RECORDS}, {KAFKA}", "the sink takes columns"),
        ("value binary, value binary, primary long, secondary int", "the sink takes columns"),
        ("primary double, secondary int, value binary", "'primary' is double; it must be a whole"),
        ("primary long, secondary string, value binary", "'secondary' is string"),
        ("primary long, secondary int, value int", "'value' is int; it must be binary or string"),
        (f"{RECORDS}, version string", "'version' is string"),
        (
            "key string, value binary, timestamp timestamp",
            "keyMode=dictionary, cast the key to int",
        ),
        (f"key int, {RECORDS}", "'key' is int; beside primary and secondary it must be binary"),
        ("key binary, value binary, timestamp long", "'timestamp' is bigint"),
        ("primary timestamp_ntz, secondary int, value binary", "'primary' is timestamp_ntz"),
    ],
)
def test_other_schemas_are_refused_in_a_line(schema, said):
    with pytest.raises(InvalidRequestError, match=said):
        mapped(schema)


@pytest.mark.parametrize("schema", [KAFKA, "primary timestamp, secondary int, value binary"])
def test_timestamp_is_no_place_in_a_sequence(schema):
    with pytest.raises(InvalidRequestError, match="the stream counts a sequence"):
        mapped(schema, "sequence")


def test_columns_of_records_keep_their_values():
    batch = mapped(f"{RECORDS}, version int").rows(records(version=pa.array([3])), NOW_NS)
    assert batch.to_pylist() == [{"primary": 1, "secondary": 2, "payload": b"v", "version": 3}]


def test_key_of_four_bytes_is_a_big_endian_integer():
    batch = mapped(KAFKA).rows(kafka_batch([b"\0\0\1\2", b"\xff\xff\xff\xff"]).slice(0, 2), NOW_NS)
    assert batch.column("secondary").to_pylist() == [258, -1]
    part = mapped(KAFKA).rows(kafka_batch([b"\0\0\0\1", b"\0\0\0\2"]).slice(1), NOW_NS)
    assert part.column("secondary").to_pylist() == [2]


def test_integer_key_is_itself():
    rows = mapped("key int, value binary, timestamp timestamp").rows(
        kafka_batch([7], kind=pa.int32()), NOW_NS
    )
    assert rows.column("secondary").to_pylist() == [7]


def test_empty_batch_of_kafkas_columns_stays_empty():
    assert mapped(KAFKA).rows(kafka_batch([]), NOW_NS).num_rows == 0


@pytest.mark.parametrize(
    ("unit", "primary"),
    [("ms", MOMENT_MS), ("us", MOMENT_MS * 1000), ("ns", MOMENT_MS * 10**6)],
)
def test_timestamp_becomes_a_primary_in_the_streams_unit(unit, primary):
    rows = mapped(KAFKA, unit).rows(kafka_batch([b"\0\0\0\1"]), NOW_NS)
    assert rows.column("primary").to_pylist() == [primary]


def test_timestamp_finer_than_the_unit_is_refused_by_its_column():
    fine = MOMENT + timedelta(microseconds=1)
    with pytest.raises(InvalidRequestError, match=r"column 'timestamp' does not fit .*lose data"):
        mapped(KAFKA).rows(kafka_batch([b"\0\0\0\1"], [fine]), NOW_NS)


@pytest.mark.parametrize(("unit", "cut"), [("ms", "millisecond"), ("s", "second")])
def test_timestamp_finer_than_the_unit_is_told_what_to_do(unit, cut):
    fine = MOMENT + timedelta(microseconds=1)
    said = (
        rf"lose data: \d+; write to a stream made with unit=us, or date_trunc\('{cut}', timestamp"
    )
    with pytest.raises(InvalidRequestError, match=said):
        mapped(KAFKA, unit).rows(kafka_batch([b"\0\0\0\1"], [fine]), NOW_NS)
    times = records(primary=pa.array([fine], TIME))
    with pytest.raises(InvalidRequestError, match=rf"date_trunc\('{cut}', primary\)"):
        mapped("primary timestamp, secondary int, value binary", unit).rows(times, NOW_NS)


def test_timestamp_beyond_what_the_unit_can_count_is_refused_by_its_column():
    far = datetime(2400, 1, 1, tzinfo=UTC)
    with pytest.raises(InvalidRequestError, match="column 'timestamp' does not fit") as raised:
        mapped(KAFKA, "ns").rows(kafka_batch([b"\0\0\0\1"], [far]), NOW_NS)
    assert "date_trunc" not in str(raised.value)


@pytest.mark.parametrize("key", [b"", b"\0\0\1", b"\0\0\0\0\1"])
def test_key_of_another_length_is_refused_by_its_column(key):
    with pytest.raises(InvalidRequestError, match="column 'key' does not fit"):
        mapped(KAFKA).rows(kafka_batch([b"\0\0\0\1", key]), NOW_NS)


@pytest.mark.parametrize("column", ["primary", "secondary"])
def test_null_in_a_needed_column_is_refused_by_its_name(column):
    with pytest.raises(InvalidRequestError, match=f"column '{column}' holds nulls"):
        mapped(RECORDS).rows(records(**{column: pa.array([None], pa.int64())}), NOW_NS)


def test_null_key_is_refused_by_its_name():
    with pytest.raises(InvalidRequestError, match="column 'key' holds nulls"):
        mapped(KAFKA).rows(kafka_batch([None]), NOW_NS)


def test_headers_are_carried_and_where_a_record_came_from_is_left_out():
    schema = f"{KAFKA}, {ORIGIN}, headers headers"
    headers = pa.array([[{"key": "k", "value": b"h"}]], HEADERS_ARROW)
    batch = kafka_batch([b"\0\0\0\1"]).append_column("headers", headers)
    batch = batch.append_column("timestampType", pa.array([0], pa.int32()))
    rows = mapped(schema).rows(batch, NOW_NS)
    assert rows.schema.names == [*OF_KAFKA, "headers", "timestamp", "timestamp_type"]
    carried: Any = rows.column("headers").cast(HEADERS_TYPE)
    assert carried.to_pylist() == [[{"key": "k", "value": b"h"}]]


@pytest.mark.parametrize("kind", ["texts", "pairs"])
def test_headers_of_another_shape_are_refused_before_a_job_starts(kind):
    with pytest.raises(InvalidRequestError, match=r"column 'headers' is array<.*it must be array<"):
        mapped(f"{KAFKA}, headers {kind}")


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ([{"key": "k", "value": b"h"}, None], "a null is among the headers; filter"),
        ([{"key": None, "value": b"h"}], "a header whose key is null is among the headers; filter"),
    ],
)
def test_header_that_is_null_or_has_no_key_is_refused_by_its_column(headers, said):
    rows = records(headers=pa.array([headers], HEADERS_ARROW))
    with pytest.raises(InvalidRequestError, match=f"column 'headers' does not fit .*: {said}"):
        mapped(f"{RECORDS}, headers headers").rows(rows, NOW_NS)


@pytest.mark.parametrize("headers", [None, [], [{"key": "k", "value": None}]])
def test_headers_may_be_none_or_have_no_value(headers):
    rows = records(headers=pa.array([[{"key": None, "value": None}], headers], HEADERS_ARROW)[1:])
    stored = mapped(f"{RECORDS}, headers headers").rows(rows, NOW_NS).column("headers")
    assert stored.to_pylist() == [headers]


@pytest.mark.parametrize("key", [3_000_000_000, -(2**31) - 1])
def test_integer_key_that_is_no_id_is_refused_by_its_column(key):
    with pytest.raises(InvalidRequestError, match=f"column 'key' does not fit .*{key} not in"):
        mapped("key long, value binary, timestamp timestamp").rows(
            kafka_batch([key], kind=pa.int64()), NOW_NS
        )


def test_rows_without_a_time_have_the_time_of_writing():
    batch = kafka_batch([b"\0\0\0\1", b"\0\0\0\2"]).drop_columns(["timestamp"])
    rows = mapped("key binary, value binary", "us").rows(batch, NOW_NS)
    assert rows.column("primary").to_pylist() == [NOW_NS // 1000] * 2


def test_rows_without_a_time_have_no_place_in_a_sequence():
    with pytest.raises(InvalidRequestError, match="select primary, secondary, value"):
        mapped("key binary, value binary", "sequence")


def test_key_is_kept_beside_its_id():
    rows = mapped(KAFKA).rows(kafka_batch([b"\0\0\0\1"]), NOW_NS)
    assert rows.column("key").to_pylist() == [b"\0\0\0\1"]


def test_text_key_beside_an_id_is_kept():
    batch = records(key=pa.array(["user-1"]))
    rows = mapped(f"key string, {RECORDS}").rows(batch, NOW_NS)
    assert rows_from_arrow(rows, 10).envelope["key"].to_pylist() == [b"user-1"]


@pytest.mark.parametrize(
    ("schema", "form"),
    [
        ("primary long, key string, value binary", "records"),
        ("primary long, secondary int, key binary, value binary", "records"),
        ("key string, value binary, timestamp timestamp", "kafka"),
        ("key binary, value string", "kafka"),
    ],
)
def test_stream_with_a_dictionary_takes_rows_with_keys(schema, form):
    mapping = mapped(schema, has_keys=True)
    assert (mapping.form, mapping.carried >= {"key"}) == (form, True)


def test_rows_of_a_dictionary_bring_their_keys_and_no_id():
    mapping = mapped("primary long, key string, value binary", has_keys=True)
    batch = pa.RecordBatch.from_pydict(
        {"primary": [1, 2], "key": pa.array(["a", None]), "value": pa.array([b"x", None])}
    )
    rows = rows_from_arrow(mapping.rows(mapping.taken(batch), NOW_NS), 10, has_keys=True)
    assert rows.envelope["key"].to_pylist() == [b"a", None]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("primary long, secondary int, value binary", "primary, key, value"),
        ("key int, value binary", "cast it to string"),
    ],
)
def test_rows_without_fitting_keys_are_refused_by_a_dictionary(schema, said):
    with pytest.raises(InvalidRequestError, match=said):
        mapped(schema, has_keys=True)


def test_every_column_that_the_source_shows_is_taken():
    mapping = mapping_of(spark_schema(known_columns()), "ms")
    assert mapping.form == "records"
    assert mapping.carried == {"version", "key", "headers", "timestamp"}
    empty = pa.RecordBatch.from_pylist([], schema=arrow_schema(known_columns()))
    left_out = set(known_columns()) - set(mapping.taken(empty).schema.names)
    assert left_out == {"topic", "partition", "offset", "late", "state", "schema_id"}


@pytest.mark.parametrize(
    ("unit", "time", "kind", "stored"),
    [
        ("ms", MOMENT, 0, (None, None)),
        ("ms", MOMENT, None, (None, None)),
        ("ms", MOMENT, 1, (MOMENT_MS, 1)),
        ("ms", MOMENT + timedelta(seconds=1), 0, (MOMENT_MS + 1000, 0)),
        ("sequence", MOMENT, 0, (MOMENT_MS, 0)),
        ("sequence", None, -1, (None, -1)),
    ],
)
def test_time_is_kept_where_it_says_more_than_the_primary(unit, time, kind, stored):
    schema = f"{RECORDS}, timestamp timestamp, timestampType int"
    times, kinds = pa.array([time], TIME), pa.array([kind], pa.int32())
    batch = records(primary=pa.array([MOMENT_MS]), timestamp=times, timestampType=kinds)
    rows = mapped(schema, unit).rows(batch, NOW_NS)
    stored_times = rows.column("timestamp").to_pylist() + rows.column("timestamp_type").to_pylist()
    assert tuple(stored_times) == stored


def test_time_of_its_own_finer_than_a_millisecond_is_refused_by_its_column():
    times = pa.array([MOMENT + timedelta(microseconds=1)], TIME)
    with pytest.raises(InvalidRequestError, match=r"date_trunc\('millisecond', timestamp\)"):
        mapped(f"{RECORDS}, timestamp timestamp").rows(records(timestamp=times), NOW_NS)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("primary", [-(2**63), -1, 0, MOMENT_MS, 2**63 - 1])
def test_what_the_source_shows_of_a_primary_is_not_kept_again(unit, primary):
    times = as_timestamps(pa.array([primary]), unit)
    batch = records(primary=pa.array([primary]), timestamp=times)
    rows = mapped(f"{RECORDS}, timestamp timestamp", unit).rows(batch, NOW_NS)
    assert rows.column("timestamp").null_count == 1


def shown_by_the_source(primaries, unit, kind=0):
    """Return rows as the source shows them of a stream of a unit."""
    times = pa.nulls(len(primaries), TIME) if unit == "sequence" else as_timestamps(primaries, unit)
    kinds = pa.array([kind] * len(primaries), pa.int32())
    rest = {"secondary": primaries, "value": pa.array([b"v"] * len(primaries))}
    return pa.record_batch(
        {"primary": primaries, "timestamp": times, **rest, "timestampType": kinds}
    )


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("counted", ["s", "ms", "us", "ns"])
@settings(max_examples=examples(20))
@given(
    moment_us=st.integers(10**9, 4 * 10**15),
    own_us=st.integers(10**9, 4 * 10**15),
)
def test_unit_that_the_timestamps_tell_is_the_streams_or_refused(unit, counted, moment_us, own_us):
    number = moment_us * 1000 // {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[counted]
    rows = shown_by_the_source(pa.array([0, number, own_us]), counted)
    mapping = mapped(f"{RECORDS}, timestamp timestamp, timestampType int", unit)
    if unit == counted:
        assert mapping.rows(rows, NOW_NS).column("timestamp").null_count == 3
    else:
        with pytest.raises(InvalidRequestError, match=f"count {counted}, .* with unit={counted} "):
            mapping.rows(rows, NOW_NS)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_rows_of_a_sequence_are_refused_where_primaries_are_times(unit):
    rows = shown_by_the_source(pa.array([5]), "sequence", -1)
    schema = f"{RECORDS}, timestamp timestamp, timestampType int"
    with pytest.raises(InvalidRequestError, match=r"count a sequence, .* with unit=sequence "):
        mapped(schema, unit).rows(rows, NOW_NS)
    assert mapped(schema, "sequence").rows(rows, NOW_NS).column("primary").to_pylist() == [5]


@pytest.mark.parametrize(("time_ms", "kind"), [(0, 0), (4, 0), (None, None), (1, 1)])
def test_time_of_its_own_is_no_other_unit(time_ms, kind):
    times = pa.array([time_ms], pa.timestamp("ms", "UTC")).cast(TIME)
    kinds = pa.array([kind], pa.int32())
    batch = records(primary=pa.array([1000]), timestamp=times, timestampType=kinds)
    rows = mapped(f"{RECORDS}, timestamp timestamp, timestampType int").rows(batch, NOW_NS)
    assert rows.column("timestamp").cast(pa.int64()).to_pylist() == [time_ms]


@pytest.mark.parametrize("primary", [-(2**63), 2**63 - 1])
def test_time_of_its_own_beside_a_primary_that_is_no_moment_is_kept(primary):
    batch = records(primary=pa.array([primary]), timestamp=pa.array([MOMENT], TIME))
    rows = mapped(f"{RECORDS}, timestamp timestamp").rows(batch, NOW_NS)
    assert rows.column("timestamp").to_pylist() == [MOMENT_MS]

"""The sink's columns: which schemas it takes, and that values fit without loss or are refused."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
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
from streaming_jobs.columns import HEADERS_ARROW
from streaming_jobs.sink_mapping import ColumnMapping, mapping_of

RECORDS = "primary long, secondary int, value binary"
KAFKA = "key binary, value binary, timestamp timestamp"
ORIGIN = "topic string, partition int, offset long, timestampType int"
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
MOMENT_MS = 1_767_323_045_678
TIME = pa.timestamp("us", tz="UTC")


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


def mapped(schema: str, unit: str = "ms") -> ColumnMapping:
    """Return the mapping of a schema of `name type` parted by commas."""
    columns = (column.split() for column in schema.split(","))
    fields = [StructField(name, TYPES[kind]) for name, kind in columns]
    return mapping_of(StructType(fields), unit)  # type: ignore[arg-type]  # a unit's name


def kafka_batch(keys, times=None, kind: pa.DataType | None = None) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "key": pa.array(keys, kind or pa.binary()),
            "value": pa.array([b"v"] * len(keys), pa.binary()),
            "timestamp": pa.array(times or [MOMENT] * len(keys), TIME),
        }
    )


def records(**columns: object) -> pa.RecordBatch:
    given = {"primary": pa.array([1]), "secondary": pa.array([2]), "value": pa.array([b"v"])}
    return pa.record_batch({**given, **columns})


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
        ("key string, value binary, timestamp timestamp", "'key' is string"),
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
    batch = mapped(f"{RECORDS}, version int").rows(records(version=pa.array([3])))
    assert batch.to_pylist() == [{"primary": 1, "secondary": 2, "payload": b"v", "version": 3}]


def test_key_of_four_bytes_is_a_big_endian_integer():
    batch = mapped(KAFKA).rows(kafka_batch([b"\0\0\1\2", b"\xff\xff\xff\xff"]).slice(0, 2))
    assert batch.column("secondary").to_pylist() == [258, -1]
    part = mapped(KAFKA).rows(kafka_batch([b"\0\0\0\1", b"\0\0\0\2"]).slice(1))
    assert part.column("secondary").to_pylist() == [2]


def test_integer_key_is_itself():
    rows = mapped("key int, value binary, timestamp timestamp").rows(
        kafka_batch([7], kind=pa.int32())
    )
    assert rows.column("secondary").to_pylist() == [7]


def test_empty_batch_of_kafkas_columns_stays_empty():
    assert mapped(KAFKA).rows(kafka_batch([])).num_rows == 0


@pytest.mark.parametrize(
    ("unit", "primary"),
    [("ms", MOMENT_MS), ("us", MOMENT_MS * 1000), ("ns", MOMENT_MS * 10**6)],
)
def test_timestamp_becomes_a_primary_in_the_streams_unit(unit, primary):
    rows = mapped(KAFKA, unit).rows(kafka_batch([b"\0\0\0\1"]))
    assert rows.column("primary").to_pylist() == [primary]


def test_timestamp_finer_than_the_unit_is_refused_by_its_column():
    fine = MOMENT + timedelta(microseconds=1)
    with pytest.raises(InvalidRequestError, match=r"column 'timestamp' does not fit .*lose data"):
        mapped(KAFKA).rows(kafka_batch([b"\0\0\0\1"], [fine]))


@pytest.mark.parametrize(("unit", "cut"), [("ms", "millisecond"), ("s", "second")])
def test_timestamp_finer_than_the_unit_is_told_what_to_do(unit, cut):
    fine = MOMENT + timedelta(microseconds=1)
    said = (
        rf"lose data: \d+; write to a stream made with unit=us, or date_trunc\('{cut}', timestamp"
    )
    with pytest.raises(InvalidRequestError, match=said):
        mapped(KAFKA, unit).rows(kafka_batch([b"\0\0\0\1"], [fine]))
    times = records(primary=pa.array([fine], TIME))
    with pytest.raises(InvalidRequestError, match=rf"date_trunc\('{cut}', primary\)"):
        mapped("primary timestamp, secondary int, value binary", unit).rows(times)


def test_timestamp_beyond_what_the_unit_can_count_is_refused_by_its_column():
    far = datetime(2400, 1, 1, tzinfo=UTC)
    with pytest.raises(InvalidRequestError, match="column 'timestamp' does not fit") as raised:
        mapped(KAFKA, "ns").rows(kafka_batch([b"\0\0\0\1"], [far]))
    assert "date_trunc" not in str(raised.value)


@pytest.mark.parametrize("key", [b"", b"\0\0\1", b"\0\0\0\0\1"])
def test_key_of_another_length_is_refused_by_its_column(key):
    with pytest.raises(InvalidRequestError, match="column 'key' does not fit"):
        mapped(KAFKA).rows(kafka_batch([b"\0\0\0\1", key]))


@pytest.mark.parametrize("column", ["primary", "secondary"])
def test_null_in_a_needed_column_is_refused_by_its_name(column):
    with pytest.raises(InvalidRequestError, match=f"column '{column}' holds nulls"):
        mapped(RECORDS).rows(records(**{column: pa.array([None], pa.int64())}))


def test_null_key_is_refused_by_its_name():
    with pytest.raises(InvalidRequestError, match="column 'key' holds nulls"):
        mapped(KAFKA).rows(kafka_batch([None]))


def test_headers_are_carried_and_where_a_record_came_from_is_left_out():
    schema = f"{KAFKA}, {ORIGIN}, headers headers"
    headers = pa.array([[{"key": "k", "value": b"h"}]], HEADERS_ARROW)
    batch = kafka_batch([b"\0\0\0\1"]).append_column("headers", headers)
    rows = mapped(schema).rows(batch)
    assert rows.schema.names == ["primary", "secondary", "payload", "headers"]
    carried: Any = rows.column("headers").cast(HEADERS_TYPE)
    assert carried.to_pylist() == [[{"key": "k", "value": b"h"}]]


@pytest.mark.parametrize("kind", ["texts", "pairs"])
def test_headers_of_another_shape_are_refused_before_a_job_starts(kind):
    with pytest.raises(InvalidRequestError, match=r"column 'headers' is array<.*it must be array<"):
        mapped(f"{KAFKA}, headers {kind}")

"""Rows that bring fields: which columns are taken, which values they make, and what is kept."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from storage_core import (
    HEADERS_TYPE,
    InvalidRequestError,
    SchemaEntry,
    StreamReader,
    UnavailableError,
)
from storage_core.avro import AvroSchema, body_starts, decode_batch, frame_of
from streaming_jobs.common.field_types import field_columns
from streaming_jobs.sink.field_values import FieldValues
from streaming_jobs.sink.mapping import mapping_of
from streaming_jobs.sink.task import stage
from streaming_jobs.sink.writer import batch_writer
from streaming_jobs.source.executor.typed_values import TypedValues
from streaming_jobs.source.requests import FieldRules
from tests.unit.storage_core.avro.written_columns import random_case
from tests.unit.streaming_jobs.sink.sink_lab import SinkLab

HEAT = json.dumps(
    {
        "type": "record",
        "name": "a.Heat",
        "fields": [
            {"name": "heat", "type": "double"},
            {"name": "key", "type": ["null", "string"], "default": None},
            {"name": "place", "type": "string", "default": "here"},
        ],
    }
)
SCHEMA = AvroSchema.parse(HEAT)
FIELDS = FieldValues(SCHEMA.text, None)
OWN = StructType([StructField("primary", LongType()), StructField("secondary", IntegerType())])
TYPED = StructType([*OWN.fields, StructField("heat", DoubleType())])


def batch_of(**columns: Any) -> pa.RecordBatch:
    count = len(next(iter(columns.values())))
    own = {"primary": list(range(count)), "secondary": pa.array(range(count), pa.int32())}
    return pa.record_batch({**own, **columns})


def decoded(values: Any) -> list[dict[str, Any]]:
    decoded = decode_batch(values, SCHEMA, starts=body_starts(values))
    assert decoded.faults == ()
    return decoded.table.to_pylist()


def mapped(*more: StructField) -> Any:
    return mapping_of(StructType([*OWN.fields, *more]), "ms", fields=FIELDS)


# --- what values are made ----------------------------------------------------------------------


def test_fields_become_the_value_and_what_is_missing_is_the_default():
    made = FIELDS.valued(batch_of(heat=[1.5, 2.5], value_key=["a", None]))
    assert made.schema.names == ["primary", "secondary", "value"]
    assert decoded(made.column("value")) == [
        {"heat": 1.5, "key": "a", "place": "here"},
        {"heat": 2.5, "key": None, "place": "here"},
    ]


def test_value_is_framed_by_the_registrys_id_or_as_a_single_object():
    batch = batch_of(heat=[1.5])
    for number, frame in ((7, b"\x00\x00\x00\x00\x07"), (None, b"\xc3\x01" + SCHEMA.fingerprint)):
        value = FieldValues(SCHEMA.text, number).valued(batch).column("value")[0].as_py()
        assert value.startswith(frame)
        assert frame_of(SCHEMA, number) == frame


def test_row_without_any_field_is_a_tombstone_that_has_no_schema():
    batch = batch_of(heat=[None, 1.5, None], value_key=pa.array([None, None, None], pa.string()))
    rows = mapped(StructField("heat", DoubleType())).rows(FIELDS.valued(batch), 0)
    assert rows.column("payload").is_valid().to_pylist() == [False, True, False]
    assert rows.column("schema").to_pylist() == [None, 0, None]


def test_row_that_does_not_fit_is_named():
    batch = batch_of(heat=[None, 1.5, None], value_key=[None, None, "a"])
    with pytest.raises(InvalidRequestError, match="row 2: field heat is null"):
        FIELDS.valued(batch)


def test_value_of_a_schema_that_is_no_record_is_the_column_value():
    fields = FieldValues(AvroSchema.parse('"long"').text, 3)
    schema = StructType([*OWN.fields, StructField("value", IntegerType())])
    assert mapping_of(schema, "ms", fields=fields).form == "records"
    made = fields.valued(batch_of(value=pa.array([5], pa.int32())))
    assert made.column("value").to_pylist() == [b"\x00\x00\x00\x00\x03\x0a"]


@pytest.mark.parametrize(
    ("of", "spark", "inputs", "expected"),
    [
        ("int", IntegerType(), 5, 5),
        ({"type": "int", "logicalType": "date"}, DateType(), 5, 5),
        ({"type": "int", "logicalType": "time-millis"}, IntegerType(), 5, 5),
        ({"type": "long", "logicalType": "timestamp-nanos"}, LongType(), 5, 5),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 2},
            StringType(),
            "123456789012345678901234567890123456789012.50",
            "123456789012345678901234567890123456789012.50",
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            DecimalType(5, 1),
            "12.5",
            "12.50",
        ),
        ({"type": "fixed", "name": "F", "size": 2}, BinaryType(), b"ab", b"ab"),
    ],
)
def test_column_as_the_source_shows_a_field_is_taken(of, spark, inputs, expected):
    schema = AvroSchema.parse(
        json.dumps({"type": "record", "name": "R", "fields": [{"name": "c", "type": of}]})
    )
    fields = FieldValues(schema.text, None)
    mapping_of(StructType([*OWN.fields, StructField("c", spark)]), "ms", fields=fields)
    kind = to_arrow_schema(StructType([StructField("c", spark)]), timezone="UTC").field("c").type
    column = pa.array([inputs], kind) if isinstance(inputs, int) else pa.array([inputs]).cast(kind)
    values = fields.valued(batch_of(c=column)).column("value")
    decoded = decode_batch(values, schema, starts=10).table.column("c")
    number = {32: pa.int32(), 64: pa.int64()}
    plain = decoded.cast(number[decoded.type.bit_width]) if isinstance(expected, int) else decoded
    assert str(plain[0].as_py()) == str(expected)


def check_round_trip(seed: int) -> int:
    """Show bodies of a random schema as the source does, and write what is shown.

    Raises:
        AssertionError: A value is not what it was, but that a row of nulls has none.
    """
    case = random_case(Random(seed))
    frame = frame_of(case.schema, 7)
    payloads = [frame + body for body in case.bodies]
    writer = SchemaEntry(7, case.schema.identity, case.schema.text)
    columns = field_columns(case.schema)
    names = tuple(each.name for each in columns)
    rules = FieldRules(case.schema.text, case.schema.identity.hex(), names, "PERMISSIVE")
    values = TypedValues(rules, lambda *_: case.schema, "s", 0).of(
        pa.record_batch(
            {
                "payload": pa.array(payloads, pa.binary()),
                "headers": pa.nulls(len(payloads), HEADERS_TYPE),
                "schema_id": pa.array([7] * len(payloads), pa.int32()),
                "schema_fingerprint": pa.array([writer.fingerprint] * len(payloads), pa.binary()),
                "address": pa.array(range(len(payloads)), pa.int64()),
            }
        )
    )
    read_back = pa.record_batch(dict(values.columns))
    kinds = [StructField(each.name, each.spark) for each in columns]
    fields = FieldValues(case.schema.text, 7)
    mapping_of(StructType([*OWN.fields, *kinds]), "ms", fields=fields)
    written: list[Any] = fields.valued(read_back).column("value").to_pylist()
    rows: list[dict[str, Any]] = [
        {name: read_back.column(name)[row].is_valid for name in read_back.schema.names}
        for row in range(len(payloads))
    ]
    for row, (value, payload) in enumerate(zip(written, payloads, strict=True)):
        if values.unread is not None and values.unread[row]:
            continue
        if not any(rows[row].values()):
            assert value is None, (seed, row)
        elif not case.has_widths:
            assert value == payload, (seed, row)
    return len(payloads)


def test_what_the_source_shows_is_written_as_it_was():
    assert sum(check_round_trip(seed) for seed in range(40))


# --- what is refused before a job starts -------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("heat", StringType()), "field heat is string, and the schema has double there"),
        (("value_key", StringType()), "field heat has no column and no default"),
        (("color", StringType()), "no field of a.Heat is the column color; there are heat, value_"),
        (("value", BinaryType()), "'value' is made of the fields of a.Heat .* drop it"),
        (("_corrupt_value", BinaryType()), "where _corrupt_value is null"),
        (("late", StringType()), "no column is a field of a.Heat, which has heat, value_key, pla"),
    ],
)
def test_columns_that_do_not_suit_the_schema_are_refused(more, said):
    with pytest.raises(InvalidRequestError, match=said):
        mapped(StructField(*more))


STATES = AvroSchema.parse(
    json.dumps(
        {
            "type": "record",
            "name": "a.States",
            "fields": [
                {"name": "heat", "type": "double"},
                {"name": "state", "type": ["null", "string"], "default": None},
                {"name": "timestamp", "type": ["null", "long"], "default": None},
                {"name": "version", "type": "int"},
            ],
        }
    )
)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            {"version": IntegerType(), "state": StringType()},
            "column 'state' is the log's own; that of the field state is 'value_state'",
        ),
        (
            {"version": IntegerType()},
            "column 'version' is the log's own; that of the field version is 'value_version'",
        ),
    ],
)
def test_column_of_the_log_that_stands_where_a_field_is_missing_is_refused(columns, said):
    more = [StructField(name, kind) for name, kind in columns.items()]
    with pytest.raises(InvalidRequestError, match=said):
        FieldValues(STATES.text, None).plain(StructType([*TYPED.fields, *more]))


def test_column_of_the_log_stands_beside_a_field_of_its_name_that_has_a_default():
    fields = FieldValues(STATES.text, None)
    more = {"value_version": IntegerType(), "timestamp": LongType()}
    columns = [StructField(name, kind) for name, kind in more.items()]
    plain = fields.plain(StructType([*TYPED.fields, *columns]))
    assert plain.fieldNames() == ["primary", "secondary", "timestamp", "value"]
    both = [StructField("value_state", StringType()), StructField("state", IntegerType())]
    plain = fields.plain(StructType([*TYPED.fields, *columns, *both]))
    assert plain.fieldNames() == ["primary", "secondary", "timestamp", "state", "value"]


def test_columns_of_the_log_are_asked_for_as_ever():
    only = StructType([StructField("primary", LongType()), StructField("heat", DoubleType())])
    with pytest.raises(InvalidRequestError) as refused:
        mapping_of(only, "ms", fields=FIELDS)
    said = str(refused.value)
    assert "the sink takes columns primary, secondary, the fields of a.Heat [, version" in said
    assert said.endswith("select those, not primary, heat")


def options_of(root: Path, **more: str) -> dict[str, str]:
    return {"path": str(root), "stream": "s", **more}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"valueFormat": "avro"}, "option writerSchema names it"),
        ({"writerSchema": HEAT}, "writerSchema is for valueFormat=avro"),
        ({"valueFormat": "json"}, "option valueFormat: 'json' is not raw or avro"),
        ({"valueFormat": "avro", "writerSchema": "latest"}, "option writerSchema: 'latest' is not"),
        ({"valueFormat": "avro", "writerSchema": "{}"}, "option writerSchema: not an Avro"),
    ],
)
def test_options_that_name_no_schema_are_refused_and_no_stream_is_made(tmp_path, more, said):
    with pytest.raises(InvalidRequestError, match=said):
        batch_writer(options_of(tmp_path, **more), TYPED, overwrite=False)
    assert list(tmp_path.iterdir()) == []


def test_registry_that_does_not_answer_stops_the_write_before_a_stream_is_made(tmp_path):
    config = tmp_path / "shardlog.toml"
    config.write_text('[schema.registry]\nurl = "http://127.0.0.1:9"\n"max.retries" = 0\n')
    named = {"writerSchema": "heat-value --version 1", "schemaRegistryConfig": str(config)}
    options = options_of(tmp_path / "root", valueFormat="avro", **named)
    with pytest.raises(UnavailableError, match=r"127\.0\.0\.1:9"):
        batch_writer(options, TYPED, overwrite=False)
    assert not (tmp_path / "root").exists()


# --- what is kept ------------------------------------------------------------------------------


def test_schema_is_kept_with_its_rows_and_not_before(tmp_path):
    lab, mapping = SinkLab(tmp_path), mapped(StructField("heat", DoubleType()))
    batches = [batch_of(heat=[1.5, None]), batch_of(heat=[2.5])]
    first = stage(lab.target, mapping, lab.batch(0), iter(batches))
    other = FieldValues(AvroSchema.parse(HEAT.replace("here", "there")).text, 9)
    schema = mapping_of(TYPED, "ms", fields=other)
    second = stage(lab.target, schema, lab.batch(0), iter([batch_of(heat=[3.5])]))
    with StreamReader.open(lab.root, "s") as reader:
        assert reader.schemas() == []
    lab.commit(0, first, second)
    with StreamReader.open(lab.root, "s") as reader:
        assert set(reader.schemas()) == {FIELDS.entry, other.entry}
        rows = reader.scan(columns=["payload", "schema_id", "schema_fingerprint"])
        table = pa.Table.from_batches(list(rows))
    identities = [(row["schema_id"], row["schema_fingerprint"]) for row in table.to_pylist()]
    own, theirs = (0, SCHEMA.identity), (9, other.entry.fingerprint)
    assert sorted(identities, key=str) == sorted([own, own, theirs, (None, None)], key=str)


def test_batch_that_comes_again_is_a_replay_by_its_fields(tmp_path):
    lab, mapping = SinkLab(tmp_path), mapped(StructField("heat", DoubleType()))
    rows = batch_of(heat=[1.5, 2.5])

    def run(batches: list[pa.RecordBatch]) -> None:
        lab.commit(0, stage(lab.target, mapping, lab.batch(0), iter(batches)))

    run([rows])
    run([rows.slice(1), rows.slice(0, 1)])
    assert lab.stored == [0, 1]
    with pytest.raises(Exception, match="is in the stream with 2 other rows"):
        run([batch_of(heat=[1.5, 2.75])])

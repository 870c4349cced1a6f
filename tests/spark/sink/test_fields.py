"""Rows written by fields in a real Spark: read by anybody, once, with the schema beside them."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from connectors.cli.main import outcome
from storage_core import StreamReader
from storage_core.avro import AvroSchema, body_starts, decode_batch
from tests.spark.support.sink_lab import BY_EACH_DOOR, NAME, SinkLab, lab_by

KIND = {"type": "enum", "name": "Kind", "symbols": ["LOW", "HIGH"]}
POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "double"}]}
FIELDS = {
    "key": "string",
    "kind": KIND,
    "at": {"type": "long", "logicalType": "timestamp-micros"},
    "local": {"type": "long", "logicalType": "local-timestamp-millis"},
    "day": {"type": "int", "logicalType": "date"},
    "clock": {"type": "int", "logicalType": "time-millis"},
    "money": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3},
    "mark": {"type": "fixed", "name": "Mark", "size": 2},
    "points": {"type": "array", "items": POINT},
    "tags": {"type": "map", "values": ["null", "long"]},
    "either": ["null", "string", "long"],
    "note": ["null", "string"],
}
SCHEMA = AvroSchema.parse(
    json.dumps(
        {
            "type": "record",
            "name": "a.All",
            "fields": [{"name": name, "type": kind} for name, kind in FIELDS.items()],
        }
    )
)
AVRO = {"valueFormat": "avro", "writerSchema": SCHEMA.text}
# As Spark's SQL makes a row of them.
ROW = """
    SELECT 7L AS primary, 1 AS secondary, 'k' AS value_key, 'HIGH' AS kind,
        TIMESTAMP '2026-01-02 03:04:05.678901' AS at,
        TIMESTAMP_NTZ '2026-01-02 03:04:05.678' AS local, DATE '2026-01-02' AS day, 5000 AS clock,
        12.5BD AS money, X'6162' AS mark, array(named_struct('x', 1.5D)) AS points,
        map('a', 1L, 'b', null) AS tags,
        named_struct('member0', CAST(null AS STRING), 'member1', 3L) AS either
"""
SHOWN = {
    "key": "k",
    "kind": "HIGH",
    "at": datetime(2026, 1, 2, 3, 4, 5, 678_901, UTC),
    "local": datetime(2026, 1, 2, 3, 4, 5, 678_000),  # noqa: DTZ001 - a local one
    "day": date(2026, 1, 2),
    "clock": datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC).time(),
    "money": Decimal("12.500"),
    "mark": b"ab",
    "points": [{"x": 1.5}],
    "tags": [("a", 1), ("b", None)],
    "either": {"member0": None, "member1": 3},
    "note": None,
}


@pytest.fixture
def lab(request, spark, tmp_path):
    with lab_by(getattr(request, "param", "path"), spark, tmp_path) as lab:
        yield lab


def read(lab: SinkLab) -> tuple[list[Any], list[int | None]]:
    """Return the values that were written, and what rows say of their schema."""
    with StreamReader.open(lab.root, NAME) as reader:
        rows = reader.read(columns=["payload", "schema_id"])
        (entry,) = reader.schemas()
    values: Any = rows.column("payload").combine_chunks()
    schema = AvroSchema.parse(entry.text)
    decoded = decode_batch(values, schema, starts=body_starts(values))
    assert decoded.faults == ()
    return decoded.table.to_pylist(), pa.table(rows).column("schema_id").to_pylist()


@BY_EACH_DOOR
def test_every_type_of_sparks_is_written_and_read_by_the_schema_beside_it(lab, capsys):
    lab.write(lab.spark.sql(ROW), **AVRO)
    assert read(lab) == ([SHOWN], [0])
    arguments = ["read", str(lab.root), NAME, "--output", "jsonl", "--columns", "payload"]
    assert outcome(arguments) == 0
    payload = json.loads(capsys.readouterr().out)["payload"]
    assert (payload["money"], payload["tags"], payload["points"]) == (
        "12.500",
        {"a": 1, "b": None},
        [{"x": 1.5}],
    )


def test_stream_lands_once_by_fields_over_restarts_and_replays(lab):
    lab.feed(1, 2, 3)
    lab.feed(4)
    options = {"valueFormat": "avro", "writerSchema": '["null", "string"]'}
    assert "'value' is made of the fields of a.All" in lab.fails(**AVRO)
    lab.run(**options)
    lab.forget_commit(1)
    lab.feed(5)
    lab.run(**options)
    assert (lab.stored, lab.staged) == ([1, 2, 3, 4, 5], [])
    assert read(lab) == ([{"value": "v"}] * 5, [0] * 5)


def test_row_that_does_not_fit_fails_the_write_and_nothing_is_there(lab):
    schema = '{"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}, %s]}'
    text = schema % '{"name": "y", "type": ["null", "int"]}'
    rows = "SELECT 1L AS primary, 1 AS secondary, CAST(null AS INT) AS x, 2 AS y"
    with pytest.raises(
        Exception, match="row 0: field x is null, and the schema does not allow null there"
    ):
        lab.write(lab.spark.sql(rows), valueFormat="avro", writerSchema=text)
    with StreamReader.open(lab.root, NAME) as reader:
        assert (reader.read().num_rows, reader.schemas()) == (0, [])

"""Values of JSON as typed columns of Spark's source, and in parts beside their payloads."""

from typing import Any

import fastavro
import pytest

from storage_core import SchemaEntry, StreamReader
from storage_core.export import export_stream, import_stream
from storage_core.sql import connect
from tests.unit.streaming_jobs.source.typed_lab import TypedLab
from typed_events.language.commands import Define
from typed_events.types.event_type import EventType
from typed_events.types.json_events import json_schema_of

FIRST = {"amount": "int", "at": "timestamp | null"}
SECOND = {"amount": "float", "gift": "bool | null"}
VALUES = [
    (0, b'{"amount": 5, "at": "2026-01-31T12:00:00Z"}'),
    (1, b'{ "amount": 1.5 }'),
    (0, b'\x00\x00\x00\x00\x07{"amount": 6}'),
    (None, None),
    (1, b'{"gift": true, "amount": 7}'),
]


def entry(version: int, fields: dict[str, str]) -> SchemaEntry:
    schema = json_schema_of(EventType.from_define(Define("order", version, fields), version))
    return SchemaEntry(version, schema.identity, schema.text)


@pytest.fixture
def lab(tmp_path):
    made = TypedLab(tmp_path / "root")
    made.create(shards=1)
    made.put_values(VALUES, [entry(1, FIRST), entry(2, SECOND)])
    return made


def test_spark_sees_the_fields_of_the_newest_version(lab):
    rows = lab.frame()
    assert [(row["amount"], row["gift"]) for row in rows] == [
        (5.0, None),
        (1.5, None),
        (6.0, None),
        (None, None),
        (7.0, True),
    ]


@pytest.mark.parametrize("is_sealed", [False, True])
def test_sql_sees_fields_and_bytes_sealed_or_not(lab, is_sealed):
    if is_sealed:
        lab.writer.seal()
    with connect(lab.root) as streams:
        rows = streams.sql(
            f'SELECT payload, amount, epoch("at") FROM "{lab.name}" ORDER BY address'
        ).fetchall()
    assert [row[0] for row in rows] == [value for _, value in VALUES]
    assert [row[1] for row in rows] == [5.0, 1.5, 6.0, None, 7.0]
    assert [row[2] for row in rows] == [1769860800.0, None, None, None, None]


@pytest.mark.parametrize("form", ["avro", "parquet", "jsonl"])
def test_exports_come_back_with_the_bytes_that_came(lab, tmp_path, form):
    export_stream(lab.root, lab.name, tmp_path / "out", file_format=form)
    import_stream(tmp_path / "back", lab.name, tmp_path / "out")
    with StreamReader.open(tmp_path / "back", lab.name) as reader:
        payloads = [row["payload"] for batch in reader.tail(0) for row in batch.to_pylist()]
        assert payloads == [value for _, value in VALUES]
        assert len(reader.schemas()) == 2


def test_avro_containers_have_such_values_as_bytes_that_others_read(lab, tmp_path):
    export_stream(lab.root, lab.name, tmp_path / "out", file_format="avro")
    rows: list[Any] = []
    for path in sorted((tmp_path / "out").glob("*.avro")):
        with path.open("rb") as file:
            rows += list(fastavro.reader(file))
    assert sorted(row["payload"] or b"" for row in rows) == sorted(v or b"" for _, v in VALUES)

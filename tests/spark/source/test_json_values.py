"""Values of JSON as typed columns of a real session: versions beside each other, sealed or not."""

from datetime import UTC, datetime

import pytest

from storage_core import SchemaEntry
from streaming_jobs.jobs.stream_query import start_to_end
from tests.spark.support.lab import SECONDS_MAX, TO_END, SparkLab
from tests.unit.streaming_jobs.source.typed_lab import TypedLab
from typed_events.language.commands import Define
from typed_events.types.event_type import EventType
from typed_events.types.json_events import json_schema_of

JSON = {"valueFormat": "json"}
NOON = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
FIRST = EventType.from_define(
    Define("order", 1, {"amount": "int", "at": "timestamp | null", "status": ("new", "paid")}), 1
)
SECOND = EventType.from_define(
    Define("order", 2, {"amount": "float", "gift": "bool | null", "note": "string | null"}), 2
)
VALUES = [
    (0, b'{"amount": 5, "status": "new", "at": "2026-01-31T12:00:00Z"}'),
    (1, b'{ "gift": true, "amount": 1.5, "note": "gr\xc3\xbc\\u00dfe" }'),
    (None, None),
    (0, b'\x00\x00\x00\x00\x07{"status": "paid", "amount": 6}'),
]


def entry(event_type):
    schema = json_schema_of(event_type)
    return SchemaEntry(event_type.version, schema.identity, schema.text)


@pytest.fixture
def orders(spark, tmp_path):
    lab = SparkLab(spark, tmp_path)
    lab.log = TypedLab(tmp_path / "root")
    lab.log.create(shards=1)
    lab.log.put_values(VALUES, [entry(FIRST), entry(SECOND)])
    yield lab
    lab.clean_up()


def fields_of(rows, *names):
    return [tuple(row[name] for name in names) for row in rows]


@pytest.mark.parametrize("is_sealed", [False, True])
def test_fields_are_those_of_the_newest_version(orders, is_sealed):
    if is_sealed:
        orders.log.writer.seal()
    frame = orders.read(**JSON)
    rows = frame.orderBy("offset").collect()
    assert fields_of(rows, "amount", "gift", "note") == [
        (5.0, None, None),
        (1.5, True, "grüße"),
        (None, None, None),
        (6.0, None, None),
    ]
    assert frame.where("amount > 5 and gift is null").count() == 1


def test_query_reads_them_by_a_version_that_is_named(orders):
    seen = []

    def note(batch, _):
        batch = batch.selectExpr("offset", "amount", "status", "unix_micros(at) AS at_us")
        seen.extend(batch.orderBy("offset").collect())

    options = {**TO_END, **JSON, "startingOffsets": "earliest", "mode": "PERMISSIVE"}
    options = orders.log.options(**options, readerSchema=FIRST.schema.text)
    frame = orders.spark.readStream.format("shardlog").options(**options).load()
    writer = frame.writeStream.foreachBatch(note)
    writer = writer.option("checkpointLocation", str(orders.checkpoint))
    assert start_to_end(writer).awaitTermination(SECONDS_MAX)
    noon_us = int(NOON.timestamp()) * 10**6
    assert fields_of(seen, "offset", "amount", "status", "at_us") == [
        (0, 5, "new", noon_us),
        (1, None, None, None),
        (2, None, None, None),
        (3, 6, "paid", None),
    ]

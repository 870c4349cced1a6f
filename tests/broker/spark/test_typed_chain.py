"""Goal: values reach Spark as typed columns, and are what Spark's own from_avro makes of them.

Method: a producer writes two versions of a schema of many types to a topic; a worker stores it. One
Spark session reads the topic by its Kafka source and from_avro, and our stream by fields; rows and
types are compared. What from_avro shows otherwise or refuses is left to tests/spark.
"""

import json
import os
from random import Random
from typing import Any

from tests.broker.support.avro_lab import AT, START_MS, avro_settings, register, send, value_of
from tests.broker.support.lab import Lab
from tests.broker.support.spark_program import SparkProgram
from tests.unit.connectors.framed import record_schema

POINT = {
    "type": "record",
    "name": "Point",
    "fields": [{"name": "x", "type": "double"}, {"name": "y", "type": ["null", "string"]}],
}
FIELDS: list[tuple[str, Any]] = [
    ("device", "int"),
    ("at", AT),
    ("flag", "boolean"),
    ("count", "long"),
    ("single", "float"),
    ("raw", "bytes"),
    ("text", "string"),
    ("four", {"type": "fixed", "name": "Four", "size": 4}),
    ("way", {"type": "enum", "name": "Way", "symbols": ["UP", "DOWN"]}),
    ("list", {"type": "array", "items": ["null", "int"]}),
    ("map", {"type": "map", "values": "long"}),
    ("point", POINT),
    ("choice", ["null", "int", "string", "Point"]),
    ("number", ["int", "long"]),
    ("day", {"type": "int", "logicalType": "date"}),
    ("time", {"type": "int", "logicalType": "time-millis"}),
    ("exact", {"type": "long", "logicalType": "timestamp-micros"}),
    ("local", {"type": "long", "logicalType": "local-timestamp-millis"}),
    ("price", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3}),
    ("id", {"type": "string", "logicalType": "uuid"}),
]
OLD = record_schema(*FIELDS)
NEW = json.dumps(
    {
        "type": "record",
        "name": "Reading",
        "fields": [
            {"name": "added", "type": {"type": "array", "items": "string"}, "default": ["a", "b"]},
            *(
                {"name": name, "type": {"single": "double", "device": "long"}.get(name, kind)}
                for name, kind in FIELDS
            ),
        ],
    }
)


def value(number: int) -> dict[str, Any]:
    chance = Random(number)
    point = {"x": number / 8, "y": chance.choice([None, "y"])}
    return {
        "added": ["c"],
        "device": number % 7,
        "at": START_MS + number,
        "flag": number % 2 == 0,
        "count": chance.randint(-(2**63), 2**63 - 1),
        "single": number / 4,
        "raw": chance.randbytes(number % 5),
        "text": "grüße"[: number % 6],
        "four": chance.randbytes(4),
        "way": chance.choice(["UP", "DOWN"]),
        "list": [chance.choice([None, at]) for at in range(number % 4)],
        "map": {"k": number} if number % 3 else {},
        "point": point,
        "choice": chance.choice([None, 5, "five", point]),
        "number": chance.choice([3, 2**40]),
        "day": chance.randint(-1000, 30_000),
        "time": chance.randrange(86_400_000),
        "exact": chance.randint(-(10**15), 2 * 10**15),
        "local": START_MS - number,
        "price": chance.randbytes(4),
        "id": f"6ba7b810-9dad-11d1-80b4-{number:012d}",
    }


def written_as(text: str) -> str:
    """Return a schema for fastavro, which is given numbers for times and bytes for decimals."""
    parsed = json.loads(text)
    for field in parsed["fields"]:
        if isinstance(field["type"], dict):
            field["type"].pop("logicalType", None)
    return json.dumps(parsed)


def test_values_reach_spark_as_from_avro_reads_them(
    lab: Lab, registry: str, kafka_spark: SparkProgram
) -> None:
    topic = lab.topic(partitions=1, retention_ms="-1")
    subject = f"{topic.name}-value"
    ids = {text: register(registry, subject, text) for text in (OLD, NEW)}
    values: dict[int, bytes | None] = {}
    for number in range(200):
        text = NEW if number % 3 == 0 else OLD
        names = {each["name"] for each in json.loads(text)["fields"]}
        fields = {name: one for name, one in value(number).items() if name in names}
        values[number] = value_of(ids[text], written_as(text), fields)
    send(lab, topic, values)
    lab.worker(topic, **avro_settings(registry))
    lab.await_no_lag(topic)
    rows = kafka_spark.ask(
        "from_avro",
        bootstrap=lab.bootstrap,
        topic=topic.name,
        root=os.fspath(lab.root),
        reader=NEW,
        named=f"{subject} --version 2",
        registry=registry,
        writers={number: text for text, number in ids.items()},
    )
    assert len(rows["ours"]["rows"]) == 200
    assert rows["ours"]["types"] == rows["theirs"]["types"]
    assert rows["ours"]["rows"] == rows["theirs"]["rows"]

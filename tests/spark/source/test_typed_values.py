"""Values as typed columns: every type, versions that come while a query runs, bad values, restarts.

What Spark shows is held against fastavro, and once written, against what Parquet has of it.
"""

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from streaming_jobs.jobs.stream_query import start_to_end
from tests.spark.support.lab import SECONDS_MAX, TO_END, SparkLab, first_line
from tests.unit.connectors.framed import record_schema
from tests.unit.streaming_jobs.source.typed_lab import TypedLab, entry_of, framed_by

EARLY = {"valueFormat": "avro", "startingOffsets": "earliest"}
BASE = [("device", "int"), ("heat", "float")]


@pytest.fixture
def typed(spark, tmp_path):
    lab = SparkLab(spark, tmp_path)
    lab.log = TypedLab(tmp_path / "root")
    lab.log.create(shards=1)
    yield lab
    lab.clean_up()


def run(lab, failing=None, **options):
    """Run a query over what is there to its end; return the rows of each batch."""
    seen = {}

    def note(batch, number):
        seen[number] = [row.asDict(recursive=True) for row in batch.orderBy("offset").collect()]
        if number == failing:
            message = "the batch fails"
            raise RuntimeError(message)

    options = {**TO_END, **EARLY, **options}
    reader = lab.spark.readStream.format("shardlog").options(**lab.log.options(**options))
    writer = reader.load().writeStream.foreachBatch(note)
    writer = writer.option("checkpointLocation", str(lab.checkpoint))
    assert start_to_end(writer).awaitTermination(SECONDS_MAX)
    return seen


def fields_of(rows, *names):
    return [tuple(row[name] for name in names) for row in rows]


def logical(kind, name, **more):
    return {"type": kind, "logicalType": name, **more}


POINT = record_schema(("x", "int"), ("y", ["null", "string"]), name="Point")
MOMENT = datetime(2026, 3, 29, 1, 30, 0, 123_000, UTC)
LOCAL = datetime(2026, 3, 29, 2, 30, 0, 123_456)  # noqa: DTZ001 - a time of no zone
# For each field its type, a value as fastavro takes it, and how Spark shows it where unlike that.
TYPES: dict[str, tuple[Any, Any]] = {
    "none": ("null", None),
    "flag": ("boolean", True),
    "small": ("int", -5),
    "large": ("long", 2**62),
    "single": ("float", 0.5),
    "real": ("double", 0.1),
    "raw": ("bytes", b"\x00\xff"),
    "text": ("string", "grüße"),
    "four": ({"type": "fixed", "name": "Four", "size": 4}, b"abcd"),
    "way": ({"type": "enum", "name": "Way", "symbols": ["UP", "DOWN"]}, "DOWN"),
    "list": ({"type": "array", "items": ["null", "int"]}, [1, None, 3]),
    "map": ({"type": "map", "values": {"type": "array", "items": "long"}}, {"a": [1], "b": []}),
    "point": (json.loads(POINT), {"x": 1, "y": None}),
    "maybe": (["null", "string"], None),
    "number": (["int", "long"], 7),
    "choice": (["int", "string", "Point"], {"x": 2, "y": "b"}),
    "day": (logical("int", "date"), date(1969, 12, 31)),
    "time_ms": (logical("int", "time-millis"), 86_399_999),
    "time_us": (logical("long", "time-micros"), 86_399_999_999),
    "at_ms": (logical("long", "timestamp-millis"), MOMENT),
    "at_us": (logical("long", "timestamp-micros"), MOMENT),
    "at_ns": (logical("long", "timestamp-nanos"), 1_774_747_800_123_456_789),
    "local_ms": (logical("long", "local-timestamp-millis"), LOCAL.replace(microsecond=123_000)),
    "local_us": (logical("long", "local-timestamp-micros"), LOCAL),
    "price": (logical("bytes", "decimal", precision=10, scale=2), Decimal("-12.34")),
    "wide": (logical("bytes", "decimal", precision=60, scale=1), Decimal(f"1{'0' * 56}.1")),
    "id": (logical("string", "uuid"), "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
    "span": ({"type": "fixed", "name": "Span", "size": 12, "logicalType": "duration"}, b"m" * 12),
    "list_at": ({"type": "array", "items": logical("long", "timestamp-millis")}, [MOMENT]),
}
SHOWN = {
    "choice": {"member0": None, "member1": None, "member2": {"x": 2, "y": "b"}},
    "wide": f"1{'0' * 56}.1",
    "at_ms": MOMENT.replace(tzinfo=None),
    "at_us": MOMENT.replace(tzinfo=None),
    "list_at": [MOMENT.replace(tzinfo=None)],
}


def test_every_type_is_shown_as_fastavro_reads_it_and_goes_back_through_the_sink(typed, tmp_path):
    text = record_schema(*((name, kind) for name, (kind, _) in TYPES.items()))
    value = {name: value for name, (_, value) in TYPES.items()}
    # fastavro takes numbers for what it has no type of.
    plain = json.loads(text)
    for field in plain["fields"]:
        if field["name"] in ("time_ms", "time_us", "at_ns"):
            field["type"].pop("logicalType")
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(plain), value)
    read: Any = fastavro.schemaless_reader(
        io.BytesIO(body.getvalue()), fastavro.parse_schema(plain)
    )
    assert {name: str(read[name]) for name in ("small", "day", "price")} == {
        "small": "-5",
        "day": "1969-12-31",
        "price": "-12.34",
    }
    payload = b"\x00" + (5).to_bytes(4, "big") + body.getvalue()
    typed.log.put_values([(0, payload), (None, None)], [entry_of(5, text)])
    frame = typed.read(valueFormat="avro", columns=",".join(TYPES))
    expected = {name: SHOWN.get(name, value[name]) for name in TYPES}
    rows = [row.asDict(recursive=True) for row in frame.collect()]
    assert rows == [expected, dict.fromkeys(TYPES)]
    back = {"path": str(tmp_path / "back"), "stream": "events", "valueFormat": "avro"}
    whole = typed.read(valueFormat="avro", columns=",".join([*TYPES, "primary", "secondary"]))
    writer = whole.write.format("shardlog").options(**back, writerSchema=text, shards="1")
    writer.mode("append").save()
    again = typed.spark.read.format("shardlog").options(**back).load().select(*TYPES)
    assert [row.asDict(recursive=True) for row in again.collect()] == rows
    # Parquet has no column of nulls only.
    frame.drop("none").write.parquet(str(tmp_path / "parquet"))
    landed = typed.spark.read.parquet(str(tmp_path / "parquet")).orderBy("flag").collect()
    del expected["none"]
    assert landed[1].asDict(recursive=True) == expected


VERSIONS = [
    record_schema(*BASE),
    record_schema(*BASE, ("unit", "string")),
    record_schema(("device", "long"), ("heat", "float"), ("unit", "string")),
    record_schema(("device", "long"), ("heat", "double"), ("note", ["null", "string"])),
    record_schema(
        ("heat", "double"), ("device", "long"), ("more", {"type": "map", "values": "int"})
    ),
]
READER = json.dumps(
    {
        "type": "record",
        "name": "Reading",
        "fields": [
            {"name": "device", "type": "long"},
            {"name": "heat", "type": "double"},
            {"name": "unit", "type": "string", "default": "K"},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }
)


def of_version(version, number):
    value = {"device": number, "heat": number / 2, "unit": "C", "note": "n", "more": {}}
    return framed_by(version + 1, VERSIONS[version], value)


def expected_of(version, number):
    unit = "C" if version in (1, 2) else "K"
    return number, number / 2, unit, "n" if version == 3 else None


def test_versions_that_come_while_a_query_runs_are_read_by_one_schema(typed):
    entries = [entry_of(at + 1, text) for at, text in enumerate(VERSIONS)]
    seen: list[tuple[Any, ...]] = []

    def note(batch, _number):
        names = ("device", "heat", "unit", "note")
        seen.extend(tuple(row) for row in batch.orderBy("offset").select(*names).collect())

    options = typed.log.options(**EARLY, readerSchema=READER)
    reader = typed.spark.readStream.format("shardlog").options(**options).load()
    query = (
        reader.writeStream.foreachBatch(note)
        .option("checkpointLocation", str(typed.checkpoint))
        .start()
    )
    sent = []
    for last in range(len(VERSIONS)):
        # Each brings the next version, among rows of all before it.
        rows = [(version, 10 * last + version) for version in range(last + 1)]
        typed.log.put_values([(v, of_version(v, n)) for v, n in rows], entries[: last + 1])
        sent += rows
        query.processAllAvailable()
    query.stop()
    assert seen == [expected_of(*row) for row in sent]


def test_failed_batch_comes_again_row_for_row_with_what_was_corrupt(typed):
    good, torn = of_version(0, 1), of_version(0, 2)[:-1]
    typed.log.put_values([(0, good), (0, torn), (None, b"raw")], [entry_of(1, VERSIONS[0])])
    options = {"readerSchema": READER, "mode": "PERMISSIVE"}
    before = {}
    with pytest.raises(Exception, match="the batch fails"):
        before = run(typed, failing=0, **options)
    typed.log.put_values([(0, of_version(1, 4))], [entry_of(2, VERSIONS[1])])
    seen = run(typed, **options)
    assert not before
    assert fields_of(seen[0], "device", "unit", "_corrupt_value") == [
        (1, "K", None),
        (None, None, torn),
        (None, None, b"raw"),
    ]
    assert fields_of(seen[1], "device", "unit") == [(4, "C")]
    typed.forget_commit(1)
    assert run(typed, **options) == {1: seen[1]}


def test_restart_takes_a_schema_that_reads_on_and_refuses_another(typed):
    typed.log.put_values([(0, of_version(0, 1))], [entry_of(1, VERSIONS[0])])
    assert list(run(typed, readerSchema=VERSIONS[0])) == [0]
    typed.log.put_values([(0, of_version(1, 2))], [entry_of(2, VERSIONS[1])])
    renamed = VERSIONS[0].replace('"heat"', '"warmth"')
    with pytest.raises(Exception, match="does not read on from it") as raised:
        run(typed, readerSchema=renamed)
    assert "field warmth is not in the writer's schema" in first_line(raised.value)
    assert fields_of(run(typed, readerSchema=READER)[1], "device", "heat") == [(2, 1.0)]
    text = json.loads((typed.checkpoint / "offsets" / "1").read_text().splitlines()[-1])
    assert text["@"]["schema"] == entry_of(9, READER).fingerprint.hex()


def test_credentials_of_a_registry_are_in_no_plan(typed):
    typed.log.put_values([(0, of_version(0, 1))], [entry_of(1, VERSIONS[0])])
    with pytest.raises(Exception, match="no user or password may stand in it") as raised:
        typed.read(valueFormat="avro", schemaRegistryUrl="http://me:hidden@localhost:1")
    assert "hidden" not in str(raised.value)

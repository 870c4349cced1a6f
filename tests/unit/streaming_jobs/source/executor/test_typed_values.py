"""Values become fields by their schemas; what cannot be read costs its row what the mode says."""

import json

import pyarrow as pa
import pytest

from storage_core import InvalidRequestError, SchemaEntry, Stream, StreamOptions
from storage_core.avro import AvroSchema, frame_of
from streaming_jobs.data_source import ShardlogSource
from tests.unit.connectors.framed import record_schema, written
from tests.unit.streaming_jobs.source.source_lab import FIRST_MS, NAME, rows_of
from tests.unit.streaming_jobs.source.typed_lab import TypedLab, entry_of, framed_by

OLD = record_schema(("device", "int"), ("heat", "float"))
NEW = json.dumps(
    {
        "type": "record",
        "name": "Reading",
        "fields": [
            {"name": "device", "type": "long"},
            {"name": "heat", "type": "double"},
            {"name": "unit", "type": "string", "default": "K"},
        ],
    }
)
TIMED = record_schema(("at", {"type": "long", "logicalType": "timestamp-millis"}), ("n", "int"))
TEXTS = record_schema(("device", "string"), ("heat", "float"))
COUNT = record_schema(("n", "int"), name="Count")


@pytest.fixture
def lab(tmp_path):
    lab = TypedLab(tmp_path / "root")
    lab.create(shards=1)
    yield lab
    lab.close()


def old(number):
    return framed_by(7, OLD, {"device": number, "heat": number / 2})


def new(number):
    return framed_by(8, NEW, {"device": number, "heat": number / 4, "unit": "C"})


def count(number):
    return framed_by(9, COUNT, {"n": number})


BOTH = (entry_of(7, OLD), entry_of(8, NEW))


def fields_of(rows, *names):
    return [tuple(row[name] for name in names) for row in rows]


def test_values_of_all_versions_are_read_by_the_newest(lab):
    lab.put_values([(0, old(1)), (1, new(2)), (0, old(3))], BOTH)
    rows = lab.frame()
    assert fields_of(rows, "device", "heat", "unit") == [
        (1, 0.5, "K"),
        (2, 0.5, "C"),
        (3, 1.5, "K"),
    ]
    assert fields_of(rows, "schema_id", "secondary") == [(7, 0), (8, 1), (7, 2)]


def test_fields_come_first_then_the_logs_columns_without_the_value(lab):
    lab.put_values([(1, new(2))], BOTH)
    names = lab.names()
    assert names[:5] == ["device", "heat", "unit", "key", "topic"]
    assert "value" not in names
    assert "_corrupt_value" not in names
    assert lab.names(mode="permissive")[-1] == "_corrupt_value"
    assert "headers" in lab.names(includeHeaders="true")


def test_columns_name_fields_and_columns_in_any_order(lab):
    lab.put_values([(0, old(1)), (1, new(2))], BOTH)
    rows = lab.frame(columns="offset,unit,value,device")
    assert list(rows[0]) == ["offset", "unit", "value", "device"]
    assert fields_of(rows, "offset", "unit", "value", "device") == [
        (0, "K", old(1), 1),
        (1, "C", new(2), 2),
    ]


def test_field_named_like_a_column_has_a_prefix(lab):
    text = record_schema(("key", "int"), ("Offset", "int"))
    lab.put_values([(0, framed_by(1, text, {"key": 4, "Offset": 5}))], [entry_of(1, text)])
    assert lab.names()[:3] == ["value_key", "value_Offset", "key"]
    (row,) = lab.frame(columns="value_Offset,offset,value_key")
    assert row == {"value_Offset": 5, "offset": 0, "value_key": 4}


def test_value_of_a_schema_that_is_no_record_is_the_column_value(lab):
    lab.put_values([(0, framed_by(1, '"string"', "a")), (0, None)], [entry_of(1, '"string"')])
    assert fields_of(lab.frame(), "value") == [("a",), (None,)]
    assert fields_of(lab.frame(columns="value"), "value") == [("a",), (None,)]


def test_tombstone_has_null_in_every_field_and_is_no_fault(lab):
    lab.put_values([(0, old(1)), (None, None), (0, None), (1, new(2))], BOTH)
    rows = lab.frame(mode="PERMISSIVE")
    assert fields_of(rows, "device", "_corrupt_value") == [
        (1, None),
        (None, None),
        (None, None),
        (2, None),
    ]
    assert len(lab.frame(mode="DROPMALFORMED")) == 4


BAD = {
    "torn": ((0, old(2)[:-1]), "the body is truncated"),
    "longer": ((0, old(2) + b"x"), "trailing bytes after the body"),
    "without schema": ((None, old(2)), "it came without a schema"),
    "another record": ((2, count(5)), "bodies of Count cannot be read as Reading"),
}


@pytest.mark.parametrize(("bad", "reason"), BAD.values(), ids=BAD)
def test_value_that_cannot_be_read_is_dealt_with_by_its_mode(lab, bad, reason, caplog):
    schemas = (*BOTH, entry_of(9, COUNT))
    lab.put_values([(0, old(1)), bad, (1, new(3)), (None, None)], schemas)
    by = {"readerSchema": NEW}
    with pytest.raises(InvalidRequestError) as refused:
        lab.frame(**by)
    said = str(refused.value)
    assert "the value at offset 1 cannot be read" in said
    assert reason in said
    assert f"stream {NAME!r}, shard 0" in said
    assert "mode=PERMISSIVE" in said
    rows = lab.frame(mode="PERMISSIVE", **by)
    assert fields_of(rows, "device", "unit", "_corrupt_value", "offset") == [
        (1, "K", None, 0),
        (None, None, bad[1], 1),
        (3, "C", None, 2),
        (None, None, None, 3),
    ]
    assert not caplog.records
    rows = lab.frame(mode="DROPMALFORMED", **by)
    assert fields_of(rows, "device", "offset") == [(1, 0), (3, 2), (None, 3)]
    (warning,) = caplog.messages
    assert "left out 1 rows of the offsets [0, 4)" in warning
    assert reason in warning


def test_first_row_that_cannot_be_read_is_told_whatever_schema_wrote_it(lab):
    lab.put_values([(1, new(1)), (1, new(2)[:-1]), (0, old(3)[:-1]), (0, old(3))], BOTH)
    with pytest.raises(InvalidRequestError, match="offset 1"):
        lab.frame()


def test_time_that_spark_cannot_show_is_a_value_that_cannot_be_read(lab):
    times = [5, 2**62, -(2**62), -5]
    values = [(0, framed_by(1, TIMED, {"at": at, "n": 1})) for at in times]
    lab.put_values(values, [entry_of(1, TIMED)])
    with pytest.raises(InvalidRequestError, match="that Spark cannot show"):
        lab.frame()
    assert fields_of(lab.frame(columns="n"), "n") == [(1,)] * 4
    for columns in ("at,n,_corrupt_value", "n,_corrupt_value"):
        rows = lab.frame(mode="PERMISSIVE", columns=columns)
        assert [row["n"] for row in rows] == [1, None, None, 1]
        assert [row["_corrupt_value"] for row in rows] == [None, values[1][1], values[2][1], None]


@pytest.mark.parametrize("bad", [{0}, {199}, {3, 4, 100}, set(range(200))], ids=len)
def test_times_that_spark_cannot_show_cost_their_own_rows_only(lab, bad):
    times = [2**62 if at in bad else at for at in range(200)]
    values = [(0, framed_by(1, TIMED, {"at": at, "n": 1})) for at in times]
    lab.put_values(values, [entry_of(1, TIMED)])
    rows = lab.frame(mode="DROPMALFORMED")
    assert {row["offset"] for row in rows} == set(range(200)) - bad
    assert [row["at"].microsecond for row in rows] == [row["offset"] * 1000 for row in rows]


def test_value_is_looked_at_as_far_as_columns_ask(lab):
    torn = new(2)[:-1]
    lab.put_values([(1, new(1)), (1, torn)], BOTH)
    assert fields_of(lab.frame(columns="device,heat"), "device", "heat") == [(1, 0.25), (2, 0.5)]
    with pytest.raises(InvalidRequestError, match="offset 1"):
        lab.frame(columns="device,unit")
    rows = lab.frame(columns="device,_corrupt_value", mode="PERMISSIVE")
    assert fields_of(rows, "device", "_corrupt_value") == [(1, None), (None, torn)]


def test_values_are_not_looked_at_where_no_column_asks(lab):
    lab.put_values([(0, old(1)[:-1]), (None, b"raw")], BOTH)
    assert [row["offset"] for row in lab.frame(columns="offset,key", mode="DROPMALFORMED")] == [
        0,
        1,
    ]
    rows = lab.frame(columns="_corrupt_value", mode="PERMISSIVE")
    assert [row["_corrupt_value"] for row in rows] == [old(1)[:-1], b"raw"]


def test_corrupt_value_is_told_alike_whatever_stands_beside_it(lab):
    torn = old(2)[:-1]
    wrong = framed_by(9, TEXTS, {"device": "d", "heat": 1.0})
    lab.put_values([(0, old(1)), (0, torn), (1, wrong)], [BOTH[0], entry_of(9, TEXTS)])
    for columns in ("device,heat,", "heat,device,", "heat,", "device,", "offset,", ""):
        rows = lab.frame(readerSchema=OLD, mode="PERMISSIVE", columns=f"{columns}_corrupt_value")
        assert [row["_corrupt_value"] for row in rows] == [None, torn, wrong]
        assert [row.get("heat") for row in rows] in ([None] * 3, [0.5, None, None])


def test_corrupt_value_passes_over_a_field_that_no_column_can_show(lab):
    of = record_schema(("n", "int"), ("more", ["null", "Chain"]), ("m", "int"), name="Chain")
    value = {"n": 1, "more": {"n": 2, "more": None, "m": 3}, "m": 4}
    bodies = [framed_by(1, of, value), framed_by(1, of, value)[:-1]]
    lab.put_values([(0, body) for body in bodies], [entry_of(1, of)])
    rows = lab.frame(mode="PERMISSIVE", columns="n,_corrupt_value")
    assert fields_of(rows, "n", "_corrupt_value") == [(1, None), (None, bodies[1])]


def test_rows_that_are_not_shown_end_no_query(lab):
    lab.put_values([(0, old(1)), (0, old(2)[:-1])], BOTH)
    assert len(lab.frame(ids="0")) == 1
    assert len(lab.frame(endPrimary=str(FIRST_MS))) == 1


def test_schema_that_no_registry_has_is_found_by_its_fingerprint(lab):
    schema = AvroSchema.parse(OLD)
    body = frame_of(schema, None) + written(OLD, {"device": 3, "heat": 1.0})
    entry = SchemaEntry(0, schema.identity, schema.text)
    lab.put_values([(0, body), (1, old(4))], [entry, entry_of(7, OLD)])
    rows = lab.frame(readerSchema=OLD)
    assert fields_of(rows, "device", "schema_id") == [(3, None), (4, 7)]


def test_registry_that_was_made_anew_gives_an_id_to_another_schema(lab):
    lab.put_values([(0, old(1)), (1, framed_by(7, COUNT, {"n": 5}))], [BOTH[0], entry_of(7, COUNT)])
    rows = lab.frame(readerSchema=OLD, mode="PERMISSIVE")
    assert fields_of(rows, "device", "_corrupt_value")[0] == (1, None)
    assert rows[1]["_corrupt_value"] == framed_by(7, COUNT, {"n": 5})


def test_header_that_names_the_schema_leaves_the_body_bare(lab):
    bare = written(OLD, {"device": 3, "heat": 1.0})
    headers = pa.array(
        [[("__value_schema_id", b"\x01" + bytes(16))], None],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
    lab.put_values([(0, bare), (0, old(4))], BOTH, headers=headers)
    assert fields_of(lab.frame(readerSchema=OLD), "device") == [(3,), (4,)]


def test_frame_keeps_the_schema_it_was_loaded_with(lab):
    lab.put_values([(0, new(1))], BOTH[1:])
    source = ShardlogSource(lab.options(valueFormat="avro"))
    schema = source.schema()
    longer = NEW.replace('"fields": [', '"fields": [{"name": "n", "type": "int", "default": 3}, ')
    body = framed_by(9, longer, {"n": 1, "device": 2, "heat": 0.5, "unit": "C"})
    lab.put_values([(0, body)], [entry_of(9, longer)])
    reader = source.reader(schema)
    rows = rows_of(reader, reader.partitions())
    assert fields_of(rows, "device", "heat") == [(1, 0.25), (2, 0.5)]
    assert "n" not in rows[0]
    assert lab.names()[0] == "n"


LATER = record_schema(("device", "int"), ("heat", "float"), ("unit", ["null", "string"]))


def put_unregistered(lab, *rows):
    """Commit rows, each by a schema that no registry has and of a secondary."""
    for text, secondary in rows:
        schema = AvroSchema.parse(text)
        value = {"device": secondary, "heat": 0.5, "unit": "C"}
        body = frame_of(schema, None) + written(text, value)
        entry = SchemaEntry(0, schema.identity, schema.text)
        lab.put_values([(0, body)], [entry], secondary=pa.array([secondary], pa.int32()))


def test_newest_that_no_registry_has_is_the_last_in_a_shard_that_saw_both(tmp_path):
    lab = TypedLab(tmp_path / "root")
    lab.create(shards=2)
    # Even ones are in shard 0, which saw the later one first and the other not at all.
    put_unregistered(lab, (OLD, 1), (LATER, 0), (LATER, 1))
    lab.close()
    assert lab.names()[:3] == ["device", "heat", "unit"]


def test_newest_that_no_registry_has_is_the_last_in_a_stream_that_saw_both(lab):
    put_unregistered(lab, (OLD, 0), (LATER, 0))
    other = TypedLab(lab.root, "other")
    other.create(shards=1)
    put_unregistered(other, (OLD, 0))
    other.close()
    assert lab.names(subscribe="events,other")[:3] == ["device", "heat", "unit"]


def test_streams_of_several_versions_are_read_by_the_newest_of_all(lab):
    lab.put_values([(0, old(1)), (1, new(2))], BOTH)
    with Stream.create(lab.root, "other", StreamOptions(shards=1)) as other:
        columns = {"primary": [FIRST_MS], "secondary": [3], "payload": [old(4)], "schema": [0]}
        other.append_batch(pa.table(columns), schemas=BOTH[:1])
        other.commit()
    options = {**lab.options(valueFormat="avro"), "subscribePattern": ".*"}
    del options["stream"]
    source = ShardlogSource(options)
    reader = source.reader(source.schema())
    rows = rows_of(reader, reader.partitions())
    assert sorted(fields_of(rows, "topic", "device", "unit")) == [
        ("events", 1, "K"),
        ("events", 2, "C"),
        ("other", 4, "K"),
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"columns": "device,heet"}, "no heet; did you mean heat?; the fields of Reading are"),
        ({"columns": "device,_corrupt_value"}, "_corrupt_value is there with mode=PERMISSIVE only"),
        ({"mode": "lenient"}, "'lenient' is not FAILFAST or PERMISSIVE or DROPMALFORMED"),
        ({"readerSchema": "reading-value"}, "as reading-value --version 1"),
        ({"readerSchema": COUNT}, "bodies of Reading cannot be read as Count"),
    ],
)
def test_what_is_asked_wrongly_is_told(lab, options, said):
    lab.put_values([(0, old(1)), (1, new(2))], BOTH)
    with pytest.raises(InvalidRequestError) as refused:
        lab.frame(**options)
    assert said in str(refused.value)


@pytest.mark.parametrize("name", ["readerSchema", "mode", "schemaRegistryUrl"])
def test_options_for_fields_are_refused_where_values_are_bytes(lab, name):
    with pytest.raises(InvalidRequestError, match=f"option {name}: it is for valueFormat=avro"):
        ShardlogSource(lab.options(**{name: "latest"})).schema()


def test_stream_without_schemas_has_no_newest(lab):
    lab.put_values([(None, b"raw")])
    with pytest.raises(InvalidRequestError, match="no rows that came with a schema"):
        lab.names()


def test_stream_needs_a_fixed_schema_and_is_told_the_newest(lab):
    lab.put_values([(0, old(1)), (1, new(2))], BOTH)
    for options in ({}, {"readerSchema": "latest"}):
        source = ShardlogSource(lab.options(valueFormat="avro", **options))
        reader = source.streamReader(source.schema())
        with pytest.raises(InvalidRequestError) as refused:
            reader.initialOffset()
        assert "a stream needs a fixed schema" in str(refused.value)
        assert "the newest in the store is Reading, registry id 8" in str(refused.value)
        assert "SUBJECT --version N" in str(refused.value)


def test_stream_of_an_event_type_is_told_no_schema_of_a_registry(lab):
    of_type = record_schema(("device", "int"), ("heat", "float"), name="shardlog.events.order")
    lab.put_values([(0, old(1))], [entry_of(1, of_type)])
    source = ShardlogSource(lab.options(valueFormat="json"))
    with pytest.raises(InvalidRequestError) as refused:
        source.streamReader(source.schema()).initialOffset()
    assert "events.order: name its JSON, which StreamReader.schemas() has" in str(refused.value)
    assert "registry id" not in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ({"type": "array", "items": "null"}, [None, None, None]),
        ({"type": "map", "values": "null"}, [("a", None), ("b", None)]),
        ({"type": "array", "items": {"type": "array", "items": "null"}}, [[None] * 3, []]),
        (["null", {"type": "array", "items": ["null"]}], [None, None]),
        (
            {"type": "array", "items": json.loads(record_schema(("x", "null"), name="X"))},
            [{"x": None}] * 3,
        ),
    ],
)
def test_lists_and_maps_of_nulls_keep_their_lengths(lab, kind, expected):
    text = record_schema(("c", kind), ("n", "int"))
    value = dict(expected) if isinstance(expected[0], tuple) else expected
    payloads = [framed_by(3, text, {"c": value, "n": number}) for number in range(3)]
    lab.put_values([(0, each) for each in payloads], [entry_of(3, text)])
    assert fields_of(lab.frame(), "c", "n") == [(expected, number) for number in range(3)]

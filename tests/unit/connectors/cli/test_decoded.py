"""Avro values as `read`, `tail` and `latest` show them: decoded, by the schema that wrote each."""

import base64
import csv
import json
from io import BytesIO

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage_core import HEADERS_TYPE, SchemaEntry, Stream, StreamOptions
from storage_core.avro import AvroSchema, frame_of

NAME = "telemetry"
ID, TEMPERATURE, MARK, TAGS, MORE = (
    {"name": "device", "type": "int"},
    {"name": "temperature", "type": "double"},
    {"name": "mark", "type": ["null", "bytes"], "default": None},
    {"name": "tags", "type": {"type": "map", "values": "string"}, "default": {}},
    {"name": "primary", "type": "string", "default": "none"},
)
OLD, NEW = (
    {"type": "record", "name": "Telemetry", "fields": fields}
    for fields in ([ID, TEMPERATURE], [ID, TEMPERATURE, MARK, TAGS, MORE])
)
GUID = bytes(range(16))


def entry(number, schema):
    parsed = AvroSchema.parse(json.dumps(schema))
    return SchemaEntry(number, parsed.fingerprint, parsed.text)


def body(schema, **fields):
    paper = BytesIO()
    fastavro.schemaless_writer(paper, fastavro.parse_schema(schema), fields)
    return paper.getvalue()


FIRST = body(OLD, device=0, temperature=1.5)
SECOND = body(NEW, device=2, temperature=2.5, mark=b"\xff", tags={"a": "b"}, primary="x")
PAYLOADS = [
    b"\x00\x00\x00\x00\x07" + FIRST,
    b"\x01" + GUID + SECOND,
    FIRST,  # its first byte is 0, and a header has its id
    None,
    b"\x00plain",
    b"\x00\x00\x00\x00\x07\xff",
]
SCHEMAS = [0, 1, 0, None, None, 0]
HEADER = [{"key": "__value_schema_id", "value": b"\x01" + GUID}]
FIRST_SHOWN = {"device": 0, "temperature": 1.5}
SECOND_SHOWN = {
    "device": 2,
    "temperature": 2.5,
    "mark": "base64:/w==",
    "tags": {"a": "b"},
    "primary": "x",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    headers = [None, [], HEADER, None, None, None]
    columns = {
        "primary": range(len(PAYLOADS)),
        "secondary": [5] * len(PAYLOADS),
        "payload": pa.array(PAYLOADS, pa.binary()),
        "headers": pa.array(headers, HEADERS_TYPE),
        "schema": pa.array(SCHEMAS, pa.int32()),
    }
    with Stream.create(root, NAME, StreamOptions(shards=1)) as stream:
        stream.append_batch(pa.table(columns), schemas=[entry(7, OLD), entry(8, NEW)])
    return root


LEFT = "shardlog: values that cannot be decoded, written as bytes: 1; the first: "


@pytest.mark.parametrize("command", ["read", "tail"])
def test_json_lines_show_fields_by_the_writers_schema(shardlog, root, command):
    ran = shardlog(command, root, NAME, "--output", "jsonl", "--columns", "payload")
    assert [row["payload"] for row in ran.json_lines] == [
        FIRST_SHOWN,
        SECOND_SHOWN,
        FIRST_SHOWN,
        None,
        base64.b64encode(b"\x00plain").decode(),
        base64.b64encode(PAYLOADS[5]).decode(),
    ]
    assert ran.err.startswith(LEFT)
    assert ran.err.count("\n") == 1


def test_raw_shows_the_bytes(shardlog, root, tmp_path):
    path = tmp_path / "rows.arrow"
    assert shardlog("read", root, NAME, "--raw", "--to", path).err == ""
    assert pa.ipc.open_file(path).read_all()["payload"].to_pylist() == PAYLOADS


def test_csv_and_tables_have_the_json_in_a_cell(shardlog, root):
    ran = shardlog("read", root, NAME, "--output", "csv", "--columns", "payload")
    (_, first, second, *_, none, raw, _) = list(csv.reader(ran.lines))
    assert (json.loads(first[0]), first[1]) == (FIRST_SHOWN, "json")
    assert (json.loads(second[0]), second[1]) == (SECOND_SHOWN, "json")
    assert (none, raw[1]) == (["", ""], "base64")
    table = shardlog("read", root, NAME, "--columns", "address,payload").lines
    assert json.loads(table[2].split(maxsplit=1)[1]) == SECOND_SHOWN


def test_parquet_has_fields_as_columns_by_the_latest_schema(shardlog, root, tmp_path):
    path = tmp_path / "rows.parquet"
    ran = shardlog("read", root, NAME, "--columns", "primary,payload,address", "--to", path)
    assert (ran.code, ran.err[: len(LEFT)]) == (0, LEFT)
    names = ["primary", "payload", "device", "temperature", "mark", "tags", "value_primary"]
    table = pq.read_table(path)
    assert table.column_names == [*names, "address"]
    assert table["temperature"].to_pylist() == [1.5, 2.5, 1.5, None, None, None]
    assert table["value_primary"].to_pylist() == ["none", "x", "none", None, None, None]
    assert table["payload"].to_pylist() == [None, None, None, None, *PAYLOADS[4:]]


def test_a_schema_can_be_chosen(shardlog, root, tmp_path):
    schema, path = tmp_path / "old.avsc", tmp_path / "rows.parquet"
    schema.write_text(json.dumps(OLD))
    ran = shardlog("read", root, NAME, "--schema", schema, "--columns", "payload", "--to", path)
    assert ran.code == 0
    assert pq.read_table(path).column_names == ["payload", "device", "temperature"]
    ran = shardlog("read", root, NAME, "--schema", schema, "--columns", "payload", "-o", "json")
    assert ran.json_lines[1] == {"payload": {"device": 2, "temperature": 2.5}}


def test_what_a_chosen_schema_refers_to_is_looked_for_beside_it(shardlog, root, tmp_path):
    place = {"type": "record", "name": "Place", "fields": [{"name": "site", "type": "string"}]}
    place_field = {"name": "place", "type": ["null", "Place"], "default": None}
    schema = tmp_path / "telemetry.v3.avsc"
    schema.write_text(json.dumps(OLD | {"fields": [*OLD["fields"], place_field]}))
    options = ("read", root, NAME, "--schema", schema, "--columns", "payload", "-o", "json")
    alone = shardlog(*options)
    assert (alone.code, alone.out, alone.err.count("\n")) == (2, "", 1)
    assert "refers to Place" in alone.err
    (tmp_path / "place.v1.avsc").write_text(json.dumps(place))
    ran = shardlog(*options)
    assert ran.json_lines[1] == {"payload": {"device": 2, "temperature": 2.5, "place": None}}


def test_a_schema_that_does_not_fit_shows_bytes_and_says_so(shardlog, root, tmp_path):
    schema = tmp_path / "other.avsc"
    schema.write_text('"string"')
    ran = shardlog("read", root, NAME, "--schema", schema, "-o", "json", "--columns", "payload")
    assert ran.code == 0
    assert next(row["payload"] for row in ran.json_lines).startswith("AAAAAAc")
    assert "cannot be decoded, written as bytes: 4;" in ran.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--schema", "nowhere.avsc"], "nowhere.avsc"),
        (["--schema", __file__], "--schema"),
        (["--raw", "--schema", __file__], "--raw"),
    ],
)
def test_a_schema_that_is_none_is_one_line(shardlog, root, options, said):
    ran = shardlog("read", root, NAME, *options)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert said in ran.err


@pytest.mark.parametrize(
    ("kind", "count", "text"),
    [
        ("timestamp-nanos", 1_767_225_600_123_456_789, "2026-01-01T00:00:00.123456789+00:00"),
        ("timestamp-micros", 2**62, "148108-07-06T14:00:27.387904+00:00"),
    ],
)
def test_times_that_python_has_not_are_shown_everywhere(shardlog, tmp_path, kind, count, text):
    plain = {"type": "record", "name": "R", "fields": [{"name": "moment", "type": "long"}]}
    schema_text = json.dumps(plain).replace(
        '"long"', json.dumps({"type": "long", "logicalType": kind})
    )
    schema = AvroSchema.parse(schema_text)
    value = frame_of(schema, 7) + body(plain, moment=count)
    rows = {"primary": [1], "secondary": [5], "schema": [0], "payload": [value]}
    with Stream.create(tmp_path, NAME, StreamOptions(shards=1)) as stream:
        stream.append_batch(
            pa.table(rows), schemas=[SchemaEntry(7, schema.fingerprint, schema.text)]
        )
    for form in ("table", "csv", "jsonl"):
        for command in ("read", "tail", "latest"):
            assert text in shardlog(command, tmp_path, NAME, "-o", form).out
    for form in ("table", "jsonl"):
        assert text in shardlog("sql", tmp_path, f"SELECT moment FROM {NAME}", "-o", form).out
    shardlog("export", tmp_path, NAME, "--to", tmp_path / "files", "--format", "jsonl")
    (file,) = (tmp_path / "files").glob("*.jsonl")
    assert json.loads(file.read_text())["value"] == {"moment": text}

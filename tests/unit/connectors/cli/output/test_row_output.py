"""`--output` and `--to`: every format gives back the rows of `Stream.read`, whole or not at all."""

import base64
import contextlib
import csv
import json
import os
import random
import resource
import subprocess
import sys

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from connectors.cli.input import requested_rows
from connectors.cli.main import outcome
from connectors.output_formats import order, typed_files
from storage_core import HEADERS_TYPE, Stream, StreamOptions, StreamReader

NAME = "telemetry"
COLUMNS = ["shard", "secondary", "primary", "version", "address", "late", "key", "payload"]
COLUMNS += ["headers", "timestamp", "timestamp_type"]
PAYLOADS = [b"text", b"", None, b"\xff\x00", b'a,"b"\n\r\nc', "é".encode(), b"\x1b[2J"]
HEADERS = [None, [], [("trace", b"\xff"), ("none", None)], [("a", b"")]]
EACH = 500
COMMAND = "import sys; from connectors.cli.entry import run; run()"


def rows_of(count):
    chance = random.Random(7)
    payloads = [chance.choice(PAYLOADS) for _ in range(count)]
    headers = [chance.choice(HEADERS) for _ in range(count)]
    header_lists = [one and [{"key": k, "value": v} for k, v in one] for one in headers]
    return pa.table(
        {
            "primary": pa.array([chance.randrange(10**6) for _ in range(count)], pa.int64()),
            "secondary": pa.array([chance.randrange(9) for _ in range(count)], pa.int32()),
            "payload": pa.array(payloads, pa.binary()),
            "key": pa.array([chance.choice([b"k", None]) for _ in range(count)], pa.binary()),
            "headers": pa.array(header_lists, HEADERS_TYPE),
            "timestamp": pa.array([chance.choice([5, None]) for _ in range(count)], pa.int64()),
            "timestamp_type": pa.array([1] * count, pa.int8()),
        }
    )


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Rows of nine ids on two shards, most of them late, written in four commits."""
    root = tmp_path_factory.mktemp("root")
    with Stream.create(root, NAME, StreamOptions(shards=2)) as stream:
        for _ in range(4):
            stream.append_batch(rows_of(EACH))
            stream.commit()
    return root


@pytest.fixture(scope="module")
def expected(root):
    with StreamReader.open(root, NAME) as reader:
        return reader.read(columns=COLUMNS)


@pytest.fixture(autouse=True)
def small_amounts(monkeypatch):
    """Rows do not fit one run, nor one row group."""
    monkeypatch.setattr(typed_files, "GROUP_ROWS", 700)
    monkeypatch.setattr(order, "RUN_BYTES", 2**14)


@pytest.fixture
def written(shardlog, root, tmp_path):
    """Write all rows to a file of a name and return its path."""

    def write(name, *options):
        path = tmp_path / name
        arguments = ("--columns", ",".join(COLUMNS), "--to", path, *options)
        ran = shardlog("read", root, NAME, *arguments)
        assert (ran.code, ran.out, ran.err) == (0, "", "")
        return path

    return write


# --- each format gives back what is stored ----------------------------------------------------


def test_parquet_gives_back_the_rows_by_their_types(written, expected):
    table = pq.read_table(written("rows.parquet"))
    assert table.equals(expected)
    assert pq.ParquetFile(written("more.parquet")).num_row_groups > 1


def test_arrow_gives_back_the_rows_by_their_types(written, expected):
    with pa.memory_map(str(written("rows.arrow"))) as file:
        reader = pa.ipc.open_file(file)
        assert reader.num_record_batches > 1
        assert reader.read_all().equals(expected)


def bytes_of(fields, name):
    text, encoding = fields[name], fields.get(f"{name}_encoding", "utf-8")
    if text is None or not encoding:
        return None
    return base64.b64decode(text) if encoding == "base64" else text.encode()


def headers_of(headers):
    return headers and [{"key": one["key"], "value": bytes_of(one, "value")} for one in headers]


def test_json_lines_give_back_the_rows(written, expected):
    rows = [json.loads(line) for line in written("rows.jsonl").read_text().splitlines()]
    for row in rows:
        row |= {name: bytes_of(row, name) for name in ("key", "payload")}
        row["headers"] = headers_of(row["headers"])
    records = [{name: row[name] for name in COLUMNS} for row in rows]
    assert records == expected.to_pylist()


def test_csv_gives_back_the_rows_to_python(written, expected):
    with written("rows.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row, record in zip(rows, expected.to_pylist(), strict=True):
        for name in ("key", "payload"):
            assert bytes_of(row, name) == record[name]
        assert headers_of(json.loads(row["headers"] or "null")) == record["headers"]
        for name in ("shard", "secondary", "primary", "version", "address", "timestamp"):
            assert row[name] == ("" if record[name] is None else str(record[name]))
        assert row["late"] == str(record["late"]).lower()


def test_csv_tells_null_from_empty_to_arrow(written, expected):
    options = pa_csv.ConvertOptions(
        strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
    )
    parsing = pa_csv.ParseOptions(newlines_in_values=True)
    table = pa_csv.read_csv(written("rows.csv"), parse_options=parsing, convert_options=options)
    assert table["payload"].is_null().to_pylist() == expected["payload"].is_null().to_pylist()
    names = ["shard", "secondary", "primary", "address", "late", "timestamp"]
    assert table.select(names).cast(expected.select(names).schema).equals(expected.select(names))


@pytest.mark.parametrize("command", ["read", "tail", "latest"])
@pytest.mark.parametrize("name", ["none.parquet", "none.arrow"])
def test_no_rows_are_a_file_with_a_schema(shardlog, root, tmp_path, command, name):
    path = tmp_path / name
    assert shardlog(command, root, NAME, "--id", 99, "--to", path).code == 0
    table = pq.read_table(path) if name.endswith("parquet") else pa.ipc.open_file(path).read_all()
    assert (table.num_rows, table.schema.field("payload").type) == (0, pa.binary())


def test_rows_of_ids_come_from_all_shards_in_order(shardlog, root, expected):
    ran = shardlog("read", root, NAME, "--id", 5, "--id", 2, "--output", "jsonl")
    places = [(row["secondary"], row["primary"], row["address"]) for row in ran.json_lines]
    of_ids = [row for row in expected.to_pylist() if row["secondary"] in (2, 5)]
    assert places == [(row["secondary"], row["primary"], row["address"]) for row in of_ids]


@pytest.mark.parametrize("limit", [1, 3, 250, 10**6])
def test_limit_is_of_each_id_wherever_runs_end(shardlog, root, limit):
    options = ("--limit-per-id", limit, "-o", "json", "--columns", "address,shard")
    ran = shardlog("read", root, NAME, *options)
    with StreamReader.open(root, NAME) as reader:
        expected = reader.read(limit=limit, columns=["address", "shard"]).to_pylist()
    assert ran.json_lines == expected


def test_arrow_goes_through_a_pipe(root, expected):
    options = ("--columns", ",".join(COLUMNS), "-o", "arrow")
    ran = run(root, *options, stdout=subprocess.PIPE)
    assert pa.ipc.open_stream(ran.stdout).read_all().equals(expected)


@pytest.mark.parametrize("command", ["read", "tail", "latest"])
def test_columns_that_nobody_asked_for_are_those_of_sql(shardlog, root, tmp_path, command):
    path = tmp_path / "rows.parquet"
    assert shardlog(command, root, NAME, "--to", path).code == 0
    ran = shardlog("sql", root, f"FROM {NAME}", "--to", tmp_path / "sql.parquet")
    assert ran.code == 0
    of_file, of_sql = pq.read_schema(path), pq.read_schema(tmp_path / "sql.parquet")
    names = ["shard", "secondary", "primary", "time", "address", "version", "state", "payload"]
    assert of_file.names == names == [name for name in of_sql.names if name in names]
    assert of_file.field("time").type == pa.timestamp("us", "UTC")
    for name in names:
        assert of_file.field(name).type == of_sql.field(name).type


def test_time_is_the_primary_as_a_time(shardlog, root, tmp_path):
    path = tmp_path / "rows.parquet"
    assert shardlog("read", root, NAME, "--columns", "time,primary", "--to", path).code == 0
    table = pq.read_table(path)
    micros = pc.multiply(table["primary"], 1000)
    assert table["time"].cast(pa.int64()).equals(micros)
    Stream.create(tmp_path, "counted", StreamOptions(unit="sequence")).close()
    ran = shardlog("read", tmp_path, "counted", "--columns", "time")
    assert (ran.code, "time" in ran.err) == (2, True)


# --- latest -----------------------------------------------------------------------------------


def test_latest_shows_the_newest_of_each_id(shardlog, root):
    ran = shardlog("latest", root, NAME, "--output", "json")
    with StreamReader.open(root, NAME) as reader:
        newest = reader.latest()
    newest_rows = {row["secondary"]: (row["primary"], row["address"]) for row in ran.json_lines}
    assert newest_rows == {one: (record.primary, record.address) for one, record in newest.items()}
    assert list(newest_rows) == sorted(newest_rows)
    assert shardlog("latest", root, NAME, "--count").json_lines == [len(newest)]
    assert shardlog("latest", root, NAME, "--id", 3, "--count").json_lines == [1]


# --- what goes wrong --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["read", "--to", "rows.xlsx"], "unknown suffix"),
        (["read", "--overwrite"], "--overwrite goes with --to"),
        (["read", "--output", "xml"], "xml"),
        (["tail", "--follow", "--to", "rows.csv"], "--follow has no end"),
        (["tail", "--follow", "--output", "parquet"], "--follow has no end"),
        (["latest", "--null-key"], "--null-key"),
        (["latest", "--count", "--to", "a.csv"], "--count"),
    ],
)
def test_what_cannot_be_meant_is_one_line_and_exit_code_2(shardlog, root, options, said):
    command, *rest = options
    ran = shardlog(command, root, NAME, *rest)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert said in ran.err


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_a_file_that_is_there_stays_unless_it_may_go(shardlog, root, tmp_path, name):
    path = tmp_path / name
    path.write_text("mine")
    ran = shardlog("read", root, NAME, "--to", path)
    assert (ran.code, path.read_text(), ran.err.count("\n")) == (2, "mine", 1)
    assert shardlog("read", root, NAME, "--to", path, "--overwrite").code == 0
    assert path.stat().st_size > 1000


@pytest.fixture
def small_disk(monkeypatch):
    """No file may have more than 5,000 bytes."""
    # Python 3.11 does not notice that the bytecode of what a command loads was cut.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl", "rows.parquet", "rows.arrow"])
@pytest.mark.usefixtures("small_disk")
def test_a_disk_that_is_full_is_one_line_and_leaves_nothing(shardlog, root, tmp_path, name):
    ran = shardlog("tail", root, NAME, "--to", tmp_path / name)
    assert (ran.code, ran.out, ran.err.count("\n")) == (6, "", 1)
    assert "failed: file too large; nothing of it is left" in ran.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("small_disk")
def test_no_room_for_rows_to_be_sorted_is_one_line(shardlog, root, tmp_path):
    ran = shardlog("read", root, NAME, "--to", tmp_path / "rows.csv")
    assert (ran.code, ran.out) == (6, "")
    assert ran.err == "shardlog: keeping rows to be sorted failed: file too large\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows.arrow"])
def test_ctrl_c_leaves_no_file(shardlog, root, tmp_path, monkeypatch, name):
    real = requested_rows.RequestedRows.batches

    def interrupted(*arguments):
        yield next(real(*arguments))
        assert [path.suffix for path in tmp_path.iterdir()] == [".partial"]
        raise KeyboardInterrupt

    monkeypatch.setattr(requested_rows.RequestedRows, "batches", interrupted)
    ran = shardlog("read", root, NAME, "--to", tmp_path / name)
    assert (ran.code, ran.out, ran.err) == (130, "", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["table", "jsonl", "csv", "parquet", "arrow"])
def test_whoever_reads_the_output_and_goes_has_enough(root, form):
    reading, writing = os.pipe()
    os.close(reading)
    output = os.fdopen(writing, "w")
    with contextlib.redirect_stdout(output):
        assert outcome(["read", str(root), NAME, "--output", form]) == 0
    with contextlib.suppress(BrokenPipeError):
        output.close()


def run(root, *options, stdout):
    return subprocess.run(
        [sys.executable, "-c", COMMAND, "read", str(root), NAME, *options],
        check=False,
        stdout=stdout,
        stderr=subprocess.PIPE,
    )

"""`shardlog export` and `import`: rows of a stream as files, and back."""

import json

import pytest

from storage_core import Stream, StreamOptions, StreamReader

NAME = "orders"
FIRST_MS = 1_700_000_000_000


@pytest.fixture
def root(tmp_path):
    with Stream.create(tmp_path / "data", NAME, StreamOptions(shards=2)) as stream:
        for number in range(10):
            stream.append(FIRST_MS + number, number, b"v%d" % number)
    return tmp_path


def payloads(root, name=NAME):
    with StreamReader.open(root, name) as reader:
        return sorted(reader.read(columns=["payload"]).column(0).to_pylist())


@pytest.mark.parametrize("form", ["parquet", "avro", "jsonl"])
def test_records_go_out_and_come_back(shardlog, root, form):
    ran = shardlog("export", root / "data", NAME, "--output", root / "x", "--format", form)
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines[0].startswith("10 rows in 2 files, ")
    ran = shardlog("import", root / "back", root / "x", NAME)
    assert (ran.code, ran.err, ran.lines) == (0, "", ["created 'orders': 10 rows imported"])
    assert payloads(root / "back") == payloads(root / "data")
    ran = shardlog("import", root / "back", root / "x", NAME)
    assert ran.lines == ["0 rows imported; already present: 10"]


def test_some_ids_and_times_go_out_and_are_told_in_json(shardlog, root):
    options = ("--id", "3", "--id", "4", "--start", str(FIRST_MS + 4))
    ran = shardlog("export", root / "data", NAME, "-o", root / "x", *options, "--json")
    parsed = json.loads(ran.out)
    assert (parsed["rows"], parsed["files"], parsed["is_resumed"]) == (1, 1, False)


def test_rows_are_added_to_those_that_are_there(shardlog, root):
    shardlog("export", root / "data", NAME, "-o", root / "x")
    ran = shardlog("import", root / "data", root / "x", NAME, "--append")
    assert ran.lines == ["10 rows imported"]
    assert len(payloads(root / "data")) == 20


def test_name_of_a_file_is_refused_with_the_command_that_writes_one(shardlog, root):
    ran = shardlog("export", root / "data", NAME, "-o", root / "x.parquet")
    assert ran.code == 2
    assert "use `shardlog read --to`" in ran.err


def test_damaged_file_ends_with_the_code_of_damage_and_names_it(shardlog, root):
    shardlog("export", root / "data", NAME, "-o", root / "x")
    (file,) = (root / "x").glob("0001-*.parquet")
    file.write_bytes(file.read_bytes()[:-1])
    ran = shardlog("import", root / "back", root / "x", NAME)
    assert (ran.code, ran.out) == (5, "")
    assert "0 of its 5 rows were imported" in ran.err
    assert str(file) in ran.err
    assert ran.err.count("\n") == 1
    assert len(payloads(root / "back")) == 5


def test_export_to_standard_output_is_refused(shardlog, root, monkeypatch):
    monkeypatch.chdir(root)
    refused = shardlog("export", root / "data", NAME, "--to", "-")
    assert (refused.code, len(refused.err.splitlines())) == (2, 1)
    assert "shardlog read" in refused.err
    assert not (root / "-").exists()

"""`shardlog sql`: where its query comes from, and what it may reach."""

import io
import sys

import pytest

from connectors.cli.exit_codes import EXIT_DAMAGE
from storage_core import Stream, StreamOptions

NAME = "orders"


@pytest.fixture
def root(tmp_path):
    with Stream.create(tmp_path / "root", NAME, StreamOptions(shards=1)) as stream:
        for number in range(10):
            stream.append(number, number, b"v%d" % number)
    return tmp_path / "root"


@pytest.fixture
def piped(monkeypatch):
    """Pipe some bytes to standard input; None is a terminal."""

    def pipe(data):
        source = io.TextIOWrapper(io.BytesIO(data or b""))
        if data is None:
            monkeypatch.setattr(source, "isatty", lambda: True)
        monkeypatch.setattr(sys, "stdin", source)

    return pipe


QUERY = f"-- how many\nSELECT count(*) AS n\nFROM {NAME}; -- of all\n".encode()


@pytest.mark.parametrize("arguments", [("-",), ("--file", "-"), ("-f", "-"), ()])
def test_query_is_read_from_standard_input(shardlog, root, piped, arguments):
    piped(QUERY)
    ran = shardlog("sql", root, *arguments)
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines[1].split() == ["10"]


@pytest.mark.parametrize("data", [QUERY, b"\xef\xbb\xbf" + QUERY])
def test_query_is_read_from_a_file(shardlog, root, tmp_path, data):
    (tmp_path / "q.sql").write_bytes(data)
    ran = shardlog("sql", root, "--file", tmp_path / "q.sql")
    assert (ran.code, ran.lines[1].split()) == (0, ["10"])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "the query is empty"),
        (b" \n", "the query is empty"),
        (b"SELECT '\xff'", "not UTF-8, at byte 8"),
        (b"SELECT 1; SELECT 2;", "one read-only query at a time"),
        (b" " * (16 * 2**20 + 1), "at most"),
        (b"SELECT\n  secondary,,\nFROM orders", "in line 2"),
    ],
)
def test_file_that_has_no_query_is_told_in_a_line(shardlog, root, tmp_path, data, words):
    (tmp_path / "q.sql").write_bytes(data)
    ran = shardlog("sql", root, "--file", tmp_path / "q.sql")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert words in ran.err


def test_query_that_was_given_twice_or_not_at_all_is_told(shardlog, root, tmp_path, piped):
    piped(None)
    for arguments, words in [
        ((), "no query: give QUERY, or --file FILE"),
        (("SELECT 1", "--file", tmp_path / "q.sql"), "exclude each other"),
        (("--file", tmp_path / "none.sql"), "No such file"),
        (("--file", tmp_path), "directory"),
    ]:
        ran = shardlog("sql", root, *arguments)
        assert (ran.code, ran.err.count("\n")) == (2, 1)
        assert words in ran.err


def test_query_reaches_no_file_unless_that_is_allowed(shardlog, root, tmp_path):
    (tmp_path / "other.csv").write_text("x\n1\n")
    query = f"SELECT x FROM '{tmp_path}/other.csv'"
    ran = shardlog("sql", root, query)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "--allow-external-access" in ran.err
    assert shardlog("sql", root, query, "--allow-external-access").lines[1].split() == ["1"]


def test_checksums_are_compared_unless_that_is_turned_off(shardlog, root):
    with Stream.open(root, NAME) as stream:
        stream.seal()
        (part,) = stream.parts()
    # The first byte of a file so small is read with its end, and is of no use to anybody.
    with part.path.open("r+b") as file:
        file.write(b"x")
    query = f"SELECT count(*) AS n FROM {NAME}"
    ran = shardlog("sql", root, query)
    assert (ran.code, ran.err.count("\n")) == (EXIT_DAMAGE, 1)
    assert part.path.name in ran.err
    assert shardlog("sql", root, query, "--no-verify-checksums").lines[1].split() == ["10"]


def test_field_of_bytes_is_told_with_what_makes_it_a_text(shardlog, root):
    ran = shardlog("sql", root, f"SELECT * FROM {NAME} WHERE payload LIKE 'v%'")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "decode(payload)" in ran.err


@pytest.mark.parametrize("form", ["json", "csv", "table"])
def test_time_is_printed_as_by_reads(shardlog, root, form):
    columns = ("--columns", "time,primary", "--output", form)
    of_sql = shardlog("sql", root, f'SELECT time, "primary" FROM {NAME} ORDER BY 2', "-o", form)
    assert of_sql.lines == shardlog("tail", root, NAME, *columns).lines
    assert "1970-01-01" in of_sql.lines[1]


def test_csv_without_rows_has_a_header_by_the_types_of_columns(shardlog, root):
    query = "SELECT 'x'::BLOB AS raw, 1 AS n WHERE false"
    assert shardlog("sql", root, query, "-o", "csv").lines == ["raw,raw_encoding,n"]

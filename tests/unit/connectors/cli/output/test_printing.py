"""Rows in each format: columns that only Kafka's streams have, and what JSON gives back."""

import base64
import contextlib
import csv
import io
import json

import pytest

from connectors.cli.output.printing import print_lines
from connectors.cli.output.row_printer import RowPrinter, base64_columns
from storage_core import StreamOrigin

ROW = {
    "key": b"\x00\x00\x00\xff",
    "headers": [{"key": "trace", "value": b"\xff"}, {"key": "none", "value": None}],
    "timestamp": None,
    "state": 2,
}


def printed(form, *rows, base64_columns=()):
    """Print rows in a format and return the text."""
    paper = io.StringIO(newline="")
    with contextlib.redirect_stdout(paper):
        RowPrinter(form, list(rows[0]), base64_columns).rows(rows)
    return paper.getvalue()


def test_headers_are_one_cell_of_json_in_a_table_and_in_csv():
    row = {"headers": ROW["headers"]}
    in_table = printed("table", row).splitlines()[1]
    (_, (in_csv,)) = csv.reader(io.StringIO(printed("csv", row)))
    assert json.loads(in_table) == json.loads(in_csv)
    assert [header["key"] for header in json.loads(in_csv)] == ["trace", "none"]


@pytest.mark.parametrize("form", ["table", "json", "csv"])
@pytest.mark.parametrize("control", [b"\x00", b"\x1b[2J", b"\x07", b"\x7f", "\x9b".encode()])
def test_bytes_with_control_characters_are_told_as_base64(form, control):
    said = printed(form, {"payload": b"text" + control})
    assert base64.b64encode(b"text" + control).decode() in said
    assert all(line.isprintable() for line in said.splitlines())


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_text_of_any_script_is_shown_as_it_is_and_control_characters_are_escaped(form):
    said = printed(form, {"value": {"room": "東京 é 😀", "bad": "\x1b[2J\x9b\u202e\u2028"}})
    assert "東京 é 😀" in said
    assert all(line.isprintable() for line in said.split("\n"))
    (line,) = said.split("\n")[:-1] if form == "json" else said.split("\n")[1:-1]
    text = next(csv.reader([line]))[0] if form == "csv" else line
    parsed = json.loads(text)
    assert (parsed["value"] if form == "json" else parsed)["bad"] == "\x1b[2J\x9b\u202e\u2028"


@pytest.mark.parametrize("key", [b"\x00\x00\x00\x07", b"\x00\x00\x00\xff", b"ABCD"])
def test_integer_keys_print_in_one_way(key):
    columns = base64_columns(StreamOrigin("kafka", "t", "id", "integer", "timestamp"))
    (_, fields) = csv.reader(io.StringIO(printed("csv", {"key": key}, base64_columns=columns)))
    assert fields == [base64.b64encode(key).decode(), "base64"]


def test_keys_that_mean_nothing_are_text_where_they_are():
    of_none = StreamOrigin("kafka", "t", "id", "none", "timestamp")
    assert base64_columns(of_none) == base64_columns(None) == {"schema_fingerprint"}


def test_texts_keep_their_codes_of_colours_where_no_terminal_shows_them(capsys):
    print_lines(['"\x1b[31mred\x1b[0m"'])
    assert capsys.readouterr().out == '"\x1b[31mred\x1b[0m"\n'

"""Rows in each format: columns that only Kafka's streams have, and what JSON gives back."""

import base64
import contextlib
import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_headers_are_told_in_json_and_a_state_is_its_number():
    assert json.loads(printed("json", ROW)) == {
        "key": "AAAA/w==",
        "key_encoding": "base64",
        "headers": [
            {"key": "trace", "value": "/w==", "value_encoding": "base64"},
            {"key": "none", "value": None},
        ],
        "timestamp": None,
        "state": 2,
    }


def test_headers_are_one_cell_of_json_in_a_table_and_in_csv():
    row = {"headers": ROW["headers"]}
    in_table = printed("table", row).splitlines()[1]
    (_, (in_csv,)) = csv.reader(io.StringIO(printed("csv", row)))
    assert json.loads(in_table) == json.loads(in_csv)
    assert [header["key"] for header in json.loads(in_csv)] == ["trace", "none"]


def test_a_column_that_is_null_throughout_is_shown():
    assert printed("table", {"headers": None, "key": None}).splitlines() == [
        "headers  key",
        "-        -",
    ]


def payload_from(fields):
    encoding = fields.get("payload_encoding", "utf-8")
    text = fields["payload"]
    if text is None or encoding == "":
        return None
    return base64.b64decode(text) if encoding == "base64" else text.encode()


payloads = st.lists(
    st.none() | st.binary() | st.text().map(lambda text: text.encode("utf-8", "replace"))
)


@given(payloads)
def test_payloads_come_back_from_json_and_from_csv(drawn):
    rows = [{"payload": payload} for payload in [b"first", *drawn]]
    expected = [row["payload"] for row in rows]
    lines = printed("json", *rows).splitlines()
    assert [payload_from(json.loads(line)) for line in lines] == expected
    table = csv.DictReader(io.StringIO(printed("csv", *rows), newline=""))
    assert [payload_from(fields) for fields in table] == expected


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
    told = next(csv.reader([line]))[0] if form == "csv" else line
    found = json.loads(told)
    assert (found["value"] if form == "json" else found)["bad"] == "\x1b[2J\x9b\u202e\u2028"


@pytest.mark.parametrize("form", ["table", "json", "csv"])
@pytest.mark.parametrize("value", [1, "late"])
def test_column_that_is_called_state_shows_its_value(form, value):
    assert str(value) in printed(form, {"state": value})


@pytest.mark.parametrize("text", ["two\nlines", "a\ttab", "naïve 日本 👩‍🚀"])
def test_lines_tabs_and_any_script_stay_text(text):
    (_, fields) = csv.reader(io.StringIO(printed("csv", {"payload": text.encode()}), newline=""))
    assert fields == [text, "utf-8"]


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

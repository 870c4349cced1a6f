"""Rows in each format: columns that only Kafka's streams have, and what JSON gives back."""

import base64
import contextlib
import csv
import io
import json

from hypothesis import given
from hypothesis import strategies as st

from connectors.cli.printing import RowPrinter

ROW = {
    "key": b"\x00\x00\x00\xff",
    "headers": [{"key": "trace", "value": b"\xff"}, {"key": "none", "value": None}],
    "timestamp": None,
    "state": 2,
}


def printed(form, *rows):
    """Print rows in a format and return the text."""
    paper = io.StringIO(newline="")
    with contextlib.redirect_stdout(paper):
        RowPrinter(form, list(rows[0])).rows(rows)
    return paper.getvalue()


def test_headers_and_states_are_told_in_json():
    assert json.loads(printed("json", ROW)) == {
        "key": "AAAA/w==",
        "key_encoding": "base64",
        "headers": [
            {"key": "trace", "value": "/w==", "value_encoding": "base64"},
            {"key": "none", "value": None},
        ],
        "timestamp": None,
        "state": "ahead",
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

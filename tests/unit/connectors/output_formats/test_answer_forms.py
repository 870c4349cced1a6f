"""An answer in its forms: what each has of types, nulls and odd texts, and where one ends early."""

import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from connectors.output_formats.answer_forms import MEDIA_TYPES, AnswerForm, answer_pieces
from storage_core import UnavailableError
from storage_core.protocol import RowStream
from typed_events.answer import Answer, Status

_untyped: Any = pa  # the stubs take no list of fields
SCHEMA: pa.Schema = _untyped.schema(
    [
        pa.field("id", pa.string()),
        pa.field("count", pa.int64()),
        pa.field("share", pa.float64()),
        pa.field("is_new", pa.bool_()),
        pa.field("time", pa.timestamp("us", "UTC")),
        pa.field("day", pa.date32()),
        pa.field("kind", pa.dictionary(pa.int32(), pa.string())),
    ]
)
MOMENT = datetime(2026, 1, 31, 12, 0, 0, 250_000, UTC)
LAST = datetime.max.replace(tzinfo=UTC)
VALUES: list[tuple[Any, ...]] = [
    ("0:1", 2**63 - 1, 0.5, True, MOMENT, date(1, 1, 1), "a"),
    ('ü "x", \n', -1, float("nan"), None, None, None, None),
    ("", None, None, False, LAST, None, "b"),
]
ROWS = [dict(zip(SCHEMA.names, values, strict=True)) for values in VALUES]


def answer(rows: list[dict[str, Any]], message: str = "OK") -> Answer:
    batches = [pa.RecordBatch.from_pylist([row], schema=SCHEMA) for row in rows]
    return Answer(message=message, schema=SCHEMA, batches=iter(batches))


def written(made: Answer, form: AnswerForm) -> bytes:
    return b"".join(answer_pieces(made, form))


def test_json_has_integers_of_64_bits_and_times_as_iso() -> None:
    said = json.loads(written(answer(ROWS), "json"))
    assert (said["status"], said["message"], said["count"]) == ("OK", "OK", 3)
    first, second, third = said["rows"]
    assert first["count"] == 2**63 - 1
    assert first["time"] == "2026-01-31T12:00:00.250000Z"
    assert (first["day"], third["time"]) == ("0001-01-01", "9999-12-31T23:59:59.999999Z")
    assert (second["id"], second["share"], second["time"]) == ('ü "x", \n', "nan", None)


def test_json_lines_are_the_rows_of_json() -> None:
    lines = written(answer(ROWS), "jsonl").decode().splitlines()
    assert [json.loads(line) for line in lines] == json.loads(written(answer(ROWS), "json"))["rows"]


def test_csv_has_the_values_of_json() -> None:
    head, first, second, third = csv.reader(io.StringIO(written(answer(ROWS), "csv").decode()))
    assert head == SCHEMA.names
    assert first == [
        *("0:1", str(2**63 - 1), "0.5", "true", "2026-01-31T12:00:00.250000Z", "0001-01-01", "a")
    ]
    assert (second[0], third[4]) == ('ü "x", \n', "9999-12-31T23:59:59.999999Z")


def test_arrow_is_whole_and_has_plain_columns() -> None:
    rows = RowStream(io.BytesIO(written(answer(ROWS, "three"), "arrow")))
    table = rows.read_all()
    assert table.schema.field("kind").type == pa.string()
    assert table.column("count").to_pylist() == [row["count"] for row in ROWS]
    assert rows.result == {"status": "OK", "message": "three"}


def test_text_is_a_table_whose_columns_line_up_and_a_message_that_says_more() -> None:
    head, first, second, third = written(answer(ROWS), "text").decode().splitlines()
    assert head.split() == SCHEMA.names
    assert {line.index("  ") for line in (head, third)} != {0}
    assert second.startswith(r'ü "x", \n')
    assert "2026-01-31T12:00:00.250000Z" in first
    assert written(answer(ROWS, "three rows"), "text").decode().splitlines()[-1] == "three rows"


@pytest.mark.parametrize("form", MEDIA_TYPES)
def test_answer_without_rows_says_its_message(form) -> None:
    none = written(answer([], "No matching events found"), form)
    if form in ("text", "json"):
        assert b"No matching events found" in none
    if form == "csv":
        assert none.decode() == ",".join(SCHEMA.names) + "\n"
    failed = Answer(Status.CONFLICT, "the context has 3 events")
    if form in ("text", "json", "jsonl", "csv"):
        assert b"the context has 3 events" in written(failed, form)


def test_position_alone_is_told_by_the_message() -> None:
    schema = pa.schema([pa.field("id", pa.string())])
    batch = pa.RecordBatch.from_pylist([{"id": "0:41"}], schema=schema)
    stored = Answer(message="stored at 0:41", schema=schema, batches=iter((batch,)))
    assert written(stored, "text") == b"stored at 0:41\n"


@pytest.mark.parametrize("form", MEDIA_TYPES)
def test_rows_that_end_early_are_passed_on(form) -> None:
    def cut() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist(ROWS[:1], schema=SCHEMA)
        message = "the disk is gone"
        raise UnavailableError(message)

    begun = bytearray()
    pieces = answer_pieces(Answer(schema=SCHEMA, batches=cut()), form)
    with pytest.raises(UnavailableError, match="the disk is gone"):
        _collect(pieces, begun)
    if form == "arrow":
        with pytest.raises(UnavailableError, match="the disk is gone"):
            RowStream(io.BytesIO(bytes(begun))).read_all()


def _collect(pieces: Iterator[bytes], begun: bytearray) -> None:
    for piece in pieces:
        begun += piece

"""An answer of `typed_events` in each of its forms, a piece at a time.

    text     an aligned table, then the message where it says more than OK
    json     {"status": …, "message": …, "rows": [{…}, …], "count": n}; with "plot" of a PLOT
    jsonl    a row a line; of an answer without columns one line, {"status": …, "message": …}
    csv      a head, then a row a line
    arrow    an Arrow stream; its last, empty batch says that it is whole, with status and message

The forms of an HTTP answer and of the command line are these. Rows are made as pieces are taken,
some thousands at a time. Where an error comes out of an answer's rows it is passed on, and the form
has no end; only `arrow` says so itself.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final, Literal

import pyarrow as pa

from connectors.output_formats.aligned_table import AlignedTable, Cell
from connectors.output_formats.answer_values import answer_rows, with_iso_times
from connectors.output_formats.csv_text import CsvText
from connectors.output_formats.json_text import json_text
from connectors.output_formats.pieces import pieces
from connectors.output_formats.values import plain_value
from storage_core.protocol import encode_rows
from typed_events.answer import Answer, Status

AnswerForm = Literal["text", "json", "jsonl", "csv", "arrow"]
MEDIA_TYPES: Final[Mapping[AnswerForm, str]] = {
    "text": "text/plain; charset=utf-8",
    "json": "application/json",
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "arrow": "application/vnd.apache.arrow.stream",
}
_ROWS_AT_ONCE: Final = 4096
_SAYS_NOTHING: Final = "OK"
# The message of an answer with this column alone has it.
_POSITION_ALONE: Final = ["id"]
_untyped: Any = pa  # the stubs lack what is made from parts


def answer_pieces(answer: Answer, form: AnswerForm, *, is_cut: bool = False) -> Iterator[bytes]:
    """Yield the bytes of an answer.

    Args:
        answer: What a command is answered; its rows are taken here.
        form: How it is written.
        is_cut: Whether lines of a table are cut where standard output is a terminal.

    Raises:
        ShardlogError: The rows ended with it.
    """
    match form:
        case "text":
            yield from _text(answer, is_cut=is_cut)
        case "json":
            yield from _json(answer)
        case "jsonl":
            yield from _json_lines(answer)
        case "csv":
            yield from _csv(answer)
        case "arrow":
            yield from _arrow(answer)


def failure_line(answer: Answer) -> str:
    """Return what a person is told of an answer that is none: `NotFound: there is no …`."""
    return f"{answer.status}: {answer.message}"


def table_pieces(answer: Answer, *, is_cut: bool = False) -> Iterator[list[str]]:
    """Yield the lines of an answer's table, some thousands at a time; none without rows.

    Raises:
        ShardlogError: The rows ended with it.
    """
    if answer.schema is None or answer.schema.names == _POSITION_ALONE:
        return
    table = AlignedTable(answer.schema.names, is_cut=is_cut)
    for batch in _batches(answer):
        yield table.lines([[_cell(one) for one in row.values()] for row in answer_rows(batch)])


def _text(answer: Answer, *, is_cut: bool) -> Iterator[bytes]:
    if answer.status is not Status.OK:
        yield _line(failure_line(answer))
    has_rows = False
    for lines in table_pieces(answer, is_cut=is_cut):
        has_rows = True
        yield "".join(f"{line}\n" for line in lines).encode()
    if answer.status is Status.OK and not (has_rows and answer.message == _SAYS_NOTHING):
        yield _line(answer.message)


def _json(answer: Answer) -> Iterator[bytes]:
    head = json_text({"status": answer.status, "message": answer.message, **_plot(answer)})
    yield f'{head[:-1]}, "rows": ['.encode()
    count = 0
    for batch in _batches(answer):
        texts = [json_text(row) for row in answer_rows(batch)]
        yield ((", " if count else "") + ", ".join(texts)).encode()
        count += len(texts)
    yield f'], "count": {count}}}\n'.encode()


def _plot(answer: Answer) -> dict[str, object]:
    return {} if answer.plot is None else {"plot": asdict(answer.plot)}


def _json_lines(answer: Answer) -> Iterator[bytes]:
    if answer.schema is None or answer.status is not Status.OK:
        yield _line(json_text({"status": answer.status, "message": answer.message}))
    for batch in _batches(answer):
        yield "".join(f"{json_text(row)}\n" for row in answer_rows(batch)).encode()


def _csv(answer: Answer) -> Iterator[bytes]:
    if answer.schema is None:
        columns = {"status": [str(answer.status)], "message": [answer.message]}
        batch = _untyped.RecordBatch.from_pydict(columns)
        answer = Answer(answer.status, answer.message, batch.schema, iter((batch,)))
    assert answer.schema is not None
    csv = CsvText((), _as_json)
    yield csv.head(answer.schema).encode()
    for batch in _batches(answer):
        yield csv.lines(with_iso_times(batch)).encode()


def _arrow(answer: Answer) -> Iterator[bytes]:
    schema = plain_schema(answer.schema or pa.schema([]))
    said = {"status": str(answer.status), "message": answer.message}
    encoded = encode_rows(schema, (batch.cast(schema) for batch in _batches(answer)), said)
    while True:
        try:
            piece = next(encoded)
        except StopIteration as end:
            if end.value is not None:
                raise end.value from None
            return
        yield piece if isinstance(piece, bytes) else piece.to_pybytes()


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema whose columns are no dictionaries: messages of a stream stand alone."""
    fields: list[Any] = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in schema
    ]
    return pa.schema(fields)


def _batches(answer: Answer) -> Iterator[pa.RecordBatch]:
    for batch in answer.batches:
        if batch.num_rows:
            yield from pieces(batch, _ROWS_AT_ONCE)


def _cell(value: object) -> Cell:
    if value is None or isinstance(value, str) or type(value) is int:
        return value
    return json_text(value)


def _as_json(_name: str, value: object) -> object:
    return plain_value(value)


def _line(text: str) -> bytes:
    return f"{text}\n".encode()

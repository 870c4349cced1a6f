"""Output of rows: to standard output or a file, as text, Parquet or Arrow.

Contradictory options are refused before anything is read. Text on standard output is flushed after
each batch; a file appears when it is complete. Progress is drawn on standard error.
"""

import sys
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

import pyarrow as pa
import typer

from connectors.cli.input.requested_rows import RequestedRows
from connectors.cli.output.printing import print_bytes
from connectors.cli.output.progress_line import RowsLine
from connectors.cli.output.row_printer import RowPrinter, base64_columns
from connectors.cli.parsing.options import Format, OutputForm
from connectors.output_formats.pieces import pieces
from connectors.output_formats.row_columns import stored_columns, with_time
from connectors.output_formats.typed_files import TypedForm, TypedRows
from connectors.output_formats.values import DecodedValues, latest_schema
from connectors.output_formats.whole_file import STANDARD_OUTPUT, WholeFile
from connectors.registry import schema_in_file
from storage_core import InvalidRequestError, StreamReader, SystemClock, Unit
from storage_core.avro import AvroSchema
from storage_core.sql.stream_columns import TIME

_TEXT: Final[dict[str, Format]] = {"table": "table", "jsonl": "json", "json": "json", "csv": "csv"}
_BY_SUFFIX: Final[dict[str, OutputForm]] = {
    ".txt": "table",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
}


class _Rows(Protocol):
    def batch(self, batch: pa.RecordBatch) -> None: ...

    def end(self) -> None: ...


@dataclass(frozen=True, slots=True)
class OutputChoice:
    """The options of an output, checked.

    Attributes:
        form: How rows are written.
        to: The file, or None for standard output.
        overwrite: Whether the file may replace an existing one.
        raw: Whether payloads stay bytes.
        schema: A reader's schema for all values.
    """

    form: OutputForm
    to: Path | None
    overwrite: bool
    raw: bool = False
    schema: AvroSchema | None = None

    @classmethod
    def of(
        cls,
        form: OutputForm | None,
        to: Path | None,
        *,
        overwrite: bool,
        raw: bool = False,
        schema: Path | None = None,
    ) -> Self:
        """Return the checked options; without a form the file's name decides it.

        Raises:
            InvalidRequestError: The options do not go together.
        """
        if to == STANDARD_OUTPUT:
            to = None
        if overwrite and to is None:
            message = "--overwrite goes with --to only"
            raise InvalidRequestError(message)
        if form is None and to is not None:
            form = _BY_SUFFIX.get(to.suffix.lower())
            if form is None:
                suffixes = ", ".join(_BY_SUFFIX)
                message = f"--to {to}: unknown suffix; give --output, or use one of {suffixes}"
                raise InvalidRequestError(message)
        chosen = form or "table"
        if to is None and chosen not in _TEXT and sys.stdout.isatty():
            message = f"--output {chosen} is not for a terminal; give --to FILE, or a pipe"
            raise InvalidRequestError(message)
        if raw and schema is not None:
            message = "--raw and --schema exclude each other"
            raise InvalidRequestError(message)
        by = None if schema is None else _schema_of(schema)
        return cls(chosen, to, overwrite, raw, by)

    @property
    def is_typed(self) -> bool:
        """Whether columns have types of their own."""
        return self.form not in _TEXT

    def refuse_to_follow(self) -> None:
        """Refuse formats that must be complete, for rows without an end."""
        if self.to is not None or self.form == "parquet":
            message = (
                "--follow has no end, and such a file would never be whole; send text or Arrow to "
                "standard output, as with > FILE"
            )
            raise InvalidRequestError(message)


class Output:
    """Writes rows. A context manager: leaving it without an error completes the output."""

    def __init__(
        self,
        choice: OutputChoice,
        schema: pa.Schema,
        base64_columns: Collection[str] = (),
        total: int = 0,
        rows: "StreamRows | None" = None,
    ) -> None:
        """Open the output.

        Args:
            choice: Format and destination.
            schema: The schema of the rows.
            base64_columns: Columns that text always has in base64.
            total: How many rows there will be; 0 if that is not known.
            rows: Projects rows of a stream; None to write rows as they come.

        Raises:
            InvalidRequestError: The file cannot be there.
        """
        self.columns = schema.names
        self._of_stream = rows
        schema = schema if rows is None else rows.schema(schema)
        self._rows: _Rows
        self._typed: TypedRows | None = None
        file = None if choice.to is None else WholeFile(choice.to, overwrite=choice.overwrite)
        self.folder = None if file is None else file.folder
        self._is_stdout = file is None
        with ExitStack() as undo:
            if file is not None:
                undo.enter_context(file)
            if choice.form in _TEXT:
                self._rows = _printer(_TEXT[choice.form], schema, base64_columns, file)
            else:
                self._rows = self._typed = _typed_rows(choice.form, schema, file)
            self._undo = undo.pop_all()
        self._schema = schema
        is_drawn = sys.stderr.isatty() and not (file is None and sys.stdout.isatty())
        self._progress = RowsLine(sys.stderr if is_drawn else None, SystemClock(), total)

    def __enter__(self) -> Self:
        return self

    def batch(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Write rows."""
        for piece in pieces(rows):
            self._rows.batch(piece if self._of_stream is None else self._of_stream.project(piece))
            self._progress.add(piece.num_rows)

    def flush(self) -> None:
        """Write buffered rows; a reader that follows waits for them."""
        if self._typed is not None:
            self._typed.flush()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Complete the output, or discard it."""
        with self._undo as undo:
            undo.callback(self._progress.end)
            if error is None:
                self._end()
                return
            if self._typed is not None:
                self._typed.drop()
            undo.pop_all().__exit__(kind, error, trace)

    def _end(self) -> None:
        if self._typed is None and not self._progress.rows and self._schema.names:
            # Without rows the schema still gives the header.
            self._rows.batch(pa.RecordBatch.from_pylist([], schema=self._schema))
        self._rows.end()
        values = None if self._of_stream is None else self._of_stream.values
        if values is not None and values.left:
            self._progress.end()
            line = f"shardlog: values that cannot be decoded, written as bytes: {values.left}"
            typer.echo(f"{line}; the first: {values.reason}", err=True)


@dataclass(frozen=True, slots=True)
class StreamRows:
    """Projects rows of a stream to the columns of an output.

    Attributes:
        columns: The columns of the output.
        unit: What primaries count.
        values: Decodes payloads; None to leave them bytes.
    """

    columns: Sequence[str]
    unit: Unit
    values: DecodedValues | None

    @property
    def stored(self) -> list[str]:
        """The columns of the log that are read for it."""
        names = self.columns if self.values is None else self.values.stored
        return stored_columns(names, self.unit)

    def schema(self, stored: pa.Schema) -> pa.Schema:
        """Return the schema of the output, for rows of a stored schema."""
        return self.project(pa.RecordBatch.from_pylist([], schema=stored)).schema

    def project(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of the output of rows that have the columns `stored`."""
        if TIME in self.columns:
            rows = with_time(rows, self.unit)
        return rows.select([*self.columns]) if self.values is None else self.values.decoded(rows)


def output_of(  # noqa: PLR0913 - a request, and options of the output
    reader: StreamReader,
    request: RequestedRows,
    columns: Sequence[str],
    choice: OutputChoice,
    *,
    total: int = 0,
    is_followed: bool = False,
) -> Output:
    """Return an output for columns of a stream; rows need its attribute `columns`."""
    values = None if choice.raw else _values_of(reader, columns, choice, is_followed=is_followed)
    rows = StreamRows(columns, reader.options.unit, values)
    schema = request.schema(reader, rows.stored)
    return Output(choice, schema, base64_columns(reader.origin), total, rows)


def _values_of(
    reader: StreamReader, columns: Sequence[str], choice: OutputChoice, *, is_followed: bool
) -> DecodedValues | None:
    if "payload" not in columns:
        return None
    schemas = reader.schemas()
    by = choice.schema
    if by is None and choice.is_typed:
        by = latest_schema(schemas)
        decodes = by is not None
    else:
        decodes = bool(schemas) or is_followed
    if not decodes:
        return None
    return DecodedValues(reader.schemas, columns, by, is_typed=choice.is_typed)


def _schema_of(path: Path) -> AvroSchema:
    try:
        return schema_in_file(path)
    except InvalidRequestError as error:
        message = f"--schema {error.message}"
        raise InvalidRequestError(message) from error


def _printer(
    form: Format, schema: pa.Schema, base64_columns: Collection[str], file: WholeFile | None
) -> RowPrinter:
    to = None if file is None else lambda lines: file.text("".join(f"{x}\n" for x in lines))
    return RowPrinter(form, schema.names, base64_columns, to)


def _typed_rows(form: OutputForm, schema: pa.Schema, file: WholeFile | None) -> TypedRows:
    kind: TypedForm = "parquet" if form == "parquet" else "arrow"
    if file is None and kind == "arrow":
        kind = "arrow-stream"
    return TypedRows(kind, file or _StandardOutput(), schema)


class _StandardOutput:
    """Standard output as a destination of bytes."""

    def write(self, data: bytes) -> int:
        print_bytes(data)
        return len(data)

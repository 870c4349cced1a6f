"""Where rows of a verb go: standard output or a file, as text, Parquet or Arrow.

Opening one refuses at once what cannot be meant. Text on standard output is flushed by each batch;
a file appears when all of it is written. What a terminal shows of progress goes to standard error.
"""

import sys
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Protocol, Self

import pyarrow as pa

from connectors.cli.arguments import Format
from connectors.cli.printing import RowPrinter, print_bytes
from connectors.outputs.pieces import pieces
from connectors.outputs.progress import Progress
from connectors.outputs.typed_files import TypedForm, TypedRows, typed_schema
from connectors.outputs.whole_file import WholeFile
from storage_core import InvalidRequestError, SystemClock, Unit

OutputForm = Literal["table", "jsonl", "json", "csv", "parquet", "arrow"]

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
    """What a user said of the output, judged.

    Attributes:
        form: How rows are written.
        to: The file, or None for standard output.
        overwrite: Whether the file may take the place of one that is there.
    """

    form: OutputForm
    to: Path | None
    overwrite: bool

    @classmethod
    def of(cls, form: OutputForm | None, to: Path | None, *, overwrite: bool) -> Self:
        """Return the choice, the form by the file's name where it is not said.

        Raises:
            InvalidRequestError: The options do not go together.
        """
        if overwrite and to is None:
            message = "--overwrite goes with --to only"
            raise InvalidRequestError(message)
        if form is None and to is not None:
            form = _BY_SUFFIX.get(to.suffix.lower())
            if form is None:
                known = ", ".join(_BY_SUFFIX)
                message = f"--to {to}: its name tells no format; give --output, or one of {known}"
                raise InvalidRequestError(message)
        chosen = form or "table"
        if to is None and chosen not in _TEXT and sys.stdout.isatty():
            message = f"--output {chosen} is not for a terminal; give --to FILE, or a pipe"
            raise InvalidRequestError(message)
        return cls(chosen, to, overwrite)

    def refuse_to_follow(self) -> None:
        """Refuse what has an end, for rows that have none."""
        if self.to is not None or self.form == "parquet":
            message = (
                "--follow has no end, and such a file would never be whole; send text or Arrow to "
                "standard output, as with > FILE"
            )
            raise InvalidRequestError(message)


class Output:
    """Rows on their way out. A context manager: leaving it well ends the output."""

    def __init__(
        self,
        choice: OutputChoice,
        schema: pa.Schema,
        unit: Unit,
        base64_columns: Collection[str] = (),
        total: int = 0,
    ) -> None:
        """Begin with no rows.

        Args:
            choice: How and where.
            schema: The schema of the rows, as the log has them.
            unit: What primaries count.
            base64_columns: Those whose bytes are base64 throughout, in text.
            total: How many rows there will be; 0 if that is not known.

        Raises:
            InvalidRequestError: The file cannot be there.
        """
        self._undo = ExitStack()
        file = None if choice.to is None else WholeFile(choice.to, overwrite=choice.overwrite)
        if file is not None:
            self._undo.enter_context(file)
        self.folder = None if file is None else file.folder
        self._rows: _Rows
        self._typed: TypedRows | None = None
        self._is_stdout = file is None
        if choice.form in _TEXT:
            to = None if file is None else lambda lines: file.text("".join(f"{x}\n" for x in lines))
            self._rows = RowPrinter(_TEXT[choice.form], schema.names, base64_columns, to)
        else:
            form: TypedForm = "parquet" if choice.form == "parquet" else "arrow"
            if file is None and form == "arrow":
                form = "arrow-stream"
            self._rows = self._typed = TypedRows(
                form, file or _StandardOutput(), typed_schema(schema, unit)
            )
        self._schema = schema
        is_seen = sys.stderr.isatty() and not (file is None and sys.stdout.isatty())
        self._progress = Progress(sys.stderr if is_seen else None, SystemClock(), total)

    def __enter__(self) -> Self:
        return self

    def batch(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Write rows."""
        for piece in pieces(rows):
            self._rows.batch(piece)
            self._progress.add(piece.num_rows)

    def flush(self) -> None:
        """Send on what was gathered; whoever follows waits for it."""
        if self._typed is not None:
            self._typed.flush()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the output, or drop it."""
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
            # A head is told by the schema where no row tells it.
            self._rows.batch(pa.RecordBatch.from_pylist([], schema=self._schema))
        self._rows.end()


class _StandardOutput:
    """Standard output as a place for bytes."""

    def write(self, data: bytes) -> int:
        print_bytes(data)
        return len(data)

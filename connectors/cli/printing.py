"""How rows and figures are printed: aligned tables, JSON lines, CSV.

Bytes are text where they are UTF-8 without control characters, and base64 where they are not,
and it is said which. A column may be base64 throughout: the four bytes of an integer key are text
by chance only, and print in one way.

    table    base64:q83v
    json     "payload": "q83v", "payload_encoding": "base64"
    csv      a column payload_encoding: utf-8, base64, or nothing where the payload is null

Everything is printed through `print_lines`, which flushes: a reader of our output that went away
is noticed there, and ends the command well.
"""

import base64
import csv
import io
import json
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa
import typer

from connectors.cli.aligned_table import AlignedTable
from connectors.cli.arguments import Format
from storage_core import StreamOrigin

_BYTES: Final = ("key", "payload", "value")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
# By their numbers.
_STATES: Final = ("normal", "late", "ahead", "expired")
_PRINT_ROWS: Final = 4096

Row = Mapping[str, Any]


class RowPrinter:
    """Prints rows that come in batches of the same columns."""

    def __init__(
        self, kind: Format, columns: Sequence[str], base64_columns: Collection[str] = ()
    ) -> None:
        """Print rows of these columns in this format, bytes of some as base64 throughout."""
        # The lines of rows, the first time with what stands before all of them.
        self._lines: Callable[[Sequence[Row]], list[str]]
        if kind == "table":
            self._lines = _TableForm(columns, base64_columns).lines
        elif kind == "csv":
            self._lines = _CsvForm(columns, base64_columns).lines
        else:
            self._lines = partial(_json_lines, base64_columns)
        self._has_printed = False

    def batch(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Print the rows of a batch."""
        batches = batch.to_batches(_PRINT_ROWS) if isinstance(batch, pa.Table) else [batch]
        for part in batches:
            self.rows(part.to_pylist())

    def rows(self, rows: Sequence[Row]) -> None:
        """Print rows, each with its columns in order."""
        if rows:
            self._print(rows)

    def end(self) -> None:
        """Where there was no row, print what stands before rows."""
        if not self._has_printed:
            self._print([])

    def _print(self, rows: Sequence[Row]) -> None:
        self._has_printed = True
        print_lines(self._lines(rows))


def base64_columns(origin: StreamOrigin | None) -> frozenset[str]:
    """Return the columns of a stream whose bytes are numbers."""
    has_integer_keys = origin is not None and origin.key_mode == "integer"
    return frozenset(("key",)) if has_integer_keys else frozenset()


def print_lines(lines: Sequence[str]) -> None:
    """Print lines; end the command if nobody reads them any more.

    Raises:
        typer.Exit: Whoever read our output has enough.
    """
    if not lines:
        return
    try:
        typer.echo("\n".join(lines))
    except BrokenPipeError as error:
        # What is still in the buffer has no place to go when the interpreter flushes it.
        sys.stdout = io.StringIO()
        raise typer.Exit(0) from error


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str | int | None]]) -> None:
    """Print figures as one aligned table."""
    print_lines(AlignedTable(columns).lines(rows))


def print_json(value: object) -> None:
    """Print one value as one line of JSON."""
    print_lines([json.dumps(value)])


class _TableForm:
    def __init__(self, columns: Sequence[str], base64_columns: Collection[str]) -> None:
        self._table = AlignedTable(columns)
        self._base64 = base64_columns

    def lines(self, rows: Sequence[Row]) -> list[str]:
        return self._table.lines([[self._cell(*item) for item in row.items()] for row in rows])

    def _cell(self, name: str, value: Any) -> str | int | None:  # noqa: ANN401 - any column's value
        if isinstance(value, bytes):
            text, encoding = _text(value, is_base64=name in self._base64)
            return text if encoding == "utf-8" else f"{encoding}:{text}"
        plain = _plain(name, value)
        if plain is None or isinstance(plain, str) or type(plain) is int:
            return plain
        return json.dumps(plain)


def _json_lines(base64_columns: Collection[str], rows: Sequence[Row]) -> list[str]:
    lines = []
    for row in rows:
        fields: dict[str, object] = {}
        for name, value in row.items():
            if isinstance(value, bytes):
                fields |= _told_bytes(name, value, is_base64=name in base64_columns)
            else:
                fields[name] = _plain(name, value)
        lines.append(json.dumps(fields))
    return lines


class _CsvForm:
    def __init__(self, columns: Sequence[str], base64_columns: Collection[str]) -> None:
        names = [[name, f"{name}_encoding"] if name in _BYTES else [name] for name in columns]
        self._head: list[list[object]] = [[name for pair in names for name in pair]]
        self._base64 = base64_columns

    def lines(self, rows: Sequence[Row]) -> list[str]:
        head, self._head = self._head, []
        sheet = _Sheet()
        csv.writer(sheet).writerows(head + [self._fields(row) for row in rows])
        return sheet.lines

    def _fields(self, row: Row) -> list[object]:
        fields: list[object] = []
        for name, value in row.items():
            if name in _BYTES:
                is_base64 = name in self._base64
                fields += ("", "") if value is None else _text(value, is_base64=is_base64)
            elif isinstance(plain := _plain(name, value), bool | list):
                fields.append(json.dumps(plain))
            else:
                fields.append(plain)
        return fields


class _Sheet:
    """What a CSV writer writes, line by line.

    NOTE: told to end lines with a line feed only, the writer of Python 3.11 leaves a carriage
    return inside a field without quotes, and readers take it for the end of the line.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, line: str) -> None:
        self.lines.append(line.removesuffix("\r\n"))


def _plain(name: str, value: Any) -> object:  # noqa: ANN401 - any column's value
    """Return a value as JSON has it; a state by its name."""
    if name == "headers" and value is not None:
        return [{"key": one["key"], **_told_bytes("value", one["value"])} for one in value]
    if name == "state":
        return _STATES[value]
    return value


def _told_bytes(
    name: str, value: bytes | None, *, is_base64: bool = False
) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    text, encoding = _text(value, is_base64=is_base64)
    return {name: text} if encoding == "utf-8" else {name: text, f"{name}_encoding": encoding}


def _text(value: bytes, *, is_base64: bool = False) -> tuple[str, str]:
    try:
        text = "\0" if is_base64 else value.decode()
    except UnicodeDecodeError:
        text = "\0"
    if _CONTROL.search(text) is None:
        return text, "utf-8"
    return base64.b64encode(value).decode(), "base64"

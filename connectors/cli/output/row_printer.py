"""Rows as text: aligned tables, JSON lines, CSV.

Bytes are text where they are UTF-8 without control characters, else base64, and the output says
which. A column may always be base64: the four bytes of an integer key are text by chance only.

    table    base64:q83v
    json     "payload": "q83v", "payload_encoding": "base64"
    csv      a column payload_encoding: utf-8, base64, or nothing where the payload is null

A payload that was decoded is JSON: an object in JSON lines, its text in tables and in CSV, where
its encoding is `json`.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa

from connectors.cli.output.printing import print_lines
from connectors.cli.parsing.options import Format
from connectors.output_formats.aligned_table import AlignedTable
from connectors.output_formats.bytes_text import encoded_text
from connectors.output_formats.csv_text import CsvText
from connectors.output_formats.json_text import json_text
from connectors.output_formats.pieces import pieces
from connectors.output_formats.values import is_value, plain_value
from storage_core import StreamOrigin
from storage_core.platform.python_values import to_python

_PRINT_ROWS: Final = 4096

Row = Mapping[str, Any]
_untyped: Any = pa  # the stubs take no plain dictionary


class RowPrinter:
    """Prints rows that come in batches of the same columns."""

    def __init__(
        self,
        kind: Format,
        columns: Sequence[str],
        base64_columns: Collection[str] = (),
        to: Callable[[Sequence[str]], None] | None = None,
    ) -> None:
        """Print rows of these columns in this format.

        Args:
            kind: The format.
            columns: Their names.
            base64_columns: Columns that are always base64.
            to: Takes lines; standard output if None.
        """
        self._to = to or print_lines
        self._csv: _CsvForm | None = None
        # Returns the lines of rows, the first time with the header.
        self._lines: Callable[[Sequence[Row]], list[str]]
        if kind == "table":
            self._lines = _TableForm(columns, base64_columns).lines
        elif kind == "csv":
            self._csv = _CsvForm(columns, base64_columns)
            self._lines = self._csv.lines
        else:
            self._lines = partial(_json_lines, base64_columns)
        self._has_printed = False

    def batch(self, batch: pa.RecordBatch) -> None:
        """Print the rows of a batch."""
        for part in pieces(batch, _PRINT_ROWS) if batch.num_rows else [batch]:
            if self._csv is not None:
                self._has_printed = True
                self._to(self._csv.batch_lines(part))
            else:
                self.rows(to_python(part))

    def rows(self, rows: Sequence[Row]) -> None:
        """Print rows, each with its columns in order."""
        if rows:
            self._print(rows)

    def end(self) -> None:
        """Print the header if there was no row."""
        if not self._has_printed:
            self._print([])

    def _print(self, rows: Sequence[Row]) -> None:
        self._has_printed = True
        self._to(self._lines(rows))


def base64_columns(origin: StreamOrigin | None) -> frozenset[str]:
    """Return the columns of a stream whose bytes are numbers or digests."""
    has_integer_keys = origin is not None and origin.key_mode == "integer"
    return frozenset(("key",) * has_integer_keys + ("schema_fingerprint",))


class _TableForm:
    def __init__(self, columns: Sequence[str], base64_columns: Collection[str]) -> None:
        self._table = AlignedTable(columns)
        self._base64 = base64_columns

    def lines(self, rows: Sequence[Row]) -> list[str]:
        return self._table.lines([[self._cell(*item) for item in row.items()] for row in rows])

    def _cell(self, name: str, value: Any) -> str | int | None:  # noqa: ANN401 - any column's value
        if is_value(value):
            if value["json"] is not None:
                return str(value["json"])
            value = value["raw"]
        if isinstance(value, bytes):
            text, encoding = encoded_text(value, is_base64=name in self._base64)
            return text if encoding == "utf-8" else f"{encoding}:{text}"
        plain = _plain(name, value)
        if plain is None or isinstance(plain, str) or type(plain) is int:
            return plain
        return json_text(plain)


def _json_lines(base64_columns: Collection[str], rows: Sequence[Row]) -> list[str]:
    lines = []
    for row in rows:
        fields: dict[str, object] = {}
        for name, cell in row.items():
            value = cell["raw"] if is_value(cell) else cell
            if is_value(cell) and cell["json"] is not None:
                fields[name] = json.loads(cell["json"])
            elif isinstance(value, bytes):
                fields |= _bytes_fields(name, value, is_base64=name in base64_columns)
            else:
                fields[name] = _plain(name, value)
        lines.append(json_text(fields))
    return lines


class _CsvForm:
    def __init__(self, columns: Sequence[str], base64_columns: Collection[str]) -> None:
        self._columns = columns
        self._csv = CsvText(base64_columns, _plain)
        self._has_head = False

    def lines(self, rows: Sequence[Row]) -> list[str]:
        return self.batch_lines(
            _untyped.RecordBatch.from_pydict(
                {name: [row[name] for row in rows] for name in self._columns}
            )
        )

    def batch_lines(self, batch: pa.RecordBatch | pa.Table) -> list[str]:
        head = "" if self._has_head else self._csv.head(batch.schema)
        self._has_head = True
        text = head + self._csv.lines(batch)
        return [text.removesuffix("\n")] if text else []


def _plain(name: str, value: Any) -> object:  # noqa: ANN401 - any column's value
    """Return a value as JSON has it; header values with the encoding of their bytes."""
    if name == "headers" and _are_headers(value):
        return [{"key": one["key"], **_bytes_fields("value", one["value"])} for one in value]
    return plain_value(value)


def _are_headers(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(header, dict)
        and header.keys() == {"key", "value"}
        and _may_be_bytes(header["value"])
        for header in value
    )


def _may_be_bytes(value: object) -> bool:
    return value is None or isinstance(value, bytes)


def _bytes_fields(
    name: str, value: bytes | None, *, is_base64: bool = False
) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    text, encoding = encoded_text(value, is_base64=is_base64)
    return {name: text} if encoding == "utf-8" else {name: text, f"{name}_encoding": encoding}

"""Rows as CSV: a line a row, with a head.

A null is nothing between two commas, and an empty text is two quotes. A column of bytes is two: the
text, and in `<name>_encoding` whether it is `utf-8`, `base64`, or `json` of a decoded one. What is
nested is one cell of JSON. Flat columns are never taken row by row.
"""

import io
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from connectors.output_formats.bytes_text import encoded_bytes
from connectors.output_formats.json_text import json_text
from connectors.output_formats.pieces import pieces
from connectors.output_formats.values import VALUE_TYPE
from storage_core.platform.python_values import to_python

# Columns that hold bytes also where all of them are null.
BYTES: Final = ("key", "payload", "value")
_AT_ONCE: Final = 8192
_untyped: Any = pa  # the stubs want to know what an array holds
_OPTIONS: Final = pa_csv.WriteOptions(include_header=False, batch_size=_AT_ONCE)
_compute: Any = pc
_Array = Any


class CsvText:
    """CSV of rows that come in batches of the same columns."""

    def __init__(
        self, base64_columns: Collection[str], as_json: Callable[[str, Any], object]
    ) -> None:
        """Make CSV, bytes of some columns as base64 throughout.

        Args:
            base64_columns: Their names.
            as_json: Returns a nested value of a column as JSON has it.
        """
        self._base64 = base64_columns
        self._as_json = as_json

    def head(self, schema: pa.Schema) -> str:
        """Return the first line, for rows of a schema."""
        pairs = [
            [field.name, f"{field.name}_encoding"] if _is_bytes(field) else [field.name]
            for field in schema
        ]
        return ",".join(_quoted(name) for pair in pairs for name in pair) + "\n"

    def lines(self, batch: pa.RecordBatch | pa.Table) -> str:
        """Return the lines of rows."""
        output = io.BytesIO()
        for piece in pieces(batch):
            columns: list[_Array] = []
            for field in piece.schema:
                columns += self._columns(field, piece.column(field.name))
            names = [str(number) for number in range(len(columns))]
            flat = _untyped.RecordBatch.from_arrays(columns, names=names)
            pa_csv.write_csv(flat, output, _OPTIONS)
        return output.getvalue().decode()

    def _columns(self, field: "pa.Field[Any]", column: _Array) -> Sequence[_Array]:
        name, kind = field.name, field.type
        if kind == VALUE_TYPE:
            decoded, raw = column.flatten()
            text, encoding = encoded_bytes(raw)
            encoding = _compute.if_else(decoded.is_valid(), "json", encoding)
            return [_compute.coalesce(decoded, text), encoding]
        if _is_bytes(field):
            return encoded_bytes(column.cast(pa.binary()), is_base64=name in self._base64)
        if pa.types.is_nested(kind):
            cells = to_python(column)
            return [_untyped.array(map(self._cell, [name] * len(column), cells), pa.string())]
        return [column.cast(pa.string()) if pa.types.is_null(kind) else column]

    def _cell(self, name: str, value: object) -> str | None:
        return None if value is None else json_text(self._as_json(name, value))


def _is_bytes(field: "pa.Field[Any]") -> bool:
    is_bytes = pa.types.is_binary(field.type) or field.type == VALUE_TYPE
    return is_bytes or (pa.types.is_null(field.type) and field.name in BYTES)


def _quoted(name: str) -> str:
    if any(one in name for one in ',"\r\n'):
        return '"' + name.replace('"', '""') + '"'
    return name

"""Rows as JSON lines, in order of address.

    {"shard": 0, "secondary": 3, "address": 7, "primary": 1700000000000, "payload": "text", ...}

Bytes are a string if they are UTF-8, else base64 under a name that ends in `_base64`. Null columns
are left out, as are a version and a state of 0; a tombstone has `"payload": null`. `value` has the
decoded fields of an Avro value. It is for people: an import reads the payload.
"""

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from storage_core.avro import body_starts, decode_batch, verified_starts
from storage_core.errors import InvalidRequestError
from storage_core.export.export_rows import (
    ExportContext,
    row_schema,
    to_export_rows,
    with_all_columns,
)
from storage_core.export.manifest import ExportedFile
from storage_core.export.memory_budget import (
    MemoryBudget,
    TooLargeError,
    objects_in,
)
from storage_core.export.verified_file import BATCH_ROWS, VerifiedFile
from storage_core.platform.python_values import to_python

_BASE64: Final = "_base64"
_OMITTED_IF_ZERO: Final = ("version", "state")
_COLUMNS: Final = frozenset(row_schema(has_keys=False).names)
# The most memory of a string for each byte of its line.
_STRING_MEMORY_FACTOR: Final = 4
_untyped: Any = pa


@dataclass(frozen=True, slots=True)
class JsonLines:
    """JSON lines: one file for all rows of a range."""

    context: ExportContext

    def write(
        self, directory: Path, stem: str, batches: Sequence[pa.RecordBatch]
    ) -> tuple[ExportedFile, ...]:
        """Write the rows of a range as a file with a name from `stem`."""
        rows: Any = to_export_rows(batches, has_keys=self.context.has_keys)
        with VerifiedFile(directory / f"{stem}.jsonl") as file:
            for first in range(0, rows.num_rows, BATCH_ROWS):
                batch = rows.slice(first, BATCH_ROWS).combine_chunks()
                lines = [
                    _line(row, value) for row, value in zip(*self._with_values(batch), strict=True)
                ]
                file.add("".join(lines).encode(), batch.num_rows)
        return (file.entry("", None, int(rows.column("address")[0].as_py())),)

    def read(self, data: bytes, _file: ExportedFile) -> pa.Table:
        """Return the rows in the first bytes of a file."""
        schema, budget = (
            row_schema(has_keys=self.context.has_keys),
            MemoryBudget(self.context.bytes_max),
        )
        tables = [schema.empty_table()]
        for lines in _batched(_lines(data)):
            rows = [_row(self._parsed(line)) for line in lines]
            tables.append(_untyped.Table.from_pylist(rows, schema=schema))
            budget.take(tables[-1].nbytes)
        return with_all_columns(_untyped.concat_tables(tables), has_keys=self.context.has_keys)

    def _parsed(self, line: bytes) -> Mapping[str, Any]:
        """Return the object in a line.

        Raises:
            TooLargeError: It would take too much memory: two bytes may be an object of dozens.
        """
        if (
            len(line) * _STRING_MEMORY_FACTOR > self.context.bytes_max
            or objects_in(line) > self.context.bytes_max
        ):
            raise TooLargeError
        fields: Mapping[str, Any] = json.loads(line)
        return fields

    def _with_values(self, rows: Any) -> tuple[list[dict[str, Any]], list[object]]:  # noqa: ANN401 - a table
        """Return rows, and the fields of their values."""
        values: list[object] = [None] * rows.num_rows
        numbers = rows.column("schema").fill_null(-1).to_numpy()
        payloads = rows.column("payload").combine_chunks()
        starts = body_starts(payloads, rows.column("headers").combine_chunks())
        for number in np.unique(numbers[numbers >= 0]):
            rows_of_schema = np.flatnonzero(numbers == number)
            writer = self.context.writers[number]
            try:
                bodies = payloads.take(_untyped.array(rows_of_schema))
                body_offsets = verified_starts(
                    writer.schema, writer.registry_id, bodies, starts[rows_of_schema]
                )
                decoded = decode_batch(bodies, writer.schema, starts=body_offsets)
            except InvalidRequestError:
                continue
            faulty = {fault.row for fault in decoded.faults}
            python_rows = to_python(decoded.table)
            for index, row in enumerate(rows_of_schema.tolist()):
                if index not in faulty and bodies[index].is_valid:
                    values[row] = python_rows[index]
        return rows.to_pylist(), values


def _line(row: Mapping[str, Any], decoded: object) -> str:
    fields: dict[str, Any] = {}
    for name, value in row.items():
        if (value is None and name != "payload") or (name in _OMITTED_IF_ZERO and not value):
            continue
        if name == "headers":
            fields[name] = [
                {"key": header["key"]} | _named_value("value", header["value"]) for header in value
            ]
        else:
            fields |= _named_value(name, value)
    if decoded is not None:
        fields["value"] = _json(decoded)
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")) + "\n"


def _batched(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    lines = iter(lines)
    while batch := list(islice(lines, BATCH_ROWS)):
        yield batch


def _lines(data: bytes) -> Iterator[bytes]:
    begin = 0
    while begin < len(data):
        end = data.find(b"\n", begin)
        end = len(data) if end < 0 else end
        yield data[begin:end]
        begin = end + 1


def _row(fields: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {"version": 0, "state": 0}
    for name, value in fields.items():
        if name == "headers":
            row[name] = [
                {"key": header["key"], "value": _bytes(header, "value")} for header in value
            ]
        elif name.removesuffix(_BASE64) in ("key", "payload"):
            plain_name = name.removesuffix(_BASE64)
            row[plain_name] = _bytes(fields, plain_name)
        elif name in _COLUMNS:
            row[name] = value
    return row


def _named_value(name: str, value: object) -> dict[str, object]:
    """Return a value under its name, or under the one for base64."""
    if not isinstance(value, bytes):
        return {name: value}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {name + _BASE64: b64encode(value).decode()}


def _bytes(fields: Mapping[str, Any], name: str) -> bytes | None:
    if name + _BASE64 in fields:
        return b64decode(fields[name + _BASE64], validate=True)
    text = fields[name]
    if not isinstance(text, str | None):
        message = f"{name} is not a string"
        raise TypeError(message)
    return None if text is None else text.encode()


def _json(value: Any) -> Any:  # noqa: ANN401 - whatever Arrow shows
    """Return a Python value as JSON can have it."""
    if isinstance(value, dict):
        return {str(name): _json(header) for name, header in value.items()}
    if isinstance(value, list | tuple):
        return [_json(header) for header in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return value if value is None or isinstance(value, str | int) else str(value)

"""Rows as lines of JSON, by address: for people, and for programs that know nothing else.

    {"shard": 0, "secondary": 3, "address": 7, "primary": 1700000000000, "payload": "text", ...}

Bytes that are UTF-8 are a text; others are base64, and their name ends in `_base64`. What a row
does not have is left out, and so are a version and a state of 0; a tombstone has `"payload": null`.
`value` shows the fields of a value that a schema wrote. It is for those who read, and is not read
back: the payload is.
"""

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from storage_core.avro import decode_batch, in_python, starts_by, starts_of
from storage_core.errors import InvalidRequestError
from storage_core.export.bounds import FILE_BYTES_MAX, Room, TooLargeError, objects_in
from storage_core.export.manifest import ExportedFile
from storage_core.export.plain_rows import filled, plain, plain_schema
from storage_core.export.proven_file import PIECE_ROWS, ProvenFile
from storage_core.parts.typed_columns import Writer

_BASE64: Final = "_base64"
_ZERO_IS_LEFT_OUT: Final = ("version", "state")
_PLAIN: Final = frozenset(plain_schema(has_keys=False).names)
# What a text takes for each byte of its line at most.
_TEXT_TIMES: Final = 4
_untyped: Any = pa


class JsonLines:
    """The form of lines of JSON; all rows of a chunk lie in one file."""

    def __init__(
        self, writers: Sequence[Writer], *, has_keys: bool, bytes_max: int = FILE_BYTES_MAX
    ) -> None:
        """Write and read rows whose schemas are these, by number.

        `bytes_max` is what the rows of a file that is read may take.
        """
        self._writers = writers
        self._has_keys = has_keys
        self._bytes_max = bytes_max

    def write(
        self, directory: Path, stem: str, batches: Sequence[pa.RecordBatch]
    ) -> tuple[ExportedFile, ...]:
        """Write the rows of a chunk as files whose names begin alike."""
        rows: Any = plain(batches, has_keys=self._has_keys)
        with ProvenFile(directory / f"{stem}.jsonl") as file:
            for first in range(0, rows.num_rows, PIECE_ROWS):
                some = rows.slice(first, PIECE_ROWS).combine_chunks()
                lines = [_line(row, value) for row, value in zip(*self._shown(some), strict=True)]
                file.add("".join(lines).encode(), some.num_rows)
        return (file.entry("", None, int(rows.column("address")[0].as_py())),)

    def read(self, data: bytes, _file: ExportedFile) -> pa.Table:
        """Return the rows that the first bytes of a file have."""
        schema, room = plain_schema(has_keys=self._has_keys), Room(self._bytes_max)
        tables = [schema.empty_table()]
        for lines in _some(_lines(data)):
            rows = [_row(self._parsed(line)) for line in lines]
            tables.append(_untyped.Table.from_pylist(rows, schema=schema))
            room.take(tables[-1].nbytes)
        return filled(_untyped.concat_tables(tables), has_keys=self._has_keys)

    def _parsed(self, line: bytes) -> Mapping[str, Any]:
        """Return the object in a line.

        Raises:
            TooLargeError: It would take too much: a value of two bytes is an object of dozens.
        """
        if len(line) * _TEXT_TIMES > self._bytes_max or objects_in(line) > self._bytes_max:
            raise TooLargeError
        fields: Mapping[str, Any] = json.loads(line)
        return fields

    def _shown(self, rows: Any) -> tuple[list[dict[str, Any]], list[object]]:  # noqa: ANN401 - a table
        """Return rows, and what their values' fields say."""
        values: list[object] = [None] * rows.num_rows
        numbers = rows.column("schema").fill_null(-1).to_numpy()
        payloads = rows.column("payload").combine_chunks()
        starts = starts_of(payloads, rows.column("headers").combine_chunks())
        for number in np.unique(numbers[numbers >= 0]):
            places = np.flatnonzero(numbers == number)
            writer = self._writers[number]
            try:
                bodies = payloads.take(_untyped.array(places))
                begins = starts_by(writer.schema, writer.registry_id, bodies, starts[places])
                decoded = decode_batch(bodies, writer.schema, starts=begins)
            except InvalidRequestError:
                continue
            faulty = {fault.row for fault in decoded.faults}
            shown = in_python(decoded.table)
            for index, place in enumerate(places.tolist()):
                if index not in faulty and bodies[index].is_valid:
                    values[place] = shown[index]
        return rows.to_pylist(), values


def _line(row: Mapping[str, Any], value: object) -> str:
    fields: dict[str, Any] = {}
    for name, given in row.items():
        if (given is None and name != "payload") or (name in _ZERO_IS_LEFT_OUT and not given):
            continue
        if name == "headers":
            fields[name] = [{"key": one["key"]} | _named("value", one["value"]) for one in given]
        else:
            fields |= _named(name, given)
    if value is not None:
        fields["value"] = _json(value)
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")) + "\n"


def _some(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    lines = iter(lines)
    while some := list(islice(lines, PIECE_ROWS)):
        yield some


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
            row[name] = [{"key": one["key"], "value": _bytes(one, "value")} for one in value]
        elif name.removesuffix(_BASE64) in ("key", "payload"):
            plain_name = name.removesuffix(_BASE64)
            row[plain_name] = _bytes(fields, plain_name)
        elif name in _PLAIN:
            row[name] = value
    return row


def _named(name: str, value: object) -> dict[str, object]:
    """Return a value of a row under the name that tells what it is."""
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
        message = f"{name} is no text"
        raise TypeError(message)
    return None if text is None else text.encode()


def _json(value: Any) -> Any:  # noqa: ANN401 - whatever Arrow shows
    """Return a value of Arrow's as JSON can have it."""
    if isinstance(value, dict):
        return {str(name): _json(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_json(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return value if value is None or isinstance(value, str | int) else str(value)

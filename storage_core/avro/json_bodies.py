"""JSON bodies: texts of JSON with the fields of a flat record, read as columns of its types.

A body is one object in UTF-8. It has each field once that may not be null, and no others:

    long         an integer within 64 bits (`integer_or_none`)
    double       a number, as the nearest double; neither NaN nor infinite
    string       a text
    boolean      true or false
    string uuid  hexadecimal digits as 8-4-4-4-12; in lower case
    long timestamp-micros, int date
                 a text or an epoch (avro/written_times.py)
    enum         one of the symbols
    [null, ...]  as above, or null, or left out

Bodies are read some thousands at a time by Arrow (json_columns.py), which takes none but such. If
it names a few that hinder it, those are read one by one, and the others without them. Else all are
divided, until so few are left that they are read one by one. Both ways have the same values; a body
that does not fit is a fault, and its columns are null.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn

import numpy as np
import pyarrow as pa

from storage_core.avro.avro_types import Enum, Field, Primitive, Union, members
from storage_core.avro.json_columns import (
    JsonField,
    JsonKind,
    JsonTexts,
    Places,
    Untaken,
    columns_at_once,
    integer_or_none,
)
from storage_core.avro.schema import AvroSchema
from storage_core.avro.written_times import day_or_none, micros_or_none
from storage_core.errors import InvalidRequestError

# So few are read one by one, rather than halved once more.
_ROWS_BY_ONE: Final = 64
# How often rows that hinder are set aside: of many rows before they are divided, of a piece before
# all of it are read one by one. Each time costs as much as to read them at once.
_ROWS_OF_PIECE: Final = 512
_TRIES_OF_MANY: Final = 3
_TRIES_OF_PIECE: Final = 16
_UUID: Final = re.compile(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\Z"
)
_KINDS: Final[dict[tuple[str, str | None], JsonKind]] = {
    ("long", None): "int",
    ("double", None): "float",
    ("string", None): "string",
    ("boolean", None): "bool",
    ("long", "timestamp-micros"): "timestamp",
    ("int", "date"): "date",
}
_UUID_TYPE: Final = ("string", "uuid")
_untyped: Any = pa  # the stubs want to know what an array holds


@dataclass(frozen=True, slots=True)
class JsonColumns:
    """The fields of some bodies.

    Attributes:
        table: A row for each body.
        reasons: Why bodies could not be read, by row; these rows are null.
    """

    table: pa.Table
    reasons: dict[int, str]


def decode_json(bodies: Any, schema: AvroSchema, starts: int | Places) -> JsonColumns:  # noqa: ANN401 - an array
    """Read bodies as columns of a schema.

    Args:
        bodies: A binary array, chunked or not; null has null columns and is no fault.
        schema: Whose fields they have.
        starts: Where the body starts in each value; one for all or for each.

    Raises:
        InvalidRequestError: The schema has fields that JSON is not read as.
    """
    reading = _Reading(schema)
    if isinstance(bodies, pa.ChunkedArray):
        chunks: Any = bodies.chunks
        bodies = (
            chunks[0]
            if len(chunks) == 1
            else _untyped.concat_arrays(chunks or [pa.array([], pa.binary())])
        )
    of_rows = np.broadcast_to(np.asarray(starts, np.int64), len(bodies))
    texts = JsonTexts(bodies, of_rows)
    batches = [batch for first, end in texts.runs() for batch in reading.batches(texts, first, end)]
    return JsonColumns(_untyped.Table.from_batches(batches, reading.types), reading.reasons)


def object_of(body: bytes) -> dict[str, Any]:
    """Return the object that a body is.

    Raises:
        InvalidRequestError: It is none; the message says why.
    """
    try:
        value = json.loads(body.decode(), object_pairs_hook=_once, parse_constant=_no_number)
    except UnicodeDecodeError as error:
        message = f"no UTF-8 at byte {error.start}"
        raise InvalidRequestError(message) from error
    except json.JSONDecodeError as error:
        message = (
            f"no JSON at character {error.pos}: {error.msg}" if body else "no JSON: it is empty"
        )
        raise InvalidRequestError(message) from error
    except RecursionError as error:
        message = "no object of fields: it is nested too deep"
        raise InvalidRequestError(message) from error
    except InvalidRequestError:
        raise
    except ValueError as error:
        message = "a number of too many digits"
        raise InvalidRequestError(message) from error
    if not isinstance(value, dict):
        message = "no object of fields"
        raise InvalidRequestError(message)
    return value


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        message = f'field "{ascii(twice)[1:-1][:60]}": is there twice'
        raise InvalidRequestError(message)
    return values


def _no_number(word: str) -> NoReturn:
    message = f"{word} is no JSON"
    raise InvalidRequestError(message)


def json_fields(schema: AvroSchema) -> list[JsonField]:
    """Return the fields of a schema, as JSON has them.

    Raises:
        InvalidRequestError: JSON is not read as one of them.
    """
    document = json.loads(schema.text)
    written = document.get("fields", ()) if isinstance(document, dict) else ()
    uuids = {field["name"] for field in written if _is_uuid(field["type"])}
    return [
        replace(read, kind="uuid") if read.name in uuids else read
        for read in (_json_field(schema, field) for field in schema.fields)
    ]


def _is_uuid(kind: Any) -> bool:  # noqa: ANN401 - JSON
    """Tell whether a type is a UUID, or one or null; Arrow has no type of its own for it."""
    if isinstance(kind, list):
        return any(map(_is_uuid, kind))
    return isinstance(kind, dict) and (kind.get("type"), kind.get("logicalType")) == _UUID_TYPE


def _json_field(schema: AvroSchema, field: Field) -> JsonField:
    kind, is_nullable = field.type, False
    if isinstance(kind, Union) and len(members(kind)) == 1:
        kind, is_nullable = members(kind)[0], True
    if isinstance(kind, Enum):
        return JsonField(field.name, "enum", is_nullable, kind.symbols)
    json_kind = _KINDS.get((kind.kind, kind.logical)) if isinstance(kind, Primitive) else None
    if json_kind is None:
        message = f"field {field.name} of {schema.full_name} has a type that JSON is not read as"
        raise InvalidRequestError(message)
    return JsonField(field.name, json_kind, is_nullable)


class _Reading:
    """Reads texts by the fields of one schema."""

    def __init__(self, schema: AvroSchema) -> None:
        self._fields = json_fields(schema)
        self._names = {field.name for field in self._fields}
        self.types = schema.arrow_schema()
        self.reasons: dict[int, str] = {}

    def batches(self, texts: JsonTexts, first: int, end: int) -> Iterator[pa.RecordBatch]:
        """Yield the columns of a range of rows."""
        rows = np.flatnonzero(texts.is_there[first:end]) + first
        read = self._at_once(texts, rows) if len(rows) else (None, rows)
        if read is not None:
            yield self._joined(texts, range(first, end), rows, *read)
        else:
            size = min(_ROWS_OF_PIECE, -(-(end - first) // 2))
            for start in range(first, end, size):
                yield from self.batches(texts, start, min(start + size, end))

    def _at_once(self, texts: JsonTexts, rows: Places) -> tuple[list[Any] | None, Places] | None:
        """Return the columns of rows without those that hinder it, and which rows these are.

        There may be none left of them. None says that the rows are to be divided first.
        """
        is_piece = len(rows) <= _ROWS_OF_PIECE
        none, by_one = (None, rows[:0]), len(rows) <= _ROWS_BY_ONE
        for _ in range(_TRIES_OF_PIECE if is_piece else _TRIES_OF_MANY):
            hindering = texts.no_objects(rows)
            if not len(hindering):
                lines = texts.joined(rows)
                read = columns_at_once(lines, len(rows), self._fields, self.types)
                if not isinstance(read, Untaken):
                    return read, rows
                hindering = np.array([row for row in read.rows if row < len(rows)], np.int64)
            if not len(hindering):
                return none if by_one else None
            if len(hindering) == len(rows):
                return none
            rows = np.delete(rows, hindering)
        # So many that hinder one after the other are found no faster among fewer rows.
        return none if is_piece else None

    def _joined(
        self,
        texts: JsonTexts,
        every: range,
        rows: Places,
        columns: list[Any] | None,
        taken: Places,
    ) -> pa.RecordBatch:
        """Return the columns of a range: those of rows that were taken, and of others one by one.

        Args:
            texts: What the others are read of.
            every: All rows of the range.
            rows: Those that have a text.
            columns: Those of the rows that were taken.
            taken: Those rows.
        """
        if columns is not None and len(taken) == len(every):
            return _batch(columns, self.types)
        others = np.setdiff1d(rows, taken, assume_unique=True)
        pieces = self._by_one(texts, others)
        if columns is not None:
            pieces = [_untyped.concat_arrays(both) for both in zip(columns, pieces, strict=True)]
        where = np.full(len(every), -1, np.int64)
        where[np.concatenate((taken, others)) - every.start] = np.arange(len(rows))
        indices = _untyped.array(where, mask=where < 0)
        return _batch([piece.take(indices) for piece in pieces], self.types)

    def _by_one(self, texts: JsonTexts, rows: Places) -> list[Any]:
        values: dict[str, list[Any]] = {field.name: [] for field in self._fields}
        for row in rows.tolist():
            read: dict[str, Any] = {}
            try:
                read = self._values(object_of(texts.text(row)))
            except InvalidRequestError as error:
                self.reasons[row] = error.message
            for name, column in values.items():
                column.append(read.get(name))
        return [_of_type(values[one.name], one.type) for one in self.types]

    def _values(self, fields: dict[str, Any]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for field in self._fields:
            written = fields.get(field.name)
            if written is None:
                if not field.is_nullable:
                    message = f'field "{field.name}": is missing or null'
                    raise InvalidRequestError(message)
                continue
            value = _READERS[field.kind](field, written)
            if value is None:
                message = f'field "{field.name}": its value is no {field.kind}'
                raise InvalidRequestError(message)
            values[field.name] = value
        for name in fields:
            if name not in self._names:
                message = f'field "{ascii(name)[1:-1][:60]}": there is no such field'
                raise InvalidRequestError(message)
        return values


def _batch(columns: list[Any], types: pa.Schema) -> pa.RecordBatch:
    batch: pa.RecordBatch = _untyped.RecordBatch.from_arrays(columns, schema=types)
    return batch


def _of_type(values: list[Any], kind: pa.DataType) -> Any:  # noqa: ANN401 - an array
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    return _untyped.array(values, kind)


def _integer(_: JsonField, written: Any) -> int | None:  # noqa: ANN401 - as those below
    return integer_or_none(written)


def _double(_: JsonField, written: Any) -> float | None:  # noqa: ANN401
    if type(written) not in (int, float):
        return None
    try:
        value = float(written)
    except OverflowError:
        return None
    # Of both zeros the positive one: of `-0` nobody could tell.
    return value + 0.0 if math.isfinite(value) else None


def _text(_: JsonField, written: Any) -> str | None:  # noqa: ANN401
    if type(written) is not str:
        return None
    try:
        written.encode()
    except UnicodeEncodeError:
        return None
    return written


def _boolean(_: JsonField, written: Any) -> bool | None:  # noqa: ANN401
    return written if type(written) is bool else None


def _uuid(_: JsonField, written: Any) -> str | None:  # noqa: ANN401
    return written.lower() if type(written) is str and _UUID.match(written) else None


def _symbol(field: JsonField, written: Any) -> str | None:  # noqa: ANN401
    return written if type(written) is str and written in field.values else None


def _micros(_: JsonField, written: Any) -> int | None:  # noqa: ANN401
    return micros_or_none(written)


def _day(_: JsonField, written: Any) -> int | None:  # noqa: ANN401
    return day_or_none(written)


_READERS: Final[dict[JsonKind, Callable[[JsonField, Any], Any]]] = {
    "int": _integer,
    "float": _double,
    "string": _text,
    "bool": _boolean,
    "uuid": _uuid,
    "timestamp": _micros,
    "date": _day,
    "enum": _symbol,
}

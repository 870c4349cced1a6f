"""JSON bodies: texts of JSON with the fields of a flat record, read as columns of its types.

A body is one object in UTF-8. It has each field once that may not be null, and no others:

    long         an integer of JSON's, within 64 bits; neither 5.0 nor 1e3
    double       a number, as the nearest double; neither NaN nor infinite
    string       a text
    boolean      true or false
    string uuid  hexadecimal digits as 8-4-4-4-12; in lower case
    long timestamp-micros, int date
                 a text or an epoch (avro/written_times.py)
    enum         one of the symbols
    [null, ...]  as above, or null, or left out

Bodies are read some thousands at a time by Arrow (json_columns.py), which takes none but such. If
that fails for some of them they are halved, until a few are left that are read one by one. Both
ways have the same values; a body that does not fit is a fault, and its columns are null.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core.avro.avro_types import Enum, Field, Primitive, Union, members
from storage_core.avro.json_columns import JsonField, JsonKind, columns_at_once
from storage_core.avro.schema import AvroSchema
from storage_core.avro.written_times import day_or_none, micros_or_none
from storage_core.errors import InvalidRequestError

_ROWS_AT_ONCE: Final = 8192
_BYTES_AT_ONCE: Final = 2**22
# So few are read one by one, rather than halved once more.
_ROWS_BY_ONE: Final = 16
_INT64_MAX: Final = 2**63 - 1
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
Places = npt.NDArray[np.int64]


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
    texts = _Texts(bodies, of_rows)
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


class _Texts:
    """The texts of bodies, as they lie behind each other."""

    def __init__(self, bodies: Any, starts: Places) -> None:  # noqa: ANN401 - an array
        is_large = pa.types.is_large_binary(bodies.type)
        buffers = bodies.buffers()
        kind = np.dtype(np.int64 if is_large else np.int32)
        edges = np.frombuffer(
            buffers[1] or b"\0" * 8, kind, len(bodies) + 1, bodies.offset * kind.itemsize
        ).astype(np.int64)
        self.data = np.frombuffer(buffers[2] or b"", np.uint8)
        self.ends = edges[1:]
        self.begins = np.minimum(edges[:-1] + starts, self.ends)
        self.is_there = bodies.is_valid().to_numpy(zero_copy_only=False)

    def runs(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of rows that are read at once."""
        first, count = 0, len(self.ends)
        while first < count:
            most = int(np.searchsorted(self.ends, self.begins[first] + _BYTES_AT_ONCE, "right"))
            end = min(max(most, first + 1), first + _ROWS_AT_ONCE, count)
            yield first, end
            first = end

    def joined(self, rows: Places) -> bytes | None:
        """Return the texts of rows, a line break behind each; None if one is no object at sight."""
        begins, ends = self.begins[rows], self.ends[rows]
        if not ((ends - begins >= 2) & True).all():  # noqa: PLR2004 - two braces
            return None
        if not (self.data[begins] == ord("{")).all() or not (self.data[ends - 1] == ord("}")).all():
            return None
        view = self.data.data
        return b"\n".join(
            [*(view[a:b] for a, b in zip(begins.tolist(), ends.tolist(), strict=True)), b""]
        )

    def text(self, row: int) -> bytes:
        return self.data[self.begins[row] : self.ends[row]].tobytes()


class _Reading:
    """Reads texts by the fields of one schema."""

    def __init__(self, schema: AvroSchema) -> None:
        self._fields = json_fields(schema)
        self._names = {field.name for field in self._fields}
        self.types = schema.arrow_schema()
        self.reasons: dict[int, str] = {}

    def batches(self, texts: _Texts, first: int, end: int) -> Iterator[pa.RecordBatch]:
        """Yield the columns of a range of rows."""
        rows = np.flatnonzero(texts.is_there[first:end]) + first
        columns = self._columns(texts, rows) if len(rows) else None
        if columns is not None:
            if len(rows) < end - first:
                where = np.full(end - first, -1, np.int64)
                where[rows - first] = np.arange(len(rows))
                indices = _untyped.array(where, mask=where < 0)
                columns = [column.take(indices) for column in columns]
            yield _untyped.RecordBatch.from_arrays(columns, schema=self.types)
        elif not len(rows) or end - first <= _ROWS_BY_ONE:
            yield self._by_one(texts, first, end)
        else:
            half = (first + end) // 2
            yield from self.batches(texts, first, half)
            yield from self.batches(texts, half, end)

    def _columns(self, texts: _Texts, rows: Places) -> list[Any] | None:
        joined = texts.joined(rows)
        if joined is None:
            return None
        return columns_at_once(joined, len(rows), self._fields, self.types)

    def _by_one(self, texts: _Texts, first: int, end: int) -> pa.RecordBatch:
        values: dict[str, list[Any]] = {field.name: [] for field in self._fields}
        for row in range(first, end):
            read: dict[str, Any] = {}
            if texts.is_there[row]:
                try:
                    read = self._values(object_of(texts.text(row)))
                except InvalidRequestError as error:
                    self.reasons[row] = error.message
            for name, column in values.items():
                column.append(read.get(name))
        columns = [_of_type(values[one.name], one.type) for one in self.types]
        batch: pa.RecordBatch = _untyped.RecordBatch.from_arrays(columns, schema=self.types)
        return batch

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


def _of_type(values: list[Any], kind: pa.DataType) -> Any:  # noqa: ANN401 - an array
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    return _untyped.array(values, kind)


def _integer(_: JsonField, written: Any) -> int | None:  # noqa: ANN401 - as those below
    fits = type(written) is int and -_INT64_MAX - 1 <= written <= _INT64_MAX
    return written if fits else None


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

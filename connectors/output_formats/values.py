"""Avro values in rows: the one place where a payload becomes what its fields say.

A row knows the schema that wrote it by `schema_id` and `schema_fingerprint`; the texts come from
the stream, no registry is asked. Rows are decoded side by side, a schema at a time. In text a value
is JSON by its own schema. In typed files fields are columns by one schema for all, and `payload`
has the bytes of rows that do not decode. Those are counted, never left out.
"""

import base64
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connectors.output_formats.json_text import json_text
from storage_core import InvalidRequestError, SchemaEntry
from storage_core.avro import (
    AvroSchema,
    body_starts,
    decode_batch,
    newest_schema,
    verified_starts,
)
from storage_core.platform.python_values import to_python
from storage_core.sql.field_columns import field_columns

# What a value is in text: JSON, or the bytes of one that is not decoded; neither for none.
VALUE_TYPE: Final = pa.struct([pa.field("json", pa.string()), pa.field("raw", pa.binary())])
_BESIDE: Final = ("schema_id", "schema_fingerprint", "headers")
_untyped: Any = pa  # the stubs lack what is made from parts
_compute: Any = pc
_Array = Any
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Values:
    """The fields of some rows; those that did not decode are null in them."""

    table: Any
    is_decoded: npt.NDArray[np.bool_]


class DecodedValues:
    """Shows rows with their payloads decoded."""

    def __init__(
        self,
        schemas: Callable[[], Iterable[SchemaEntry]],
        columns: Sequence[str],
        reader: AvroSchema | None,
        *,
        is_typed: bool,
    ) -> None:
        """Decode payloads of rows with these columns.

        Args:
            schemas: Returns the schemas of the stream; called again for an unknown one.
            columns: The columns to return, `payload` among them.
            reader: The schema by which all values are read; each row's own if None.
            is_typed: Whether fields are columns; they need a reader.
        """
        self._schemas = schemas
        self._columns = list(columns)
        self._reader = reader
        self._is_typed = is_typed
        self._names = _column_names(schemas(), reader) if is_typed and reader else {}
        self._parsed: dict[tuple[int, bytes], AvroSchema | None] = {}
        self.stored = list(dict.fromkeys((*columns, *_BESIDE)))
        self.left = 0
        self.reason: str | None = None

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of the decoded rows of a schema."""
        return self.decoded(pa.RecordBatch.from_pylist([], schema=schema)).schema

    def decoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with what their payloads say."""
        payload = batch.column("payload")
        parts = self._decoded(batch, payload)
        is_decoded = np.zeros(batch.num_rows, np.bool_)
        for places, values in parts:
            is_decoded[places] = values.is_decoded
        raw = _compute.if_else(
            _untyped.array(is_decoded), _untyped.scalar(None, pa.binary()), payload
        )
        fields = self._fields(parts, batch.num_rows) if self._is_typed else []
        if not self._is_typed:
            raw = _in_text(
                parts, raw, is_decoded | payload.is_null().to_numpy(zero_copy_only=False)
            )
        columns: dict[str, _Array] = {}
        for name in self._columns:
            columns[name] = raw if name == "payload" else batch.column(name)
            if name == "payload":
                columns |= dict(fields)
        rows: pa.RecordBatch = _untyped.RecordBatch.from_arrays(
            list(columns.values()), names=list(columns)
        )
        return rows

    def _decoded(self, batch: pa.RecordBatch, payload: _Array) -> list[tuple[Places, _Values]]:
        """Return the values of each schema's rows, and where those rows are."""
        ids = batch.column("schema_id")
        marks = batch.column("schema_fingerprint").dictionary_encode()
        with_schema = ids.is_valid().to_numpy(zero_copy_only=False)
        if not with_schema.any():
            return []
        number = ids.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        code = marks.indices.fill_null(0).to_numpy(zero_copy_only=False)
        starts = body_starts(payload, batch.column("headers"))
        pairs = number << 32 | code
        parts = []
        for pair in np.unique(pairs[with_schema]):
            places = np.flatnonzero(with_schema & (pairs == pair))
            mark = marks.dictionary[int(pair & 0xFFFFFFFF)].as_py()
            registry_id = int(pair >> 32)
            schema = self._schema_of(registry_id, mark)
            bodies, begins = payload.take(_untyped.array(places)), starts[places]
            if schema is not None:
                begins = verified_starts(schema, registry_id, bodies, begins)
            values = self._values(schema, bodies, begins)
            if values is not None:
                parts.append((places, values))
        return parts

    def _values(self, schema: AvroSchema | None, bodies: _Array, starts: Places) -> _Values | None:
        valid = bodies.is_valid().to_numpy(zero_copy_only=False)
        if schema is None:
            self._leave(int(valid.sum()), "its schema is not kept in the stream")
            return None
        try:
            decoded = decode_batch(bodies, schema, reader=self._reader, starts=starts)
        except InvalidRequestError as error:
            self._leave(int(valid.sum()), error.message)
            return None
        for fault in decoded.faults:
            valid[fault.row] = False
        if decoded.faults:
            self._leave(len(decoded.faults), decoded.faults[0].reason)
        return _Values(decoded.table, valid)

    def _leave(self, count: int, reason: str) -> None:
        if count and self.reason is None:
            self.reason = reason
        self.left += count

    def _schema_of(self, number: int, mark: bytes) -> AvroSchema | None:
        if (number, mark) not in self._parsed:
            self._parsed[number, mark] = None
            for entry in self._schemas():
                if (entry.registry_id, entry.fingerprint) == (number, mark):
                    self._parsed[number, mark] = AvroSchema.stored(entry.text)
        return self._parsed[number, mark]

    def _fields(
        self, parts: Sequence[tuple[Places, _Values]], count: int
    ) -> list[tuple[str, _Array]]:
        """Return the fields of all rows as columns, null where there is no value."""
        if self._reader is None:
            message = "typed files need a schema to read by"
            raise InvalidRequestError(message)
        where = np.full(count, -1, np.int64)
        first = 0
        for places, _ in parts:
            where[places] = np.arange(first, first + len(places))
            first += len(places)
        taken = _untyped.array(where, mask=where < 0)
        empty = self._reader.arrow_schema().empty_table()
        rows = _untyped.concat_tables([empty, *(values.table for _, values in parts)])
        return [
            (self._names[name], rows.column(name).combine_chunks().take(taken))
            for name in empty.column_names
        ]


def _column_names(schemas: Iterable[SchemaEntry], reader: AvroSchema) -> dict[str, str]:
    """Return the column of each of a schema's fields, as SQL over the stream names it."""
    columns = field_columns(AvroSchema.stored(one.text) for one in schemas)
    fields = reader.arrow_schema()
    columns.add(fields)
    return {one.name: columns.name_of(one.name, one.type) for one in fields}


def is_value(value: object) -> bool:
    """Tell whether a cell is of `VALUE_TYPE`."""
    return isinstance(value, dict) and value.keys() == {"json", "raw"}


def latest_schema(schemas: Iterable[SchemaEntry]) -> AvroSchema | None:
    """Return the newest of some schemas; None if there is none."""
    newest = newest_schema(schemas)
    return None if newest is None else AvroSchema.stored(newest.text)


def _in_text(
    parts: Sequence[tuple[Places, _Values]], raw: _Array, has_none: npt.NDArray[np.bool_]
) -> _Array:
    texts: list[str | None] = [None] * len(raw)
    is_shown = ~has_none
    for places, values in parts:
        rows = to_python(values.table)
        for place, row, is_there in zip(
            places.tolist(), rows, values.is_decoded.tolist(), strict=True
        ):
            if is_there:
                texts[place] = json_text(plain_value(row))
                is_shown[place] = True
    fields = [_untyped.array(texts, pa.string()), raw]
    return _untyped.StructArray.from_arrays(
        fields, fields=list(VALUE_TYPE), mask=_untyped.array(~is_shown)
    )


def plain_value(value: Any) -> Any:  # noqa: ANN401, PLR0911 - any field's value
    """Return a value as JSON has it; bytes that are no text as `base64:…`."""
    if isinstance(value, dict):
        return {str(name): plain_value(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(one) for one in value]
    if isinstance(value, bytes):
        try:
            text = value.decode()
        except UnicodeDecodeError:
            text = ""
        return text if text.isprintable() and text.encode() == value else _base64(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _base64(value: bytes) -> str:
    return f"base64:{base64.b64encode(value).decode()}"

"""From payloads to fields: what a task does where values are read by a schema.

A row says which schema wrote it; the store has the text (`writer_schemas.py`), no registry is
asked. Rows of one schema are decoded side by side, only the fields that are wanted, and then handed
on as Spark's types. A value that cannot be read is one of these, and the mode says what becomes of
its row:

    it came without a schema, or by one that the store does not have
    the schema that wrote it cannot be read as the reader's
    the bytes are not what the schema says, or say what no column of Spark can hold

Fields that are not selected are skipped, and bytes behind the last selected field are not read,
so that a value may be read by some columns and not by others. `_corrupt_value` selects all fields,
shown or not: it says the same of a value whatever stands beside it.
A tombstone has null in every field, and is read.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core import InvalidRequestError
from storage_core.avro import AvroSchema, body_starts, decode_batch, verified_starts
from streaming_jobs.common.field_types import (
    FieldColumn,
    columns_of_all,
    field_columns,
    parsed_schema,
)
from streaming_jobs.source.requests import FieldRules

_LOG: Final = logging.getLogger("shardlog")
_NO_SCHEMA: Final = "it came without a schema"
_UNKNOWN_SCHEMA: Final = "the store does not have the schema that wrote it"
_UNSHOWN: Final = "it holds a value, such as a time, that Spark cannot show"
_CODE_BITS: Final = 32

Array = Any
Bools = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]
# Tells the schema of a registry id and a fingerprint, None if it is not known.
Writers = Callable[[int, bytes], AvroSchema | None]
_untyped: Any = pa


@dataclass(frozen=True, slots=True)
class Values:
    """The fields of some rows.

    Attributes:
        columns: The fields by their columns' names.
        unread: Which rows have a value that could not be read; None if there is no such row.
    """

    columns: Mapping[str, Array]
    unread: Bools | None


@dataclass(slots=True)
class _Faults:
    """The rows of a batch whose value cannot be read; the first of them has its reason kept."""

    rows: Bools
    first: int = -1
    reason: str = ""

    def add(self, rows: Sequence[int] | Places, reason: str) -> None:
        if not len(rows):
            return
        self.rows[rows] = True
        first = int(min(rows))
        if self.first < 0 or first < self.first:
            self.first, self.reason = first, reason


@dataclass(slots=True)
class _Part:
    """What one schema wrote: the rows, all of them if None, and their fields."""

    rows: Places | None
    table: Any


@dataclass(slots=True)
class TypedValues:
    """Reads the values of one shard's rows by a schema.

    Attributes:
        rules: By which schema, which fields, and what of values that cannot be read.
        writers: Tells the schemas that wrote them.
        stream: The stream, for errors.
        shard: The shard, for errors.
        left_out: How many rows were left out, under DROPMALFORMED.
        reason: Why the first of them was.
        stored: What of stored rows is needed.
    """

    rules: FieldRules
    writers: Writers
    stream: str
    shard: int
    left_out: int = 0
    reason: str = ""
    stored: tuple[str, ...] = ("payload", "headers", "schema_id", "schema_fingerprint", "address")
    _reader: AvroSchema = field(init=False)
    _columns: list[FieldColumn] = field(init=False)

    def __post_init__(self) -> None:
        """Read the reader's schema."""
        self._reader = parsed_schema(self.rules.schema)
        columns = self.rules.columns
        is_whole = self.rules.is_whole
        self._columns = (columns_of_all if is_whole else field_columns)(self._reader, columns)

    @property
    def leaves_out(self) -> bool:
        """Whether rows whose value cannot be read are left out."""
        return self.rules.mode == "DROPMALFORMED"

    def of(self, batch: pa.RecordBatch) -> Values:
        """Return the fields of stored rows.

        Raises:
            InvalidRequestError: A value cannot be read, and the mode is FAILFAST.
        """
        faults = _Faults(np.zeros(batch.num_rows, np.bool_))
        parts = list(self._parts(batch, faults))
        columns = self._as_columns(parts, batch.num_rows, faults)
        if faults.first < 0:
            return Values(columns, None)
        if self.rules.mode == "FAILFAST":
            raise self._refused(batch, faults)
        if self.leaves_out:
            self.left_out += int(faults.rows.sum())
            self.reason = self.reason or faults.reason
        return Values(columns, faults.rows)

    def tell_left_out(self, begin: int, end: int) -> None:
        """Warn of the rows that were left out of a range."""
        if self.left_out:
            _LOG.warning(
                "stream %r shard %d: mode=DROPMALFORMED left out %d rows of the offsets [%d, %d), "
                "whose values cannot be read; of the first: %s",
                *(self.stream, self.shard, self.left_out, begin, end, self.reason),
            )

    def _refused(self, batch: pa.RecordBatch, faults: _Faults) -> InvalidRequestError:
        offset = int(batch.column("address")[faults.first].as_py())
        message = (
            f"the value at offset {offset} cannot be read: {faults.reason}; mode=PERMISSIVE shows "
            "such rows with null fields and _corrupt_value, mode=DROPMALFORMED leaves them out"
        )
        return InvalidRequestError(
            message, stream=self.stream, shard=self.shard, start=offset, end=offset + 1
        )

    def _parts(self, batch: pa.RecordBatch, faults: _Faults) -> Iterator[_Part]:
        """Yield the fields of each schema's rows."""
        payload, marks = batch.column("payload"), batch.column("schema_fingerprint")
        is_there, is_marked = _is_valid(payload), _is_valid(marks)
        without = np.flatnonzero(is_there & ~is_marked)
        faults.add(without, _NO_SCHEMA)
        starts = body_starts(payload, batch.column("headers"))
        if not len(without) and (writer := _only_schema(batch)) is not None:
            table = self._decoded(writer, payload, starts, None, faults)
            if table is not None:
                yield _Part(None, table)
            return
        is_read = is_there & is_marked
        keys, schemas = _by_schema(batch)
        for key in np.unique(keys[is_read]).tolist():
            rows = np.flatnonzero(is_read & (keys == key))
            bodies = payload.take(_untyped.array(rows))
            table = self._decoded(schemas[key], bodies, starts[rows], rows, faults)
            if table is not None:
                yield _Part(rows, table)

    def _decoded(
        self,
        written_by: tuple[int, bytes],
        bodies: Array,
        starts: Places,
        rows: Places | None,
        faults: _Faults,
    ) -> Array | None:
        """Return the fields of bodies that one schema wrote; None where none can be read."""
        schema = self.writers(*written_by)
        reason = _UNKNOWN_SCHEMA
        if schema is not None:
            try:
                fields = [one.field for one in self._columns]
                starts = verified_starts(schema, written_by[0], bodies, starts)
                decoded = decode_batch(
                    bodies,
                    schema,
                    reader=self._reader,
                    columns=fields,
                    starts=starts,
                    is_whole=self.rules.is_whole,
                )
            except InvalidRequestError as error:
                reason = error.message
            else:
                for fault in decoded.faults:
                    faults.add([fault.row if rows is None else int(rows[fault.row])], fault.reason)
                return decoded.table
        faults.add(np.flatnonzero(_is_valid(bodies)) if rows is None else rows, reason)
        return None

    def _as_columns(self, parts: Sequence[_Part], count: int, faults: _Faults) -> dict[str, Array]:
        """Return the fields of all rows as Spark's columns, null where there is no value."""
        arrow = self._reader.arrow_schema(one.field for one in self._columns)
        if len(parts) == 1 and parts[0].rows is None:
            arrays = [_whole(column) for column in parts[0].table.columns]
        else:
            where = np.full(count, -1, np.int64)
            first = 0
            for part in parts:
                assert part.rows is not None, "a part of all rows is the only one"
                where[part.rows] = np.arange(first, first + len(part.rows))
                first += len(part.rows)
            tables = [arrow.empty_table(), *(part.table for part in parts)]
            joined = _untyped.concat_tables(tables)
            taken = _untyped.array(where, mask=where < 0)
            arrays = [_whole(column).take(taken) for column in joined.columns]
        cast, unfit = _cast(arrays, [one.arrow for one in self._columns])
        faults.add(unfit, _UNSHOWN)
        columns = {one.name: each for one, each in zip(self._columns, cast, strict=True)}
        return {name: columns[name] for name in self.rules.columns}


def _is_valid(column: Array) -> Bools:
    is_valid: Bools = column.is_valid().to_numpy(zero_copy_only=False)
    return is_valid


def _whole(column: Array) -> Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _only_schema(batch: pa.RecordBatch) -> tuple[int, bytes] | None:
    """Return the schema that wrote all values of a batch, None if there are several, or none."""
    ids, marks = batch.column("schema_id"), batch.column("schema_fingerprint")
    numbers = ids.dictionary_encode().dictionary
    names = marks.dictionary_encode().dictionary
    if len(names) != 1 or len(numbers) > 1 or ids.null_count not in (marks.null_count, len(ids)):
        return None
    return numbers[0].as_py() if len(numbers) else 0, names[0].as_py()


def _by_schema(batch: pa.RecordBatch) -> tuple[Places, dict[int, tuple[int, bytes]]]:
    """Return a number for the schema of each row, and the schemas by those numbers."""
    # A schema that no registry has is shown without an id.
    ids = batch.column("schema_id").fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    marks = batch.column("schema_fingerprint").dictionary_encode()
    codes = marks.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    keys = np.where(codes < 0, -1, ids << _CODE_BITS | codes)
    names = marks.dictionary.to_pylist()
    present = [key for key in np.unique(keys).tolist() if key >= 0]
    return keys, {key: (key >> _CODE_BITS, names[key & 2**_CODE_BITS - 1]) for key in present}


def _cast(arrays: Sequence[Array], kinds: Sequence[pa.DataType]) -> tuple[list[Array], Places]:
    """Return columns as other types, null in the rows of which one does not fit, and those rows."""
    try:
        return [_as(*each) for each in zip(arrays, kinds, strict=True)], np.zeros(0, np.int64)
    except pa.ArrowInvalid:
        bad = sorted({row for each in zip(arrays, kinds, strict=True) for row in _unfit(*each)})
    where = np.arange(len(arrays[0]))
    where[bad] = -1
    taken = _untyped.array(where, mask=where < 0)
    cast = [_as(column.take(taken), kind) for column, kind in zip(arrays, kinds, strict=True)]
    return cast, np.array(bad, np.int64)


def _as(column: Array, kind: pa.DataType) -> Array:
    if column.type.equals(kind, check_metadata=True):
        return column
    is_nested = pa.types.is_nested(kind) and _holds_nulls(kind)
    return _relabelled(column, kind) if is_nested else column.cast(kind)


def _holds_nulls(kind: Any) -> bool:  # noqa: ANN401 - what a type has depends on its kind
    """Tell whether a type of nulls only is among the parts of a type.

    NOTE: Arrow (26.0) casts lists and maps that hold such a type to ones with too few items, where
    only the name of the items is another.
    """
    if pa.types.is_struct(kind):
        return any(_holds_nulls(each.type) for each in kind)
    inner = getattr(kind, "value_type", None) or getattr(kind, "item_type", None)
    return bool(pa.types.is_null(kind)) if inner is None else _holds_nulls(inner)


def _relabelled(column: Array, kind: Any) -> Array:  # noqa: ANN401 - as above
    """Return a column as a nested type, part by part."""
    nulls = column.is_null() if column.null_count else None
    if pa.types.is_struct(kind):
        parts = [_as(*each) for each in zip(column.flatten(), _types_in(kind), strict=True)]
        return _untyped.StructArray.from_arrays(parts, fields=list(kind), mask=nulls)
    if not len(column):
        return _untyped.array([], kind)
    # From offset 0 on, as offsets with nulls beside them have to be.
    column = _untyped.concat_arrays([column, column.slice(0, 0)]) if column.offset else column
    if pa.types.is_map(kind):
        items = _as(column.items, kind.item_type)
        return _untyped.MapArray.from_arrays(column.offsets, column.keys, items, kind, mask=nulls)
    values = _as(column.values, kind.value_type)
    return _untyped.ListArray.from_arrays(column.offsets, values, kind, mask=nulls)


def _types_in(kind: Any) -> list[pa.DataType]:  # noqa: ANN401 - as above
    return [each.type for each in kind]


def _unfit(column: Array, kind: pa.DataType) -> Iterator[int]:
    """Yield the rows that do not fit a type: Arrow does not name them, so halves are tried."""
    untried = [(0, len(column))]
    while untried:
        begin, end = untried.pop()
        try:
            _as(column.slice(begin, end - begin), kind)
        except pa.ArrowInvalid:
            if end - begin == 1:
                yield begin
            else:
                middle = (begin + end) // 2
                untried += [(begin, middle), (middle, end)]

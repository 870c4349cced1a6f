"""Avro bodies to Arrow columns: the one way from a payload to its fields.

Bodies are decoded some thousands at a time, column by column. A body that does not fit its schema
is a fault with its row and the reason; its columns are null, and other rows are not affected. A
null body has null columns and is no fault.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core.avro.column_reader import read_fields
from storage_core.avro.cursor import Bytes, Cursor, Limits, Numbers
from storage_core.avro.encoder import encode_batch
from storage_core.avro.json_bodies import decode_json
from storage_core.avro.resolution import FieldStep, RecordPlan, resolve
from storage_core.avro.schema import AvroSchema
from storage_core.errors import InvalidRequestError

# As many as stay in a processor's cache; twice as many are slower, and so are half as many.
_ROWS_AT_ONCE: Final = 8192
_BYTES_AT_ONCE: Final = 2**22
# Past the end of any body.
_START_MAX: Final = 2**40
_untyped: Any = pa  # the stubs want to know what an array holds
Bodies = Any
_ZERO: Final = np.zeros(1, np.uint8)


@dataclass(frozen=True, slots=True)
class Fault:
    """A body that does not fit its schema."""

    row: int
    reason: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """The fields of some bodies.

    Attributes:
        table: A row for each body.
        faults: The bodies that could not be decoded, in order; their rows are null.
    """

    table: pa.Table
    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Some bodies: their bytes with a zero behind, where each starts and ends, and null or not."""

    data: Bytes
    starts: Numbers
    ends: Numbers
    valid: npt.NDArray[np.bool_]


def decode_batch(  # noqa: PLR0913 - options by name
    bodies: Bodies,
    writer: AvroSchema,
    *,
    reader: AvroSchema | None = None,
    columns: Iterable[str] | None = None,
    starts: int | np.integer[Any] | npt.NDArray[np.integer[Any]] = 0,
    limits: Limits | None = None,
    is_whole: bool = True,
) -> Decoded:
    """Decode bodies that were written by one schema.

    Args:
        bodies: A binary array, chunked or not; null stays null.
        writer: The schema they were written by.
        reader: The schema whose fields are returned; the writer's if None.
        columns: The fields to decode, in this order; all if None. Others are skipped: their lengths
            are checked, but not that a string is UTF-8, or a number fits its logical type.
        starts: Where the body starts in each value, after its framing; one for all or for each.
        limits: Bounds of what a body may claim.
        is_whole: Whether bodies are read and checked to their end. Otherwise the bytes after the
            last requested field are ignored.

    Raises:
        InvalidRequestError: The schemas do not resolve, a column does not exist, or `starts` are
            not valid.
    """
    start = _checked_starts(starts, len(bodies))
    _check_binary(bodies)
    if writer.has_json_bodies:
        return _decoded_json(bodies, writer, reader, columns, start)
    plan = resolve(writer, reader or writer, columns)
    if not is_whole:
        plan = replace(plan, steps=_up_to_last_column(plan.steps))
    schema = pa.schema(list(map(pa.field, plan.names, plan.types)))
    batches, faults, first = [], [], 0
    for chunk in _chunks(bodies, start):
        batch, reasons = _decoded(plan, schema, chunk, limits or Limits(), is_whole=is_whole)
        batches.append(batch)
        faults += [Fault(first + row, reasons[row]) for row in sorted(reasons)]
        first += len(chunk.ends)
    table = _untyped.Table.from_batches(batches, schema)
    return Decoded(table, tuple(faults))


def _decoded_json(
    bodies: Bodies,
    writer: AvroSchema,
    reader: AvroSchema | None,
    columns: Iterable[str] | None,
    start: int | Numbers,
) -> Decoded:
    """Read bodies of JSON; all of each, since a field may stand anywhere in it."""
    read = decode_json(bodies, writer, start)
    faults = tuple(Fault(row, read.reasons[row]) for row in sorted(read.reasons))
    if reader is None or reader.text == writer.text:
        names = [field.name for field in writer.select(columns)]
        return Decoded(read.table.select(names), faults)
    # As bodies of Avro they are read by another schema as all others are.
    plain = replace(writer, has_json_bodies=False)
    valid = np.concatenate([np.zeros(0, np.bool_), *map(_validity, _arrays(bodies))])
    valid[[fault.row for fault in faults]] = False
    encoded = encode_batch(read.table, plain, valid=valid)
    return replace(decode_batch(encoded, plain, reader=reader, columns=columns), faults=faults)


def _arrays(bodies: Bodies) -> list[Bodies]:
    return bodies.chunks if isinstance(bodies, pa.ChunkedArray) else [bodies]


def _validity(array: Bodies) -> npt.NDArray[np.bool_]:
    valid: npt.NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _check_binary(bodies: Bodies) -> None:
    if not (pa.types.is_binary(bodies.type) or pa.types.is_large_binary(bodies.type)):
        message = f"bodies must be binary, not {bodies.type}"
        raise InvalidRequestError(message)


def _up_to_last_column(steps: tuple[FieldStep, ...]) -> tuple[FieldStep, ...]:
    read = [index for index, step in enumerate(steps) if step.column is not None]
    return steps[: read[-1] + 1] if read else ()


def _checked_starts(starts: object, count: int) -> int | Numbers:
    """Return `starts` within 64 bits; beyond any end where they are larger."""
    message = f"starts must be an integer of 0 or more, or an array of {count}, not {starts!r}"
    if isinstance(starts, int | np.integer) and not isinstance(starts, bool):
        if starts < 0:
            raise InvalidRequestError(message)
        return min(int(starts), _START_MAX)
    if not isinstance(starts, np.ndarray) or starts.dtype.kind not in "iu":
        raise InvalidRequestError(message)
    if starts.shape != (count,) or (count and starts.min() < 0):
        raise InvalidRequestError(message)
    most = min(_START_MAX, np.iinfo(starts.dtype).max)
    return np.minimum(starts, most).astype(np.int64)


def _chunks(bodies: Bodies, starts: int | Numbers) -> Iterator[_Chunk]:
    offset_type = np.dtype(np.int64 if pa.types.is_large_binary(bodies.type) else np.int32)
    first = 0
    for array in _arrays(bodies):
        if not len(array):
            continue
        offset_buffer, data_buffer = cast("tuple[Any, Any]", array.buffers()[1:])
        skipped = array.offset * offset_type.itemsize
        offsets = np.frombuffer(offset_buffer, offset_type, len(array) + 1, skipped)
        offsets = offsets.astype(np.int64)
        data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else _ZERO[:0]
        valid = _validity(array)
        begin = 0
        while begin < len(array):
            most = int(np.searchsorted(offsets, offsets[begin] + _BYTES_AT_ONCE, "right")) - 1
            end = min(max(most, begin + 1), begin + _ROWS_AT_ONCE, len(array))
            framing = starts if isinstance(starts, int) else starts[first + begin : first + end]
            yield _Chunk(
                np.concatenate((data[offsets[begin] : offsets[end]], _ZERO)),
                offsets[begin:end] - offsets[begin] + framing,
                offsets[begin + 1 : end + 1] - offsets[begin],
                valid[begin:end],
            )
            begin = end
        first += len(array)


def _decoded(
    plan: RecordPlan, schema: pa.Schema, chunk: _Chunk, limits: Limits, *, is_whole: bool
) -> tuple[pa.RecordBatch, dict[int, str]]:
    """Return the columns of some bodies, and the reason of each row that is a fault."""
    rows = np.flatnonzero(chunk.valid)
    ends = chunk.ends
    cursor = Cursor(chunk.data, chunk.starts, ends, limits)
    offsets = chunk.starts[rows]
    cursor.refuse(offsets > ends[rows], rows, offsets, "the body is truncated")
    columns, offsets = read_fields(cursor, plan, offsets, rows)
    if is_whole:
        trailing = (offsets != ends[rows]) & ~cursor.is_bad[rows]
        cursor.refuse(trailing, rows, offsets, "trailing bytes after the body")
    if len(rows) < len(ends) or cursor.reasons:
        sources = np.full(len(ends), -1, np.int64)
        sources[rows] = np.arange(len(rows))
        sources[cursor.is_bad] = -1
        indices = _untyped.array(sources, mask=sources < 0)
        columns = [column.take(indices) for column in columns]
    if not columns:
        batch = _untyped.RecordBatch.from_struct_array(
            _untyped.array([{}] * len(ends), pa.struct([]))
        )
        return batch, cursor.reasons
    return _untyped.RecordBatch.from_arrays(columns, schema=schema), cursor.reasons

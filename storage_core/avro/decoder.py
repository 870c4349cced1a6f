"""Avro bodies to Arrow columns: the one way from a payload to its fields.

Bodies are read some thousands at a time, side by side. A body that is not what its schema says is a
fault that names its row and the reason; its columns are null, and its neighbours are as they were.
A null body has null columns, and is no fault.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core.avro.column_reader import read_fields
from storage_core.avro.cursor import Cursor, Limits, Numbers
from storage_core.avro.resolution import Fields, Step, plan_of
from storage_core.avro.schema import AvroSchema
from storage_core.errors import InvalidRequestError

# As many as stay in a processor's cache; twice as many are slower, and so are half as many.
_ROWS_AT_ONCE: Final = 8192
_BYTES_AT_ONCE: Final = 2**22
# Behind the end of any body.
_START_MAX: Final = 2**40
_untyped: Any = pa  # the stubs want to know what an array holds
Bodies = Any
_ZERO: Final = np.zeros(1, np.uint8)


@dataclass(frozen=True, slots=True)
class Fault:
    """A body that is not what its schema says."""

    row: int
    reason: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """The fields of some bodies.

    Attributes:
        table: A row for each body.
        faults: The bodies that could not be read, in order; their rows are null.
    """

    table: pa.Table
    faults: tuple[Fault, ...]


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
    """Decode bodies that one schema wrote.

    Args:
        bodies: An array, or a chunked one, of binary; null stays null.
        writer: The schema they were written by.
        reader: The schema whose fields are shown; the writer's if None.
        columns: The fields wanted, in this order; all if None. Others are passed over: their
            lengths are held to the body, but not a text to UTF-8, nor a number to its logical type.
        starts: Where the body begins in the bytes, behind what frames it; one for all or for each.
        limits: What a body may claim.
        is_whole: Whether a body is read to its end, and must be sound there too. Otherwise what
            lies behind the last field wanted is not looked at.

    Raises:
        InvalidRequestError: The schemas do not resolve, a column is not there, or `starts` are
            none.
    """
    begin = _checked_starts(starts, len(bodies))
    plan = plan_of(writer, reader or writer, columns)
    if not is_whole:
        plan = replace(plan, steps=_as_far_as_wanted(plan.steps))
    schema = pa.schema(
        [pa.field(name, kind) for name, kind in zip(plan.names, plan.types, strict=True)]
    )
    batches, faults, first = [], [], 0
    for piece, data, begins, ends, is_there in _pieces(bodies, begin):
        table, reasons = _decoded(
            plan, schema, data, begins, ends, is_there, limits or Limits(), is_whole
        )
        batches.append(table)
        faults += [Fault(first + row, reasons[row]) for row in sorted(reasons)]
        first += piece
    table = _untyped.Table.from_batches(batches, schema)
    return Decoded(table, tuple(faults))


def _as_far_as_wanted(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    wanted = [at for at, step in enumerate(steps) if step.column is not None]
    return steps[: wanted[-1] + 1] if wanted else ()


def _checked_starts(given: object, count: int) -> int | Numbers:
    """Return where bodies begin as the pieces take it; behind any end where that is meant."""
    message = f"starts are an integer from 0 on, or {count} of them, and not {given!r}"
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        if given < 0:
            raise InvalidRequestError(message)
        return min(int(given), _START_MAX)
    if not isinstance(given, np.ndarray) or given.dtype.kind not in "iu":
        raise InvalidRequestError(message)
    if given.shape != (count,) or (count and given.min() < 0):
        raise InvalidRequestError(message)
    most = min(_START_MAX, np.iinfo(given.dtype).max)
    return np.minimum(given, most).astype(np.int64)


def _pieces(
    bodies: Bodies, starts: int | Numbers
) -> Iterator[tuple[int, npt.NDArray[np.uint8], Numbers, Numbers, npt.NDArray[np.bool_]]]:
    """Yield some bodies at a time: how many, bytes, where they begin and end, what is there."""
    given = bodies
    if not (pa.types.is_binary(given.type) or pa.types.is_large_binary(given.type)):
        message = f"bodies are binary, and not {given.type}"
        raise InvalidRequestError(message)
    first = 0
    for chunk in given.chunks if isinstance(given, pa.ChunkedArray) else [given]:
        kind = np.int64 if pa.types.is_large_binary(chunk.type) else np.int32
        places, contents = cast("tuple[Any, Any]", chunk.buffers()[1:])
        if not len(chunk):
            continue
        offset = chunk.offset * np.dtype(kind).itemsize
        edges = np.frombuffer(places, kind, len(chunk) + 1, offset).astype(np.int64)
        data = np.frombuffer(contents, np.uint8) if contents is not None else _ZERO[:0]
        is_there = chunk.is_valid().to_numpy(zero_copy_only=False)
        begin = 0
        while begin < len(chunk):
            most = int(np.searchsorted(edges, edges[begin] + _BYTES_AT_ONCE, "right")) - 1
            end = min(max(most, begin + 1), begin + _ROWS_AT_ONCE, len(chunk))
            some = slice(begin, end)
            begins = edges[begin:end] - edges[begin]
            ends = edges[begin + 1 : end + 1] - edges[begin]
            behind = starts if isinstance(starts, int) else starts[first + begin : first + end]
            piece = np.concatenate((data[edges[begin] : edges[end]], _ZERO))
            yield end - begin, piece, begins + behind, ends, is_there[some]
            begin = end
        first += len(chunk)


def _decoded(  # noqa: PLR0913 - what a piece is
    plan: Fields,
    schema: pa.Schema,
    data: npt.NDArray[np.uint8],
    begins: Numbers,
    ends: Numbers,
    is_there: npt.NDArray[np.bool_],
    limits: Limits,
    is_whole: bool,  # noqa: FBT001 - handed on
) -> tuple[pa.RecordBatch, dict[int, str]]:
    rows = np.flatnonzero(is_there)
    cursor = Cursor(data, begins, ends, limits)
    places = begins[rows]
    short = places > ends[rows]
    cursor.refuse(short, rows, places, "the body ends too early")
    columns, places = read_fields(cursor, plan, places, rows)
    if is_whole:
        left = (places != ends[rows]) & ~cursor.is_bad[rows]
        cursor.refuse(left, rows, places, "bytes behind the body")
    if len(rows) < len(ends) or cursor.reasons:
        where = np.full(len(ends), -1, np.int64)
        where[rows] = np.arange(len(rows))
        where[cursor.is_bad] = -1
        indices = _untyped.array(where, mask=where < 0)
        columns = [column.take(indices) for column in columns]
    if not columns:
        batch = _untyped.RecordBatch.from_struct_array(
            _untyped.array([{}] * len(ends), pa.struct([]))
        )
        return batch, cursor.reasons
    return _untyped.RecordBatch.from_arrays(columns, schema=schema), cursor.reasons

"""Payloads, left out of parts whose typed columns can rebuild them, and rebuilt on reads.

A part has a reader schema: of those that wrote its rows the one with the highest registry id,
of equal ones the last that the shard met. A row's payload is left out where the fields of that
one, written by the row's own schema behind the frame that `framing` names, equal it bit for bit.
Each is rebuilt and compared before it is left out. Rows that do not decode have null fields, and
keep their payloads.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage_core.avro import (
    AvroSchema,
    Decoded,
    body_starts,
    encode_batch,
    frame_of,
    verified_starts,
)
from storage_core.errors import InvalidRequestError
from storage_core.parts.progress import OnRows, ignore_rows
from storage_core.parts.typed_columns import (
    FRAMING,
    Layout,
    Mask,
    Places,
    Writer,
    column_type,
    decoded_as,
    layout_of,
)
from storage_core.platform.arrow import one_array

BARE: Final = 0
BY_ID: Final = 1
SINGLE_OBJECT: Final = 2
# What stands before a body, by the schema's id or without it.
_FRAMES: Final[dict[int, tuple[int, Callable[[Writer], bytes]]]] = {
    BARE: (0, lambda _: b""),
    BY_ID: (5, lambda writer: frame_of(writer.schema, writer.registry_id)),
    SINGLE_OBJECT: (10, lambda writer: frame_of(writer.schema, None)),
}
# As many rows as are decoded at once.
_PIECE_ROWS: Final = 8192
_untyped: Any = pa
_compute: Any = pc


@dataclass(frozen=True, slots=True)
class _Columns:
    """What the rows of a part are decoded by.

    Attributes:
        writers: The schemas, by number.
        layout: The columns.
    """

    writers: Mapping[int, Writer]
    layout: Layout


def with_typed_columns(
    batches: list[pa.RecordBatch],
    writers: Mapping[int, Writer],
    numbers: Sequence[int],
    on_rows: OnRows = ignore_rows,
) -> pa.Table:
    """Return rows of one part with typed columns, without the payloads that these can rebuild.

    Some thousands of rows at a time: decoded values are still in the processor's caches as payloads
    are rebuilt of them, and payloads are freed piece by piece.

    Args:
        batches: With the columns payload, headers and schema; rows have a schema. Emptied.
        writers: By number.
        numbers: Of the schemas that the rows have.
        on_rows: Called with 0 after each piece.
    """
    columns = _Columns(writers, layout_of(writers, numbers))
    pieces: list[pa.Table] = []
    for rows in _pieces(batches):
        pieces.append(_typed_piece(rows, columns))
        on_rows(0)
    table: pa.Table = _untyped.concat_tables(pieces)
    return table


def payloads_of(
    rows: pa.Table, writers: Mapping[int, Writer], columns: Mapping[str, str], reader: AvroSchema
) -> Any:  # noqa: ANN401 - an array
    """Return the payloads of rows of a part; those that were left out are rebuilt.

    Args:
        rows: With the columns of a part of values.
        writers: By number.
        columns: Those of its schema's fields, by field (`columns_in`).
        reader: The schema by which the part shows values, that of all its rows.
    """
    table: Any = rows.combine_chunks()
    payloads: Any = one_array(table.column("payload"))
    framing = table.column(FRAMING).fill_null(-1).to_numpy()
    numbers = table.column("schema").to_numpy()
    values = table.select(list(columns.values())).rename_columns(list(columns))
    values = _with_wide_decimals(values, reader)
    for number in np.unique(numbers):
        for framed_as, (_, frame) in _FRAMES.items():
            mask = (numbers == number) & (framing == framed_as)
            if mask.any():
                writer = writers[int(number)]
                # All rows of most parts: nothing is to be picked out then, or put between others.
                chosen = values if mask.all() else values.take(_untyped.array(np.flatnonzero(mask)))
                chosen = written_by(writer.schema, chosen)
                bodies = encode_batch(chosen, writer.schema, frame=frame(writer))
                if mask.all():
                    return bodies
                payloads = _compute.replace_with_mask(payloads, _untyped.array(mask), bodies)
    return payloads


def _pieces(batches: list[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield rows so many at a time as are decoded at once."""
    held: list[pa.RecordBatch] = []
    count = 0
    batches.reverse()
    while batches:
        held.append(batches.pop())
        count += held[-1].num_rows
        if batches and count < _PIECE_ROWS:
            continue
        rows = _untyped.Table.from_batches(held).combine_chunks()
        whole = count - count % _PIECE_ROWS if batches else count
        for first in range(0, whole, _PIECE_ROWS):
            yield rows.slice(first, min(_PIECE_ROWS, whole - first))
        held, count = rows.slice(whole).to_batches(), count - whole


def _typed_piece(rows: pa.Table, columns: _Columns) -> pa.Table:
    table: Any = rows
    numbers = table.column("schema").to_numpy()
    payload = one_array(table.column("payload"))
    headers = one_array(table.column("headers")) if "headers" in table.schema.names else None
    starts = body_starts(payload, headers)
    has_payload = payload.is_valid().to_numpy(zero_copy_only=False)
    framing = np.full(len(numbers), -1, np.int8)
    parts: list[tuple[Places, Any]] = []
    for number in columns.layout.places:
        places = np.flatnonzero((numbers == number) & has_payload)
        if len(places):
            writer = columns.writers[number]
            is_all = len(places) == len(numbers)
            bodies = payload if is_all else payload.take(_untyped.array(places))
            begins = verified_starts(writer.schema, writer.registry_id, bodies, starts[places])
            decoded = decoded_as(columns.layout, number, bodies, writer, begins)
            if decoded is not None:
                parts.append((places, decoded.table))
                framing[places] = _framing(decoded, columns.layout.newest, bodies, writer, begins)
    is_rebuilt = framing >= 0
    table = table.set_column(
        table.schema.get_field_index("payload"), "payload", _without(payload, is_rebuilt)
    )
    table = table.append_column(FRAMING, _untyped.array(framing, mask=~is_rebuilt))
    for name, column in _whole_columns(columns.layout.types, parts, len(numbers)):
        table = table.append_column(name, column)
    typed: pa.Table = table
    return typed


def _without(payload: Any, is_rebuilt: Mask) -> Any:  # noqa: ANN401 - arrays
    """Return payloads without those that fields rebuild."""
    if is_rebuilt.all():
        return _untyped.nulls(len(payload), payload.type)
    return _compute.if_else(
        _untyped.array(is_rebuilt), _untyped.scalar(None, payload.type), payload
    )


def _framing(
    decoded: Decoded,
    columns: Mapping[str, str],
    payload: Any,  # noqa: ANN401 - an array
    writer: Writer,
    starts: Places,
) -> npt.NDArray[np.int8]:
    """Return for each row the framing by which its payload can be rebuilt; -1 where it cannot."""
    framing = np.full(len(starts), -1, np.int8)
    newest = decoded.table.select(list(columns.values())).rename_columns(list(columns))
    values = written_by(writer.schema, newest)
    if not values.schema.names:
        # Nothing is shown of such values, and Arrow counts no rows without columns.
        return framing
    is_read = np.ones(len(starts), np.bool_)
    is_read[[fault.row for fault in decoded.faults]] = False
    for framed_as, (size, frame) in _FRAMES.items():
        rows = np.flatnonzero((starts == size) & is_read)
        if not len(rows):
            continue
        try:
            is_all = len(rows) == len(starts)
            chosen = values if is_all else values.take(_untyped.array(rows))
            bodies = encode_batch(chosen, writer.schema, frame=frame(writer))
        except InvalidRequestError:
            # The reader has too little of what the writer wrote.
            continue
        stored = payload if is_all else payload.take(_untyped.array(rows))
        is_equal = _compute.equal(bodies, stored)
        framing[rows[is_equal.to_numpy(zero_copy_only=False)]] = framed_as
    return framing


def _whole_columns(
    types: pa.Schema, parts: list[tuple[Places, Any]], count: int
) -> Iterator[tuple[str, Any]]:
    """Yield the fields of all rows, null places_in there is no value."""
    is_all = len(parts) == 1 and len(parts[0][0]) == count
    if is_all:
        rows, taken = parts[0][1], None
    else:
        places_in = np.full(count, -1, np.int64)
        first = 0
        for places, _ in parts:
            places_in[places] = np.arange(first, first + len(places))
            first += len(places)
        taken = _untyped.array(places_in, mask=places_in < 0)
        rows = _untyped.concat_tables([types.empty_table(), *(fields for _, fields in parts)])
    for name in types.names:
        column = one_array(rows.column(name))
        if column_type(column.type) != column.type:
            column = column.cast(column_type(column.type))
        yield name, column if taken is None else column.take(taken)


def written_by(writer: AvroSchema, values: Any) -> Any:  # noqa: ANN401 - a table
    """Return the columns that a writer has fields for."""
    writer_fields = {field.name for field in writer.fields}
    return values.select([name for name in values.schema.names if name in writer_fields])


def _with_wide_decimals(values: Any, reader: AvroSchema) -> Any:  # noqa: ANN401 - tables
    """Return columns of a part with the decimals that are texts there."""
    for index, field in enumerate(reader.arrow_schema(values.schema.names)):
        if column_type(field.type) != field.type:
            values = values.set_column(index, field.name, values.column(index).cast(field.type))
    return values

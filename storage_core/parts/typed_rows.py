"""Values of one kind as columns of a part, and the payloads that those columns cannot make again.

Each payload is made again of its fields (storage_core/parts/part_values.py) before it is left out;
so what a part leaves out can always be made again, and nothing is taken on trust. Rows that do not
decode have null fields, and keep their payloads.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage_core.avro import Decoded, body_starts, encode_batch, verified_starts
from storage_core.errors import InvalidRequestError
from storage_core.parts.part_values import (
    FRAMES,
    FRAMING,
    Writer,
    known_to,
    one_array,
    shown_type,
)
from storage_core.parts.rows_done import Handled, not_told
from storage_core.parts.shown_values import Layout, decoded_as, layout_of

# As many as are decoded at once.
_PIECE_ROWS: Final = 8192
_untyped: Any = pa
_compute: Any = pc
Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Kind:
    """By what the rows of a part are shown.

    Attributes:
        writers: The schemas, by number.
        layout: The columns.
    """

    writers: Mapping[int, Writer]
    layout: Layout


def with_fields(
    batches: list[pa.RecordBatch],
    writers: Mapping[int, Writer],
    numbers: Sequence[int],
    handled: Handled = not_told,
) -> pa.Table:
    """Return rows of one kind with their fields, without the payloads that these can make.

    Some thousands of rows at a time, so that what is decoded is in the processor's caches still as
    it is made again, and payloads go as they are done.

    Args:
        batches: With the columns payload, headers and schema; rows have a schema. Emptied.
        writers: By number.
        numbers: Of the schemas that the rows have.
        handled: Called with 0 behind each of them.
    """
    kind = _Kind(writers, layout_of(writers, numbers))
    found: list[pa.Table] = []
    for rows in _pieces(batches):
        found.append(_with_fields(rows, kind))
        handled(0)
    table: pa.Table = _untyped.concat_tables(found)
    return table


def distinct_numbers(numbers: npt.NDArray[Any]) -> list[int]:
    """Return which numbers there are, ascending; mostly there is one."""
    if len(numbers) and (numbers == numbers[0]).all():
        return [int(numbers[0])]
    found: list[int] = np.unique(numbers).tolist()
    return found


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


def _with_fields(rows: pa.Table, kind: _Kind) -> pa.Table:
    table: Any = rows
    numbers = table.column("schema").to_numpy()
    payload = one_array(table.column("payload"))
    headers = one_array(table.column("headers")) if "headers" in table.schema.names else None
    starts = body_starts(payload, headers)
    there = payload.is_valid().to_numpy(zero_copy_only=False)
    framing = np.full(len(numbers), -1, np.int8)
    parts: list[tuple[Places, Any]] = []
    for number in distinct_numbers(numbers):
        places = np.flatnonzero((numbers == number) & there)
        if len(places):
            writer = kind.writers[number]
            is_all = len(places) == len(numbers)
            bodies = payload if is_all else payload.take(_untyped.array(places))
            begins = verified_starts(writer.schema, writer.registry_id, bodies, starts[places])
            decoded = decoded_as(kind.layout, number, bodies, writer, begins)
            if decoded is not None:
                parts.append((places, decoded.table))
                framing[places] = _framing(decoded, kind.layout.newest, bodies, writer, begins)
    is_made = framing >= 0
    table = table.set_column(
        table.schema.get_field_index("payload"), "payload", _kept(payload, is_made)
    )
    table = table.append_column(FRAMING, _untyped.array(framing, mask=~is_made))
    for name, column in _columns(kind.layout.types, parts, len(numbers)):
        table = table.append_column(name, column)
    found: pa.Table = table
    return found


def _kept(payload: Any, is_made: Mask) -> Any:  # noqa: ANN401 - arrays
    """Return payloads without those that fields make."""
    if is_made.all():
        return _untyped.nulls(len(payload), payload.type)
    return _compute.if_else(_untyped.array(is_made), _untyped.scalar(None, payload.type), payload)


def _framing(
    decoded: Decoded,
    columns: Mapping[str, str],
    payload: Any,  # noqa: ANN401 - an array
    writer: Writer,
    starts: Places,
) -> npt.NDArray[np.int8]:
    """Return for each row how its payload can be made again; -1 where it cannot."""
    found = np.full(len(starts), -1, np.int8)
    newest = decoded.table.select(list(columns.values())).rename_columns(list(columns))
    values = known_to(writer.schema, newest)
    if not values.schema.names:
        # Nothing is shown of such values, and Arrow counts no rows without columns.
        return found
    is_read = np.ones(len(starts), np.bool_)
    is_read[[fault.row for fault in decoded.faults]] = False
    for how, (size, frame) in FRAMES.items():
        some = np.flatnonzero((starts == size) & is_read)
        if not len(some):
            continue
        try:
            is_all = len(some) == len(starts)
            chosen = values if is_all else values.take(_untyped.array(some))
            bodies = encode_batch(chosen, writer.schema, frame=frame(writer))
        except InvalidRequestError:
            # The reader has too little of what the writer wrote.
            continue
        stored = payload if is_all else payload.take(_untyped.array(some))
        same = _compute.equal(bodies, stored)
        found[some[same.to_numpy(zero_copy_only=False)]] = how
    return found


def _columns(
    types: pa.Schema, parts: list[tuple[Places, Any]], count: int
) -> Iterator[tuple[str, Any]]:
    """Yield the fields of all rows, null where there is no value."""
    is_all = len(parts) == 1 and len(parts[0][0]) == count
    if is_all:
        rows, taken = parts[0][1], None
    else:
        where = np.full(count, -1, np.int64)
        first = 0
        for places, _ in parts:
            where[places] = np.arange(first, first + len(places))
            first += len(places)
        taken = _untyped.array(where, mask=where < 0)
        rows = _untyped.concat_tables([types.empty_table(), *(fields for _, fields in parts)])
    for name in types.names:
        column = one_array(rows.column(name))
        if shown_type(column.type) != column.type:
            column = column.cast(shown_type(column.type))
        yield name, column if taken is None else column.take(taken)

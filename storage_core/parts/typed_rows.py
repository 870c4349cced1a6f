"""Values of one kind as columns of a part, and the payloads that those columns cannot make again.

Each payload is made again of its fields (storage_core/sealed/part_values.py) before it is left out;
so what a part leaves out can always be made again, and nothing is taken on trust. Rows that do not
decode have null fields, and keep their payloads.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage_core.errors import InvalidRequestError
from storage_core.fields import (
    AvroSchema,
    Decoded,
    decode_batch,
    encode_batch,
    starts_of,
)
from storage_core.parts.unique_keys import with_unique_keys
from storage_core.sealed.part_values import (
    FRAMES,
    FRAMING,
    Writer,
    column_of,
    known_to,
    one_array,
    reader_of,
    shown_fields,
    shown_type,
)

_untyped: Any = pa
_compute: Any = pc
Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def with_fields(rows: pa.Table, writers: Mapping[int, Writer]) -> pa.Table:
    """Return rows of one kind with their fields, without the payloads that these can make.

    Args:
        rows: With the columns payload, headers and schema; rows have a schema.
        writers: By number.
    """
    table: Any = rows.combine_chunks()
    numbers = table.column("schema").to_numpy()
    reader = reader_of(writers, np.unique(numbers).tolist())
    payload = one_array(table.column("payload"))
    headers = one_array(table.column("headers")) if "headers" in table.schema.names else None
    starts = starts_of(payload, headers)
    there = payload.is_valid().to_numpy(zero_copy_only=False)
    framing = np.full(len(numbers), -1, np.int8)
    parts: list[tuple[Places, Any]] = []
    names = shown_fields(reader)
    for number in np.unique(numbers):
        places = np.flatnonzero((numbers == number) & there)
        if len(places):
            writer = writers[int(number)]
            is_all = len(places) == len(numbers)
            bodies = payload if is_all else payload.take(_untyped.array(places))
            decoded = _decoded(bodies, writer, reader, starts[places])
            if decoded is not None:
                parts.append((places, decoded.table.select(names)))
                framing[places] = _framing(decoded, names, bodies, writer, starts[places])
    kept = _untyped.array(framing >= 0)
    table = table.set_column(
        table.schema.get_field_index("payload"),
        "payload",
        _compute.if_else(kept, _untyped.scalar(None, payload.type), payload),
    )
    table = table.append_column(FRAMING, _untyped.array(framing, mask=framing < 0))
    for name, column in _columns(reader, names, parts, len(numbers)):
        table = table.append_column(column_of(name), column)
    found: pa.Table = table
    return found


def _decoded(
    bodies: Any,  # noqa: ANN401 - an array
    writer: Writer,
    reader: AvroSchema,
    starts: Places,
) -> Decoded | None:
    """Return the fields of bodies; None where the reader cannot read what the writer wrote."""
    try:
        decoded = decode_batch(bodies, writer.schema, reader=reader, starts=starts)
    except InvalidRequestError:
        return None
    table: Any = decoded.table
    for at, name in enumerate(table.schema.names):
        column = table.column(name)
        if pa.types.is_nested(column.type):
            # A row that loses an entry by it keeps its payload.
            table = table.set_column(at, table.schema.field(at), with_unique_keys(column))
    return Decoded(table, decoded.faults)


def _framing(
    decoded: Decoded,
    names: list[str],
    payload: Any,  # noqa: ANN401 - an array
    writer: Writer,
    starts: Places,
) -> npt.NDArray[np.int8]:
    """Return for each row how its payload can be made again; -1 where it cannot."""
    found = np.full(len(starts), -1, np.int8)
    values = known_to(writer.schema, decoded.table.select(names))
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
    reader: AvroSchema, names: list[str], parts: list[tuple[Places, Any]], count: int
) -> Iterator[tuple[str, Any]]:
    """Yield the fields of all rows, null where there is no value."""
    where = np.full(count, -1, np.int64)
    first = 0
    for places, _ in parts:
        where[places] = np.arange(first, first + len(places))
        first += len(places)
    taken = _untyped.array(where, mask=where < 0)
    empty = reader.arrow_schema(names).empty_table()
    rows = _untyped.concat_tables([empty, *(fields for _, fields in parts)])
    is_all = first == count and bool((where == np.arange(count)).all())
    for name in names:
        column = rows.column(name).combine_chunks()
        if shown_type(column.type) != column.type:
            column = column.cast(shown_type(column.type))
        yield name, column if is_all else column.take(taken)

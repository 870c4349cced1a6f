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
from storage_core.fields import Decoded, encode_batch, starts_of
from storage_core.parts.shown_values import decoded_as, shown_by, types_of
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
    distinct = np.unique(numbers).tolist()
    shown = shown_by(writers, distinct)
    payload = one_array(table.column("payload"))
    headers = one_array(table.column("headers")) if "headers" in table.schema.names else None
    starts = starts_of(payload, headers)
    there = payload.is_valid().to_numpy(zero_copy_only=False)
    framing = np.full(len(numbers), -1, np.int8)
    parts: list[tuple[Places, Any]] = []
    # Whoever makes payloads again looks at the fields of the newest schema alone.
    names = shown_fields(reader_of(writers, distinct))
    for number in distinct:
        places = np.flatnonzero((numbers == number) & there)
        if len(places):
            writer = writers[number]
            is_all = len(places) == len(numbers)
            bodies = payload if is_all else payload.take(_untyped.array(places))
            decoded = decoded_as(shown, bodies, writer.schema, starts[places])
            if decoded is not None:
                parts.append((places, decoded.table))
                framing[places] = _framing(decoded, names, bodies, writer, starts[places])
    kept = _untyped.array(framing >= 0)
    table = table.set_column(
        table.schema.get_field_index("payload"),
        "payload",
        _compute.if_else(kept, _untyped.scalar(None, payload.type), payload),
    )
    table = table.append_column(FRAMING, _untyped.array(framing, mask=framing < 0))
    for name, column in _columns(types_of(shown), parts, len(numbers)):
        table = table.append_column(column_of(name), column)
    found: pa.Table = table
    return found


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
    types: pa.Schema, parts: list[tuple[Places, Any]], count: int
) -> Iterator[tuple[str, Any]]:
    """Yield the fields of all rows, null where there is no value."""
    where = np.full(count, -1, np.int64)
    first = 0
    for places, _ in parts:
        where[places] = np.arange(first, first + len(places))
        first += len(places)
    taken = _untyped.array(where, mask=where < 0)
    rows = _untyped.concat_tables([types.empty_table(), *(fields for _, fields in parts)])
    is_all = first == count and bool((where == np.arange(count)).all())
    for name in types.names:
        column = rows.column(name).combine_chunks()
        if shown_type(column.type) != column.type:
            column = column.cast(shown_type(column.type))
        yield name, column if is_all else column.take(taken)

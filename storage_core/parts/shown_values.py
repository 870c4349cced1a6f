"""Values of one kind as fields: each row by the fields that its own schema has.

A part's columns are the fields of all schemas that wrote its rows, by name, each of the type that
the newest of those has which have it. A field of another type, which that one does not hold, is a
column of its own, `<column>~2` and so on, a name that no field has; so is a field whose name
differs only in case. Inside a record, too, no row shows a field that its own schema has not, nor
lacks one. What a row's schema has not is null,
whatever default another one knows: so a row says the same alone, beside rows of other versions, and
joined with them. A row that does not decode, or has a time that microseconds cannot count, as SQL
and Spark count them, has null in every field.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core.avro import Decoded, Fault, decode_batch
from storage_core.avro.names import free_name
from storage_core.parts.part_values import VARIANT, Writer, column_of, shown_fields
from storage_core.parts.unique_keys import with_unique_keys

_MS_MAX: Final = (2**63 - 1) // 1000
_untyped: Any = pa
Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
# What holds every value of another type, and makes it again.
_HELD: Final = {
    (pa.int32(), pa.int64()),
    (pa.int32(), pa.float64()),
    (pa.float32(), pa.float64()),
}


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a part's values.

    Attributes:
        types: Theirs, as the fields have them.
        places: The column of each field, by the schema's number.
        newest: Those of the newest schema, by whose fields payloads are made again.
    """

    types: pa.Schema
    places: Mapping[int, Mapping[str, str]]
    newest: Mapping[str, str]


def layout_of(writers: Mapping[int, Writer], numbers: Sequence[int]) -> Layout:
    """Return the columns of rows of these schemas, those of the newest one first."""
    types: dict[str, pa.DataType] = {}
    taken: set[str] = set()
    of_field: dict[str, list[str]] = {}
    places: dict[int, dict[str, str]] = {}
    order = sorted(numbers, key=lambda number: (writers[number].registry_id, number))
    for number in reversed(order):
        schema = writers[number].schema
        places[number] = here = {}
        for field in schema.arrow_schema(shown_fields(schema)):
            columns = of_field.setdefault(field.name, [])
            column = next((one for one in columns if _holds(types[one], field.type)), None)
            if column is None:
                column = free_name(column_of(field.name), taken, VARIANT)
                columns.append(column)
                types[column] = field.type
            here[field.name] = column
    return Layout(pa.schema(list(types.items())), places, places[order[-1]])


def _holds(kind: pa.DataType, other: pa.DataType) -> bool:
    """Tell whether a column of one type holds values of another."""
    return kind == other or (other, kind) in _HELD


def decoded_as(
    layout: Layout,
    number: int,
    bodies: Any,  # noqa: ANN401 - an array
    writer: Writer,
    starts: Places,
) -> Decoded | None:
    """Return bodies of one schema as columns; None where it has none of them."""
    places = layout.places[number]
    if not places:
        return None
    decoded = decode_batch(bodies, writer.schema, columns=list(places), starts=starts)
    columns = {column: decoded.table.column(name) for name, column in places.items()}
    reasons = {fault.row: fault.reason for fault in decoded.faults}
    for name, column in columns.items():
        # A row that loses an entry of a map by it keeps its payload.
        columns[name] = one = with_unique_keys(column)
        if _has_ms(one.type):
            for row in np.flatnonzero(_uncounted(one)).tolist():
                reasons.setdefault(row, "a time that microseconds cannot count")
    if reasons:
        where = np.arange(len(bodies))
        taken = _untyped.array(where, mask=np.isin(where, list(reasons)))
        columns = {name: column.take(taken) for name, column in columns.items()}
    table = pa.table(
        {one.name: _of_type(columns.get(one.name), one.type, len(bodies)) for one in layout.types},
        schema=layout.types,
    )
    return Decoded(table, tuple(Fault(row, reasons[row]) for row in sorted(reasons)))


def _of_type(column: Any, kind: pa.DataType, count: int) -> Any:  # noqa: ANN401 - arrays
    if column is None:
        return _untyped.nulls(count, kind)
    return column if column.type == kind else column.cast(kind)


def _has_ms(kind: Any) -> bool:  # noqa: ANN401 - a type of Arrow's
    if pa.types.is_timestamp(kind):
        return bool(kind.unit == "ms")
    return any(_has_ms(kind.field(at).type) for at in range(kind.num_fields))


def _uncounted(column: Any) -> Mask:  # noqa: ANN401 - an array, or a chunked one
    """Tell which rows hold a time, however deep, that microseconds cannot count."""
    if isinstance(column, pa.ChunkedArray):
        return np.concatenate([np.zeros(0, np.bool_), *map(_uncounted, column.chunks)])
    kind = column.type
    found = np.zeros(len(column), np.bool_)
    if pa.types.is_timestamp(kind) and kind.unit == "ms":
        numbers = column.view(pa.int64()).fill_null(0).to_numpy()
        found |= (numbers > _MS_MAX) | (numbers < -_MS_MAX)
    elif pa.types.is_struct(kind):
        for inside in column.flatten():
            found |= _uncounted(inside)
    elif pa.types.is_map(kind) or pa.types.is_list(kind):
        items = column.items if pa.types.is_map(kind) else column.values
        edges = column.offsets.to_numpy()
        count = np.concatenate(([0], np.cumsum(_uncounted(items))))
        found = count[edges[1:]] > count[edges[:-1]]
    return found

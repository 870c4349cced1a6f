"""Values of one kind as fields: each row by the fields that its own schema has.

A part's columns are the fields of all schemas that wrote its rows, by name, each of the type that
the newest of those has which have it. What a row's schema has not is null there, whatever default
another one knows: so a row says the same alone, beside rows of other versions, and joined with
them. A row that does not decode, or has a time that microseconds cannot count, as SQL and Spark
count them, has null in every field.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core.errors import InvalidRequestError
from storage_core.fields import AvroSchema, Decoded, Fault, decode_batch
from storage_core.parts.unique_keys import with_unique_keys
from storage_core.sealed.part_values import Writer, column_of, reader_of, shown_fields

_MS_MAX: Final = (2**63 - 1) // 1000
_untyped: Any = pa
Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
# By which schema each field is shown.
Shown = Mapping[str, AvroSchema]


def shown_by(writers: Mapping[int, Writer], numbers: Sequence[int]) -> dict[str, AvroSchema]:
    """Return the fields of a part of rows of these schemas, those of the newest one first."""
    newest = reader_of(writers, numbers)
    shown = dict.fromkeys(shown_fields(newest), newest)
    columns = {column_of(name).lower() for name in shown}
    left = list(numbers)
    while left:
        schema = reader_of(writers, left)
        left = [number for number in left if writers[number].schema is not schema]
        for name in shown_fields(schema):
            # One that differs only in case would be another column, or none, to whoever asks.
            if column_of(name).lower() not in columns:
                shown[name] = schema
                columns.add(column_of(name).lower())
    return shown


def types_of(shown: Shown) -> pa.Schema:
    """Return the fields' types."""
    return pa.schema([schema.arrow_schema([name]).field(0) for name, schema in shown.items()])


def decoded_as(
    shown: Shown,
    bodies: Any,  # noqa: ANN401 - an array
    writer: AvroSchema,
    starts: Places,
) -> Decoded | None:
    """Return the fields of bodies of one schema; None where it has none of them."""
    columns: dict[str, Any] = {}
    reasons: dict[int, str] = {}
    for some in _decoded(shown, bodies, writer, starts):
        columns |= {name: some.table.column(name) for name in some.table.schema.names}
        reasons |= {fault.row: fault.reason for fault in some.faults}
    if not columns:
        return None
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
    types = types_of(shown)
    table = pa.table(
        {one.name: columns.get(one.name, _untyped.nulls(len(bodies), one.type)) for one in types},
        schema=types,
    )
    return Decoded(table, tuple(Fault(row, reasons[row]) for row in sorted(reasons)))


def _decoded(
    shown: Shown,
    bodies: Any,  # noqa: ANN401 - an array
    writer: AvroSchema,
    starts: Places,
) -> Iterator[Decoded]:
    """Yield the fields that the writer has, those of one schema together."""
    there = {field.name for field in writer.fields}
    groups: dict[AvroSchema, list[str]] = {}
    for name, schema in shown.items():
        if name in there:
            groups.setdefault(schema, []).append(name)
    for schema, names in groups.items():
        try:
            yield decode_batch(bodies, writer, reader=schema, columns=names, starts=starts)
        except InvalidRequestError:
            # The types of some do not agree; the others are read.
            for name in names:
                try:
                    yield decode_batch(bodies, writer, reader=schema, columns=[name], starts=starts)
                except InvalidRequestError:
                    continue


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

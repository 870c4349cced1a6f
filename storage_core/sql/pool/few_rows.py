"""A few stored rows of one schema as a typed table, for whoever reads each range of a stream once.

Such a table has the columns of one that parts are written of (part_rows.py), and is made in a third
of the time: it is not sorted, payloads stay, and it has columns that are null in each row.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from storage_core.avro import body_starts, verified_starts
from storage_core.parts.typed_columns import Layout, Writer, column_type, decoded_as, layout_of
from storage_core.platform.arrow import one_array, repeated

ROWS_MAX: Final = 64
_untyped: Any = pa


class FewRows:
    """Makes tables of rows by the schemas of a stream, as long as these are the same."""

    def __init__(self, writers: Sequence[Writer], numbers: Mapping[tuple[int, bytes], int]) -> None:
        """Have the schema of each number, and the number of each id and fingerprint."""
        self._writers = dict(enumerate(writers))
        self._numbers = numbers
        self._layouts: dict[int, Layout] = {}

    def has_all(self, stored: Sequence[pa.RecordBatch]) -> bool:
        """Tell whether the schemas of all rows are among them."""
        return all(
            pair in self._numbers or pair == (None, None)
            for batch in stored
            for pair in {*_pairs(batch)}
        )

    def typed(self, stored: Sequence[pa.RecordBatch]) -> pa.Table | None:
        """Return rows as a table; None where they are many, or not all of one schema."""
        if len(stored) != 1 or stored[0].num_rows > ROWS_MAX:
            return None
        rows: Any = stored[0]
        pairs = {*_pairs(rows)}
        number = self._numbers.get(pairs.pop()) if len(pairs) == 1 else None
        payload = rows.column("payload")
        if number is None or payload.null_count:
            return None
        layout, writer = self._layout(number), self._writers[number]
        starts = body_starts(payload, rows.column("headers"))
        begins = verified_starts(writer.schema, writer.registry_id, payload, starts)
        decoded = decoded_as(layout, number, payload, writer, begins)
        if decoded is None:
            return None
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        del columns["schema_fingerprint"]
        columns["schema"] = repeated(number, pa.int32(), len(rows))
        for name in layout.types.names:
            column = one_array(decoded.table.column(name))
            kind = column_type(column.type)
            columns[name] = column if kind == column.type else column.cast(kind)
        table: pa.Table = _untyped.table(columns)
        return table

    def _layout(self, number: int) -> Layout:
        layout = self._layouts.get(number)
        if layout is None:
            layout = self._layouts[number] = layout_of(self._writers, [number])
        return layout


def _pairs(batch: pa.RecordBatch) -> "zip[tuple[Any, Any]]":
    """Return the id and the fingerprint of the schema of each row."""
    ids: Any = batch.column("schema_id")
    fingerprints: Any = batch.column("schema_fingerprint")
    return zip(ids.to_pylist(), fingerprints.to_pylist(), strict=True)

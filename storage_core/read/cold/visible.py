"""Rows of a part's file shown as rows of the log: its columns, and payloads made again."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from storage_core.avro import AvroSchema
from storage_core.errors import CorruptionError
from storage_core.format.record import SCHEMA
from storage_core.parts.footer import Footer
from storage_core.parts.payloads import payloads_of
from storage_core.parts.typed_columns import FRAMING, Writer, columns_in, reader_schema
from storage_core.platform.arrow import Array, distinct, int_array, nulls, one_array, repeated
from storage_core.read.columns import is_late, read_schema
from storage_core.read.keyed import numbers_in
from storage_core.read.row_filter import Int32s
from storage_core.read.schema_columns import schemas_in
from storage_core.read.view import ShardView

_untyped: Any = pa


class ShownRows:
    """Shows rows of a view's parts, whichever they are of. One thread at a time."""

    def __init__(self, view: ShardView) -> None:
        """Look up keys and schemas in a view."""
        self._view = view
        self._has_keys = view.meta.has_keys
        self._writers: dict[int, Writer] | None = None
        self._readers: dict[tuple[int, ...], AvroSchema] = {}
        self._numbers: dict[bytes | None, int] = {}

    def more_columns(self, foot: Footer, columns: Sequence[str], first: Sequence[str]) -> list[str]:
        """Return what is to be read of the wanted rows, beside what tells that they are."""
        names = [name for name in columns if name not in (*first, "shard", "secondary", "late")]
        if "payload" in columns and FRAMING in foot.schema.names:
            columns_of_fields = columns_in(self._reader(foot), foot.schema.names)
            names += [SCHEMA, FRAMING, *columns_of_fields.values()]
        there = foot.schema.names
        return [name for name in dict.fromkeys(names) if name in there]

    def of(self, foot: Footer, rows: pa.Table, columns: Sequence[str]) -> pa.RecordBatch:
        """Return rows of a file as rows of the log.

        Raises:
            CorruptionError: One has a key that the shard has no number for.
        """
        arrays = [self._column(foot, rows, name) for name in columns]
        schema = read_schema(tuple(columns))
        if not columns:
            counted = pa.RecordBatch.from_arrays([one_of(rows, "address")], names=["address"])
            return counted.select([])
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def secondaries(self, rows: pa.Table) -> Int32s:
        """Return the ids of rows, or the numbers of their keys."""
        if not self._has_keys:
            ids: Int32s = rows.column("secondary").to_numpy()
            return ids
        keys, codes = distinct(one_of(rows, "key"))
        here: list[Any] = keys.to_pylist()
        for key in (*here, None):
            if key not in self._numbers:
                self._numbers[key] = self._number_of(key)
        # The last is that of rows without a key, whose code is -1.
        numbers = np.array([self._numbers[key] for key in (*here, None)], np.int32)
        found: Int32s = numbers[codes]
        return found

    def _number_of(self, key: bytes | None) -> int:
        found = numbers_in(self._view, (key,))
        if not found:
            message = "a row of a part has a key that the shard has no number for"
            raise CorruptionError(message, stream=self._view.stream, shard=self._view.shard)
        return found[0]

    def _column(self, foot: Footer, rows: pa.Table, name: str) -> Array:
        kind = read_schema((name,)).field(0).type
        if name == "shard":
            return repeated(self._view.shard, kind, rows.num_rows)
        if name == "late":
            late: Array = _untyped.array(is_late(rows.column("state").to_numpy()))
            return late
        if name == "secondary":
            return int_array(self.secondaries(rows))
        if name == "payload" and FRAMING in foot.schema.names:
            return self._payloads(foot, rows)
        if name not in rows.schema.names:
            return nulls(rows.num_rows, kind)
        column = one_of(rows, name)
        return column if column.type == kind else column.cast(kind)

    def _payloads(self, foot: Footer, rows: pa.Table) -> Array:
        if "payload" not in rows.schema.names:
            rows = rows.append_column("payload", nulls(rows.num_rows, pa.binary()))
        reader = self._reader(foot)
        made: Array = payloads_of(
            rows, self._all_writers(), columns_in(reader, foot.schema.names), reader
        )
        return made

    def _reader(self, foot: Footer) -> AvroSchema:
        """Return the schema by which a part shows values."""
        numbers = foot.table.schemas
        if numbers not in self._readers:
            self._readers[numbers] = reader_schema(self._all_writers(), numbers)
        return self._readers[numbers]

    def _all_writers(self) -> dict[int, Writer]:
        if self._writers is None:
            self._writers = {
                number: Writer(AvroSchema.stored(one.text), one.registry_id)
                for number, one in enumerate(schemas_in(self._view))
            }
        return self._writers


def one_of(rows: pa.Table, name: str) -> Array:
    """Return a column as one array."""
    whole: Array = one_array(rows.column(name))
    return whole

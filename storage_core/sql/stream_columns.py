"""The columns of a stream in SQL and Spark, and what each is made of in a table.

They follow from the stream's options and schemas alone: first the log's own columns, then the
fields of values (field_columns.py). A column that a table lacks is null in its rows.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from storage_core.format.row_columns import COLUMNS, schema_of
from storage_core.format.window import Unit
from storage_core.parts.typed_columns import fields_in
from storage_core.sql.field_columns import FieldColumns
from storage_core.sql.type_unification import OutputColumn, SourceColumn

# The primary as a UTC timestamp of microseconds; null where there is no such timestamp.
TIME: Final = "time"


def row_columns(*, has_keys: bool) -> pa.Schema:
    """Return the log's own columns of a row."""
    id_column, record_key = ("key", ()) if has_keys else ("secondary", ("key",))
    return schema_of(
        (
            *("shard", id_column, "primary", "address", "version", "state"),
            *(*record_key, "headers", "timestamp", "timestamp_type", "schema_id", "payload"),
        )
    )


def readable_columns(unit: Unit) -> tuple[str, ...]:
    """Return the columns that rows can be read by, with `time` if primaries are times."""
    if unit == "sequence":
        return COLUMNS
    end = COLUMNS.index("primary") + 1
    return (*COLUMNS[:end], TIME, *COLUMNS[end:])


class StreamColumns:
    """The columns of a stream."""

    def __init__(self, own: pa.Schema, values: FieldColumns, unit: Unit) -> None:
        """Combine the log's own columns with those of values; primaries are in a unit."""
        self._own = own
        self._values = values
        self._unit = unit

    def in_table(self, table: pa.Schema) -> tuple[OutputColumn, ...]:
        """Return the columns as they are made of those of a table."""
        return (*self._own_in(table), *self._values_in(table))

    def _own_in(self, table: pa.Schema) -> Iterator[OutputColumn]:
        for column in self._own:
            index = table.get_field_index(column.name)
            sources = (SourceColumn(column.name, table.field(index).type),) if index >= 0 else ()
            yield OutputColumn(column.name, sources, (column.type,))
            if column.name == "primary" and self._unit != "sequence":
                primary = SourceColumn(column.name, column.type, unit=self._unit)
                yield OutputColumn(TIME, (primary,), (pa.timestamp("us", "UTC"),))

    def _values_in(self, table: pa.Schema) -> Iterator[OutputColumn]:
        sources: dict[str, list[SourceColumn]] = {}
        for name, field in fields_in(table.names).items():
            data_type = table.field(name).type
            column = self._values.column_of(field, data_type)
            if column is not None:
                sources.setdefault(column.name, []).append(SourceColumn(name, data_type))
        for column in self._values:
            yield OutputColumn(column.name, tuple(sources.get(column.name, ())), column.types)

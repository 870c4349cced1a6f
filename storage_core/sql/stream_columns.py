"""The columns of a stream as SQL and Spark show them, and what they are of a table's columns.

They follow from the stream's options and its schemas alone: first what the log has of each row,
whatever rows brought, then the value's fields (field_columns.py). What a table lacks is null in it.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from storage_core.format.window import Unit
from storage_core.parts.typed_columns import fields_in
from storage_core.read.columns import COLUMNS, read_schema
from storage_core.sql.field_columns import FieldColumns
from storage_core.sql.united import Shown, Source

# The primary as a time, in UTC, to the microsecond; null where there is no such time.
TIME: Final = "time"


def row_columns(*, has_keys: bool) -> pa.Schema:
    """Return the columns that each row has beside its value's fields."""
    who = ("key",) if has_keys else ("secondary",)
    brought = () if has_keys else ("key",)
    return read_schema(
        (
            *("shard", *who, "primary", "address", "version", "state"),
            *(*brought, "headers", "timestamp", "timestamp_type", "schema_id", "payload"),
        )
    )


def readable_columns(unit: Unit) -> tuple[str, ...]:
    """Return the columns that rows can be read by, the primary as a time among them."""
    if unit == "sequence":
        return COLUMNS
    behind = COLUMNS.index("primary") + 1
    return (*COLUMNS[:behind], TIME, *COLUMNS[behind:])


class StreamColumns:
    """The columns of a stream."""

    def __init__(self, own: pa.Schema, values: FieldColumns, unit: Unit) -> None:
        """Have some of the log's own, and those of values; primaries count a unit."""
        self._own = own
        self._values = values
        self._unit = unit

    def in_table(self, table: pa.Schema) -> tuple[Shown, ...]:
        """Return what the columns are in a table."""
        return (*self._own_in(table), *self._values_in(table))

    def _own_in(self, table: pa.Schema) -> Iterator[Shown]:
        for one in self._own:
            at = table.get_field_index(one.name)
            sources = (Source(one.name, table.field(at).type),) if at >= 0 else ()
            yield Shown(one.name, sources, (one.type,))
            if one.name == "primary" and self._unit != "sequence":
                time = Source(one.name, one.type, unit=self._unit)
                yield Shown(TIME, (time,), (pa.timestamp("us", "UTC"),))

    def _values_in(self, table: pa.Schema) -> Iterator[Shown]:
        sources: dict[str, list[Source]] = {}
        for name, field in fields_in(table.names).items():
            kind = table.field(name).type
            column = self._values.column_of(field, kind)
            if column is not None:
                sources.setdefault(column.name, []).append(Source(name, kind))
        for column in self._values:
            yield Shown(column.name, tuple(sources.get(column.name, ())), column.kinds)

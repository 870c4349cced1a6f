"""The columns of a stream's Delta table, and how the columns of its parts become them.

The table has the columns of SQL but `time`: the log's own, and the fields of values under the names
that SQL has for them (storage_core/sql/field_columns.py), with types that are wide from the start
(delta_types.py). Values of a field that its column cannot hold have a column of their own:

    later values of another type    <name>_<type>: _double, _string, _struct, _timestamp_ns, ...
    more fields of a record         the column grows

What a table has stays, whatever schemas say, with the field that its metadata names; so no column
changes its name, its type or its meaning, and no file is written again since a schema was added.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from storage_core.avro import AvroSchema
from storage_core.avro.names import column_beside, field_beside
from storage_core.errors import CorruptionError, UnavailableError
from storage_core.format.schema_entry import SchemaEntry
from storage_core.format.schema_order import in_order_of_all
from storage_core.lake.casts import Casts, FieldCast
from storage_core.lake.delta_types import (
    FIELD,
    add_field,
    column_for,
    normal_field,
    own_field,
)
from storage_core.parts.typed_columns import (
    ENVELOPE,
    column_type,
    fields_in,
    fields_with_columns,
)
from storage_core.read.shard_reader import ShardReader
from storage_core.reader import StreamReader
from storage_core.sql.stream_columns import TIME, row_columns

# No column of a field has the name of one of the log's, in any case.
_OWN = ENVELOPE | {TIME}


class TableColumns:
    """The columns of a table. It never changes.

    Attributes:
        schema: As the table must have them.
        added: Which of them the table does not have yet, or not all of.
    """

    def __init__(
        self, own: pa.Schema, schemas: Sequence[AvroSchema], table: pa.Schema | None
    ) -> None:
        """Derive them.

        Args:
            own: The log's own columns, as SQL has them.
            schemas: Those of the stream, in the order of `StreamReader.schemas`.
            table: The columns that the table has; None if there is no table.
        """
        before = [normal_field(column) for column in table or ()]
        names = {column.name for column in before}
        columns = before + [own_field(column) for column in own if column.name not in names]
        fields = [_with_field(column) for column in columns if column.name.lower() not in _OWN]
        taken = {column.name.lower() for column in columns} | _OWN
        for schema in schemas:
            for field in schema.arrow_schema(fields_with_columns(schema)):
                name = column_beside(field.name, _OWN)
                add_field(fields, field.name, column_type(field.type), name, taken)
        self._fields = fields
        grown = {column.name: column for column in fields}
        all_columns = {column.name: column for column in columns} | grown
        self.schema = pa.schema(list(all_columns.values()))
        has = {column.name: column.type for column in before}
        self.added = [column for column in self.schema if has.get(column.name) != column.type]

    def casts(self, part: pa.Schema) -> Casts | None:
        """Return how a part's columns become the table's; None if its file has them as it lies.

        Raises:
            UnavailableError: The part is of a schema that was added later.
        """
        casts = self.casts_of(part)
        return None if casts.is_as_it_lies else casts

    def casts_of(self, part: pa.Schema) -> Casts:
        """Return how a part's columns become the table's, even if they already are.

        Raises:
            UnavailableError: The part is of a schema that was added later.
        """
        sources: dict[str, list[pa.Field[Any]]] = {}
        fields = fields_in(part.names)
        for name, field in fields.items():
            source = part.field(name)
            column = column_for(self._fields, field, source.type)
            # Where a field inside is new, the column is there, and does not have all of it.
            if column is None or not _has_all_of(column, field, source.type):
                message = f"column {name} of a part is of a schema that was added since; try again"
                raise UnavailableError(message)
            sources.setdefault(column.name, []).append(source)
        casts = [FieldCast(self.schema.field(name), tuple(of)) for name, of in sources.items()]
        return Casts(casts, list(fields))


def table_columns(reader: StreamReader, table: pa.Schema | None) -> TableColumns:
    """Return the columns of a stream's table.

    IMPORTANT: ask for them after the part list was read, so that the schema of each part is there.

    A shard that cannot be read has no part that is published now: the others go on without it.

    Args:
        reader: A reader of the stream.
        table: The columns that the table has; None if there is no table.
    """
    own = row_columns(has_keys=reader.options.key_mode == "dictionary")
    shards = reader.rows.shards.opened().values()
    schemas = in_order_of_all(entries for shard in shards for entries in _schemas_of(shard))
    return TableColumns(own, [AvroSchema.stored(entry.text) for entry in schemas], table)


def _schemas_of(shard: ShardReader) -> Iterator[Sequence[SchemaEntry]]:
    """Yield the schemas of a shard, if it can be read."""
    with suppress(CorruptionError, UnavailableError):
        yield shard.schemas()


def _with_field(column: "pa.Field[Any]") -> "pa.Field[Any]":
    """Return a column that tells its field, even if its metadata was lost."""
    if FIELD in (column.metadata or {}):
        return column
    return column.with_metadata({FIELD: field_beside(column.name, _OWN).encode()})


def _has_all_of(column: "pa.Field[Any]", field: str, data_type: pa.DataType) -> bool:
    """Tell whether a column need not grow for values of a type."""
    columns = [column]
    add_field(columns, field, data_type, column.name, {column.name.lower()})
    return columns == [column]

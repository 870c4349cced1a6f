"""Which column each field of a stream's values is: one map, whether rows are sealed or not.

SQL, frames of Spark and files of rows have these columns. A field has its own name, or one beside
a column of the log's (storage_core/avro/names.py). Fields are taken by schema, oldest first, and
in the order of each:

    the name is taken in another case              <name>_2, or the next that is free
    values that the field's column cannot have     <name>_<shape>: _record, _number, ... (shapes.py)

No two fields are one column, and no two columns have names that differ only in case. A schema that
comes later adds columns, or types to those that are there: a column keeps its name. Which rows are
there says nothing here. Fields of records inside are told apart in the same way; a record that has
two fields of the same letters itself is no column (storage_core/parts/part_values.py).
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from storage_core.avro import AvroSchema
from storage_core.avro.names import column_beside, free_name
from storage_core.parts.typed_columns import ENVELOPE, column_type, fields_with_columns
from storage_core.sql.shapes import can_unite, plain, shape_of

# A column that shows the primary as a time is called so.
_OWN: Final = ENVELOPE | {"time"}
_Fields = Iterable["pa.Field[Any]"]


@dataclass(slots=True)
class FieldColumn:
    """A column of values.

    Attributes:
        name: Its name.
        field: The field's.
        kinds: The types that the field has in it, in the order in which they were met.
    """

    name: str
    field: str
    kinds: tuple[pa.DataType, ...] = ()

    def can_have(self, kind: pa.DataType) -> bool:
        """Tell whether values of another type can be in it."""
        return can_unite({shape_of(one) for one in (*self.kinds, kind)})


class FieldColumns:
    """The columns of fields, beside some that are there already."""

    def __init__(self, own: AbstractSet[str] = frozenset()) -> None:
        """Begin without fields.

        Args:
            own: The names of the columns that are there, in small letters.
        """
        self._own = own
        self._taken = set(own)
        self._columns: dict[str, list[FieldColumn]] = {}
        self._in_order: list[FieldColumn] = []

    def __iter__(self) -> Iterator[FieldColumn]:
        """Return the columns in the order in which their fields were met."""
        return iter(self._in_order)

    def add(self, fields: _Fields) -> None:
        """Add the fields of a record that is newer than all before."""
        for one in fields:
            kind = plain(one.type)
            columns = self._columns.setdefault(one.name, [])
            if any(kind in column.kinds for column in columns):
                continue
            column = next((each for each in columns if each.can_have(kind)), None)
            if column is None:
                name = column_beside(one.name, self._own) + (
                    f"_{shape_of(kind)}" if columns else ""
                )
                column = FieldColumn(free_name(name, self._taken), one.name)
                columns.append(column)
                self._in_order.append(column)
            column.kinds += (kind,)

    def column_of(self, name: str, kind: pa.DataType) -> FieldColumn | None:
        """Return the column of a field that has values of a type; None if there is none."""
        columns = self._columns.get(name, [])
        own = next((one for one in columns if plain(kind) in one.kinds), None)
        return own or next((one for one in columns if one.can_have(plain(kind))), None)

    def name_of(self, name: str, kind: pa.DataType) -> str:
        """Return the name of the column of a field that was added with values of this type."""
        column = self.column_of(name, kind)
        return name if column is None else column.name


def field_columns(schemas: Iterable[AvroSchema]) -> FieldColumns:
    """Return the columns of a stream's values.

    Args:
        schemas: Those that the stream has, in the order of `StreamReader.schemas`.
    """
    found = FieldColumns(_OWN)
    for schema in schemas:
        fields = schema.arrow_schema(fields_with_columns(schema))
        found.add([one.with_type(column_type(one.type)) for one in fields])
    return found

"""Which column a schema's field is, as the source shows it and the sink takes it.

A field has its own name, unless one of these columns has that: then `value_` stands before it, and
so before a field that is called `value_` and such a name. Spark does not tell names apart by case,
so nor does this. The value of a schema that is no record
is the column `value`, in which other rows have their bytes.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from storage_core import InvalidRequestError

if TYPE_CHECKING:
    # Whoever reads bytes knows these names too, and does without fastavro.
    from storage_core.avro import AvroSchema

CORRUPT_VALUE: Final = "_corrupt_value"
# What stands beside fields, and may be asked for beside them.
OWN_COLUMNS: Final = (
    *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"),
    *("primary", "secondary", "version", "late", "state", "schema_id", CORRUPT_VALUE),
)
_TAKEN: Final = frozenset(name.lower() for name in OWN_COLUMNS)


def column_of(field: str) -> str:
    """Return the column that shows a record's field."""
    from storage_core.avro import column_beside  # noqa: PLC0415 - who reads bytes does without

    return column_beside(field, _TAKEN)


def columns_of(schema: "AvroSchema") -> list[str]:
    """Return the columns that show a schema's fields, in the order of the fields."""
    names = [each.name for each in schema.fields]
    return [column_of(name) for name in names] if schema.is_record else names


def fields_by_column(schema: "AvroSchema", wanted: Iterable[str] | None = None) -> dict[str, str]:
    """Return the columns of a schema's fields, and the field that each of them shows.

    Args:
        schema: The schema.
        wanted: The columns that are asked for, in this order; all if None.

    Raises:
        InvalidRequestError: One is no field's, or two fields would be the same column.
    """
    named = column_of if schema.is_record else str
    columns = [(named(each.name), each.name) for each in schema.fields]
    if wanted is not None:
        names = [name for name, _ in columns]
        if unknown := [name for name in wanted if name not in names]:
            message = f"no {', '.join(unknown)} among the columns of {schema.full_name}"
            raise InvalidRequestError(message)
        columns = [each for name in wanted for each in columns if each[0] == name]
    fields_of: dict[str, str] = {}
    seen: dict[str, str] = {}
    for column, field in columns:
        other = seen.setdefault(column.lower(), field)
        if other != field:
            message = (
                f"fields {other} and {field} of {schema.full_name} would both be the column "
                f"{column}, which Spark does not tell apart: name one of them otherwise"
            )
            raise InvalidRequestError(message)
        fields_of[column] = field
    return fields_of

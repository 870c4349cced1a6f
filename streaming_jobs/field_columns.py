"""Which column a schema's field is, as the source shows it and the sink takes it.

A field has its own name, unless one of the log's columns has that: then `value_` stands before it.
Spark does not tell names apart by case, so nor does this. The value of a schema that is no record
is the column `value`, in which other rows have their bytes.
"""

from typing import Final

from storage_core import InvalidRequestError
from storage_core.fields import AvroSchema

CORRUPT_VALUE: Final = "_corrupt_value"
# What stands beside fields, and may be asked for beside them.
OWN_COLUMNS: Final = (
    *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"),
    *("primary", "secondary", "version", "late", "state", "schema_id", CORRUPT_VALUE),
)
_TAKEN: Final = frozenset(name.lower() for name in OWN_COLUMNS)


def column_of(field: str) -> str:
    """Return the column that shows a record's field."""
    return f"value_{field}" if field.lower() in _TAKEN else field


def fields_by_column(schema: AvroSchema) -> dict[str, str]:
    """Return the columns of a schema's fields, and the field that each of them shows.

    Raises:
        InvalidRequestError: Two fields would be the same column.
    """
    if not schema.is_record:
        return {each.name: each.name for each in schema.fields}
    found: dict[str, str] = {}
    seen: dict[str, str] = {}
    for each in schema.fields:
        column = column_of(each.name)
        other = seen.setdefault(column.lower(), each.name)
        if other != each.name:
            message = (
                f"fields {other} and {each.name} of {schema.full_name} would both be the column "
                f"{column}, which Spark does not tell apart: name one of them otherwise"
            )
            raise InvalidRequestError(message)
        found[column] = each.name
    return found

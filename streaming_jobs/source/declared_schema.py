"""Schemas that come from outside: `.schema(…)` of a query, or the columns of a catalog's table.

They have to be the source's own, since Spark believes what was declared of every row. What a
table says beside names and types, as comments, changes no row.
"""

from collections.abc import Sequence

from pyspark.sql.types import StructType

from storage_core import InvalidRequestError
from streaming_jobs.source.spark_columns import known_columns, spark_schema


def check_schema(declared: StructType, columns: Sequence[str]) -> None:
    """Refuse a schema that is not what the source shows for these columns.

    Raises:
        InvalidRequestError: It is another; the message has both, and how to read all the same.
    """
    own = spark_schema(columns)
    if _plain(declared) != _plain(own):
        message = (
            f"columns are declared as ({_shown(declared)}), but the source has ({_shown(own)}): "
            f"leave .schema(…) out and choose columns with option columns; {_of_table(declared)}"
        )
        raise InvalidRequestError(message)


def _of_table(declared: StructType) -> str:
    names = declared.fieldNames()
    if (
        names
        and set(names) <= set(known_columns())
        and _plain(declared) == _plain(spark_schema(names))
    ):
        return f"a table of these columns is read WITH (…, columns = '{','.join(names)}')"
    return "a table of such columns cannot be read, a view can"


def _plain(schema: StructType) -> list[tuple[object, ...]]:
    return [(field.name, field.dataType, field.nullable) for field in schema]


def _shown(schema: StructType) -> str:
    shown = (
        f"{field.name} {field.dataType.simpleString()}{'' if field.nullable else ' not null'}"
        for field in schema
    )
    return ", ".join(shown)

"""Columns of a part's table as Spark is to show them beside those of others: its expressions.

Of which type they are says storage_core/sql/type_unification.py, for SQL as well.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import DataType

from storage_core.sql.type_unification import (
    OutputColumn,
    SourceColumn,
    Types,
    field_in,
    item_types,
    needs_no_cast,
    struct_fields,
    time_bounds,
    unified_type,
)
from streaming_jobs.common.field_types import shown_types

_types: Any = pa.types
# A number as a time, by what it counts.
_TIMES: Final[Mapping[str, Callable[[Column], Column]]] = {
    "s": F.timestamp_seconds,
    "ms": F.timestamp_millis,
    "us": F.timestamp_micros,
    "ns": lambda number: F.timestamp_micros(
        F.call_function("div", number - F.pmod(number, F.lit(1000)), F.lit(1000))
    ),
}


def value_of(column: OutputColumn) -> Column:
    """Return a column as it is shown."""
    values = [_of_rows(one, column.types) for one in column.sources]
    if not values:
        values = [F.lit(None).cast(_spark(unified_type(column.types)))]
    return (values[0] if len(values) == 1 else F.coalesce(*values)).alias(column.name)


def _of_rows(source: SourceColumn, kinds: Types) -> Column:
    if source.unit is not None:
        column, most = named(source.name), time_bounds(source.unit)
        return F.when(column.between(-most, most), _TIMES[source.unit](column))
    return _as_shown(named(source.name), source.type, kinds)


def named(name: str) -> Column:
    """Return a column by its whole name, which may have dots."""
    quoted = name.replace("`", "``")
    return F.col(f"`{quoted}`")


def _as_shown(value: Column, kind: Any, kinds: Types) -> Column:  # noqa: ANN401 - Arrow's
    """Return a value of one type as what values of several types come to."""
    if needs_no_cast(kind, kinds):
        return value
    target = unified_type(kinds)
    if _types.is_struct(target):
        return _record(value, kind, kinds)
    if _types.is_map(target):
        return F.transform_values(
            value, lambda _, one: _as_shown(one, kind.item_type, item_types(kinds))
        )
    if _types.is_list(target):
        return F.transform(value, lambda one: _as_shown(one, kind.value_type, item_types(kinds)))
    if _types.is_decimal(target) and _types.is_boolean(kind):
        return value.cast("int").cast(_spark(target))
    return value.cast(_spark(target))


def _record(value: Column, kind: Any, kinds: Types) -> Column:  # noqa: ANN401 - Arrow's
    members = []
    for member in struct_fields(kinds):
        inner = F.lit(None).cast(_spark(unified_type(member.types)))
        field = field_in(kind, member)
        if field is not None:
            inner = _as_shown(value.getField(field.name), field.type, member.types)
        members.append(inner.alias(member.name))
    return F.when(value.isNotNull(), F.struct(*members))


def _spark(kind: pa.DataType) -> DataType:
    is_small = pa.types.is_integer(kind) and kind not in (pa.int32(), pa.int64())
    return shown_types(pa.int32() if is_small else kind)[0]

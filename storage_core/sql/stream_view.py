"""The DuckDB view of a stream's snapshot: parts by `read_parquet` and hot rows as Arrow, united.

Each table of the union selects the stream's columns, cast to the type that the column has in all of
them (type_unification.py), and leaves out hidden rows.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from storage_core.format.window import Unit
from storage_core.parts.visible_rows import as_sql, visible_rows
from storage_core.sql.stream_snapshot import StreamSnapshot
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

# IMPORTANT: a directory above the root may be called `version=3`; that is not a column.
_PARQUET_OPTIONS: Final = "hive_partitioning = false"
# Tells a stream's view from one that a caller has created in its place.
VIEW_COMMENT: Final = "the rows of a stream"
# The schemas of streams' views and of hot rows.
_VIEWS: Final = 'memory."main"'
_HOT: Final = 'memory."not sealed"'
_QUOTE: Final = '"'
_SQL_TYPES: Final[dict[pa.DataType, str]] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.uint8(): "UTINYINT",
    pa.uint16(): "USMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.date32(): "DATE",
    pa.time32("ms"): "TIME",
    pa.time64("us"): "TIME",
}
# A number in a unit as a UTC timestamp of microseconds.
_TIMESTAMPS: Final[dict[Unit, str]] = {
    "s": "make_timestamptz({0} * 1000000)",
    "ms": "make_timestamptz({0} * 1000)",
    "us": "make_timestamptz({0})",
    "ns": "make_timestamptz({0} // 1000 - CAST({0} % 1000 < 0 AS BIGINT))",
}
_types: Any = pa.types


def create_view(
    connection: Any,  # noqa: ANN401 - DuckDB's
    name: str,
    snapshot: StreamSnapshot,
    urls: Mapping[str, str],
) -> None:
    """Create or replace the view of a stream; `urls` are the names of part files in DuckDB."""
    hot = []
    for number, (_, table) in enumerate(snapshot.hot):
        _create_hot_view(connection, f"{name} {number}", table)
        hot.append(f"{_HOT}.{quoted(f'{name} {number}')}")
    rows = select_of(snapshot, urls, hot)
    connection.execute(f"CREATE OR REPLACE VIEW {quoted(name)} AS {rows}")
    connection.execute(f"COMMENT ON VIEW {quoted(name)} IS '{VIEW_COMMENT}'")


def select_of(snapshot: StreamSnapshot, urls: Mapping[str, str], hot: Sequence[str]) -> str:
    """Return the SELECT of a stream's visible rows.

    Args:
        snapshot: Its snapshot.
        urls: The names of part files in DuckDB.
        hot: What the snapshot's hot tables are called in SQL.
    """
    is_visible = as_sql(visible_rows(snapshot.shards))
    selects = []
    for columns, group in snapshot.parts:
        files = ", ".join(f"'{urls[str(part.path)]}'" for part in group.parts)
        alias, unique = _unique_columns(group.schema.names, columns)
        select = (
            f"SELECT {_select_list(unique)} FROM read_parquet([{files}], {_PARQUET_OPTIONS}){alias}"  # noqa: S608 - names are of safe letters
        )
        selects.append(f"{select} WHERE {is_visible}" if group.has_hidden else select)
    for name, (columns, _) in zip(hot, snapshot.hot, strict=True):
        select = f"SELECT {_select_list(columns)} FROM {name}"  # noqa: S608 - quoted
        selects.append(f"{select} WHERE {is_visible}")
    # Each has all columns, in the same order.
    return " UNION ALL ".join(selects)


def _create_hot_view(connection: Any, name: str, table: pa.Table) -> None:  # noqa: ANN401 - DuckDB's
    """Make an Arrow table a view in a schema that SHOW TABLES does not list."""
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_HOT}")
    connection.execute(f"USE {_HOT}")
    try:
        connection.from_arrow(table).create_view(name)
    finally:
        connection.execute(f"USE {_VIEWS}")


def _select_list(columns: tuple[OutputColumn, ...]) -> str:
    return ", ".join(
        quoted(column.name)
        if column.is_unchanged
        else f"{_column_value(column)} AS {quoted(column.name)}"
        for column in columns
    )


def _unique_columns(
    names: Sequence[str], columns: tuple[OutputColumn, ...]
) -> tuple[str, tuple[OutputColumn, ...]]:
    """Rename columns of a file that differ only in case.

    Args:
        names: The columns of the file, in its order.
        columns: The columns to select from it.

    Returns:
        The alias of the file in FROM, and the columns with the new names of their sources.
    """
    count = Counter(map(str.lower, names))
    renamed = {name: f"{name} {n}" for n, name in enumerate(names) if count[name.lower()] > 1}
    if not renamed:
        return "", columns
    listed = ", ".join(quoted(renamed.get(name, name)) for name in names)

    def with_new_name(source: SourceColumn) -> SourceColumn:
        return replace(source, name=renamed.get(source.name, source.name))

    unique = (
        replace(column, sources=tuple(map(with_new_name, column.sources))) for column in columns
    )
    return f" AS of_file({listed})", tuple(unique)


def _column_value(column: OutputColumn) -> str:
    if not column.sources:
        return f"CAST(NULL AS {sql_type(unified_type(column.types))})"
    values = [_source_value(source, column.types) for source in column.sources]
    return values[0] if len(values) == 1 else f"coalesce({', '.join(values)})"


def _source_value(source: SourceColumn, types: Types) -> str:
    if source.unit is not None:
        name, most = quoted(source.name), time_bounds(source.unit)
        timestamp = _TIMESTAMPS[source.unit].format(name)
        return f"CASE WHEN {name} BETWEEN -{most} AND {most} THEN {timestamp} END"
    return _cast(quoted(source.name), source.type, types, 0)


def quoted(name: str) -> str:
    """Return a name as a quoted identifier."""
    return _QUOTE + name.replace(_QUOTE, _QUOTE * 2) + _QUOTE


def _cast(value: str, data_type: Any, types: Types, depth: int) -> str:  # noqa: ANN401 - Arrow's
    """Return a value of one type cast to the unified type of several."""
    if needs_no_cast(data_type, types):
        return value
    target = unified_type(types)
    cast = f"CAST({value} AS {sql_type(target)})"
    if _types.is_struct(target):
        cast = _cast_struct(value, data_type, types, depth)
    elif _types.is_map(target):
        item = _cast(f"e{depth}.value", data_type.item_type, item_types(types), depth + 1)
        entry = f"struct_pack(k := e{depth}.key, v := {item})"
        cast = f"map_from_entries(list_transform(map_entries({value}), lambda e{depth}: {entry}))"
    elif _types.is_list(target):
        item = _cast(f"e{depth}", data_type.value_type, item_types(types), depth + 1)
        cast = f"list_transform({value}, lambda e{depth}: {item})"
    elif _types.is_binary(target) and not _is_bytes(data_type):
        # NOTE: a cast of DuckDB's (2.0) interprets escapes in the string.
        cast = f"encode({value})"
    elif _types.is_decimal(target) and _types.is_boolean(data_type):
        cast = f"CAST(CAST({value} AS INTEGER) AS {sql_type(target)})"
    return cast


def _cast_struct(value: str, data_type: Any, types: Types, depth: int) -> str:  # noqa: ANN401 - Arrow's
    entries = []
    for column in struct_fields(types):
        item = f"CAST(NULL AS {sql_type(unified_type(column.types))})"
        field = field_in(data_type, column)
        if field is not None:
            name = field.name.replace("'", "''")
            item = _cast(f"struct_extract({value}, '{name}')", field.type, column.types, depth)
        entries.append(f"{quoted(column.name)} := {item}")
    return f"CASE WHEN {value} IS NOT NULL THEN struct_pack({', '.join(entries)}) END"


def _is_bytes(data_type: pa.DataType) -> bool:
    return bool(_types.is_binary(data_type) or _types.is_fixed_size_binary(data_type))


def sql_type(data_type: Any) -> str:  # noqa: ANN401, PLR0911 - a type of Arrow's
    """Return DuckDB's name of a type."""
    if _types.is_struct(data_type):
        fields = ", ".join(f"{quoted(field.name)} {sql_type(field.type)}" for field in data_type)
        return f"STRUCT({fields})"
    if _types.is_map(data_type):
        return f"MAP(VARCHAR, {sql_type(data_type.item_type)})"
    if _types.is_list(data_type):
        return f"{sql_type(data_type.value_type)}[]"
    if _types.is_timestamp(data_type):
        zone = "" if data_type.tz is None else "TZ"
        return f"TIMESTAMP{zone}{'_NS' if data_type.unit == 'ns' else ''}"
    if _types.is_decimal128(data_type):
        return f"DECIMAL({data_type.precision}, {data_type.scale})"
    if _types.is_fixed_size_binary(data_type):
        return "BLOB"
    return "VARCHAR" if _types.is_decimal256(data_type) else _SQL_TYPES[data_type]

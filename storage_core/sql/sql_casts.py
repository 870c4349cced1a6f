"""Columns of a table as DuckDB is to show them beside those of others: expressions of SQL."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from storage_core.format.window import Unit
from storage_core.sql.united import (
    Kinds,
    Shown,
    Source,
    insides,
    is_one_to_engines,
    one_kind,
    part_of,
    record_fields,
    time_bounds,
)

_QUOTE: Final = '"'
_NAMES: Final[dict[pa.DataType, str]] = {
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
# A number as a time in UTC, of microseconds, by what it counts.
_TIMES: Final[dict[Unit, str]] = {
    "s": "make_timestamptz({0} * 1000000)",
    "ms": "make_timestamptz({0} * 1000)",
    "us": "make_timestamptz({0})",
    "ns": "make_timestamptz({0} // 1000 - CAST({0} % 1000 < 0 AS BIGINT))",
}
_types: Any = pa.types


def selected(columns: tuple[Shown, ...]) -> str:
    """Return what is selected of a table for its columns to be those that are shown."""
    return ", ".join(
        quoted(one.name) if one.is_as_it_lies else f"{_value(one)} AS {quoted(one.name)}"
        for one in columns
    )


def told_apart(names: Sequence[str], columns: tuple[Shown, ...]) -> tuple[str, tuple[Shown, ...]]:
    """Return names for the columns of a file that differ only in case, and what is shown by them.

    Args:
        names: The columns of the file, in its order.
        columns: What is shown of it.

    Returns:
        What stands behind the file in FROM, and the columns as they are then.
    """
    count = Counter(map(str.lower, names))
    other = {name: f"{name} {at}" for at, name in enumerate(names) if count[name.lower()] > 1}
    if not other:
        return "", columns
    listed = ", ".join(quoted(other.get(name, name)) for name in names)
    renamed = (
        replace(
            one,
            sources=tuple(
                replace(each, column=other.get(each.column, each.column)) for each in one.sources
            ),
        )
        for one in columns
    )
    return f" AS of_file({listed})", tuple(renamed)


def _value(shown: Shown) -> str:
    if not shown.sources:
        return f"CAST(NULL AS {_name(one_kind(shown.kinds))})"
    values = [_of_rows(one, shown.kinds) for one in shown.sources]
    return values[0] if len(values) == 1 else f"coalesce({', '.join(values)})"


def _of_rows(source: Source, kinds: Kinds) -> str:
    if source.unit is not None:
        column, most = quoted(source.column), time_bounds(source.unit)
        time = _TIMES[source.unit].format(column)
        return f"CASE WHEN {column} BETWEEN -{most} AND {most} THEN {time} END"
    return _cast(quoted(source.column), source.kind, kinds, 0)


def quoted(name: str) -> str:
    """Return a name as SQL takes any."""
    return _QUOTE + name.replace(_QUOTE, _QUOTE * 2) + _QUOTE


def _cast(value: str, kind: Any, kinds: Kinds, depth: int) -> str:  # noqa: ANN401 - Arrow's
    """Return a value of one type as what values of several types come to."""
    if is_one_to_engines(kind, kinds):
        return value
    target = one_kind(kinds)
    found = f"CAST({value} AS {_name(target)})"
    if _types.is_struct(target):
        found = _record(value, kind, kinds, depth)
    elif _types.is_map(target):
        inside = _cast(f"e{depth}.value", kind.item_type, insides(kinds), depth + 1)
        entry = f"struct_pack(k := e{depth}.key, v := {inside})"
        found = f"map_from_entries(list_transform(map_entries({value}), lambda e{depth}: {entry}))"
    elif _types.is_list(target):
        inside = _cast(f"e{depth}", kind.value_type, insides(kinds), depth + 1)
        found = f"list_transform({value}, lambda e{depth}: {inside})"
    elif _types.is_binary(target) and not _is_bytes(kind):
        # NOTE: a cast of DuckDB's (2.0) takes what looks like an escape for one.
        found = f"encode({value})"
    elif _types.is_decimal(target) and _types.is_boolean(kind):
        found = f"CAST(CAST({value} AS INTEGER) AS {_name(target)})"
    return found


def _record(value: str, kind: Any, kinds: Kinds, depth: int) -> str:  # noqa: ANN401 - Arrow's
    shown = []
    for one in record_fields(kinds):
        inner = f"CAST(NULL AS {_name(one_kind(one.kinds))})"
        field = part_of(kind, one)
        if field is not None:
            text = field.name.replace("'", "''")
            inner = _cast(f"struct_extract({value}, '{text}')", field.type, one.kinds, depth)
        shown.append(f"{quoted(one.name)} := {inner}")
    return f"CASE WHEN {value} IS NOT NULL THEN struct_pack({', '.join(shown)}) END"


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(_types.is_binary(kind) or _types.is_fixed_size_binary(kind))


def _name(kind: Any) -> str:  # noqa: ANN401, PLR0911 - a type of Arrow's
    """Return what DuckDB calls a type."""
    if _types.is_struct(kind):
        inner = ", ".join(f"{quoted(one.name)} {_name(one.type)}" for one in kind)
        return f"STRUCT({inner})"
    if _types.is_map(kind):
        return f"MAP(VARCHAR, {_name(kind.item_type)})"
    if _types.is_list(kind):
        return f"{_name(kind.value_type)}[]"
    if _types.is_timestamp(kind):
        return f"TIMESTAMP{'' if kind.tz is None else 'TZ'}{'_NS' if kind.unit == 'ns' else ''}"
    if _types.is_decimal128(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if _types.is_fixed_size_binary(kind):
        return "BLOB"
    return "VARCHAR" if _types.is_decimal256(kind) else _NAMES[kind]

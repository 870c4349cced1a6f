"""Arrow's values as Python's, whatever they say: for those who show rows to people.

Python has no time beyond the year 9999, none before the year 1 and no nanoseconds, and Arrow then
raises for the whole batch. Such a time is the text that `isoformat` would have made, had it been
one of Python's. All others are what `to_pylist` says.
"""

import warnings
from typing import Any

import numpy as np
import pyarrow as pa

_UNLIKE_PYTHON = (OverflowError, ValueError)


def to_python(rows: Any) -> list[Any]:  # noqa: ANN401 - an array, a batch or a table
    """Return the values of an array, or the rows of a batch or table as dictionaries.

    Maps are dictionaries where all their keys are texts, else lists of pairs; of a key that stands
    in a map more than once the last value counts.
    """
    columns = _columns(rows)
    kinds = [rows.type] if columns is None else [one.type for one in columns.values()]
    maps = "lossy" if all(map(_has_text_keys, kinds)) else None
    values: list[Any]
    with warnings.catch_warnings(action="ignore"):
        try:
            values = rows.to_pylist(maps_as_pydicts=maps)
        except _UNLIKE_PYTHON:
            values = _one_by_one(columns, rows, is_lossy=maps is not None)
    return values


def _columns(rows: Any) -> dict[str, Any] | None:  # noqa: ANN401 - as above
    """Return the columns of a batch or table; None for an array."""
    if isinstance(rows, pa.RecordBatch | pa.Table):
        return dict(zip(rows.schema.names, rows.columns, strict=True))
    return None


def _one_by_one(columns: dict[str, Any] | None, rows: Any, *, is_lossy: bool) -> list[Any]:  # noqa: ANN401 - as above
    if columns is None:
        return [_value(one, is_lossy=is_lossy) for one in rows]
    values = ([_value(one, is_lossy=is_lossy) for one in column] for column in columns.values())
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def _value(scalar: Any, *, is_lossy: bool) -> Any:  # noqa: ANN401 - any type
    kind = scalar.type
    if not scalar.is_valid or not kind.num_fields:
        return _leaf(scalar)
    if pa.types.is_struct(kind):
        return {one.name: _value(scalar[at], is_lossy=is_lossy) for at, one in enumerate(kind)}
    if pa.types.is_union(kind):
        return _value(scalar.value, is_lossy=is_lossy)
    if not pa.types.is_map(kind):
        return [_value(one, is_lossy=is_lossy) for one in scalar.values]
    keys, values = scalar.values.flatten()
    sides = ([_value(one, is_lossy=is_lossy) for one in side] for side in (keys, values))
    pairs = list(zip(*sides, strict=True))
    return dict(pairs) if is_lossy else pairs


def _leaf(scalar: Any) -> Any:  # noqa: ANN401 - any type
    try:
        return scalar.as_py()
    except _UNLIKE_PYTHON:
        return _text_of_a_time(scalar.type, scalar.value)


def _text_of_a_time(kind: Any, count: int) -> str:  # noqa: ANN401 - a type of Arrow's
    unit: Any = "D" if pa.types.is_date32(kind) else getattr(kind, "unit", None)
    # NOTE: numpy has times of any year, but takes the least number for none.
    if unit is None or count == np.iinfo(np.int64).min or pa.types.is_duration(kind):
        return str(count)
    text = str(np.datetime64(count, unit))
    if pa.types.is_time(kind):
        return text.partition("T")[2]
    has_zone = pa.types.is_timestamp(kind) and kind.tz is not None
    return text + "+00:00" if has_zone else text


def _has_text_keys(kind: Any) -> bool:  # noqa: ANN401 - a type of Arrow's
    inner = [kind.field(at).type for at in range(kind.num_fields)]
    if pa.types.is_map(kind):
        key = kind.key_type
        key = key.value_type if pa.types.is_dictionary(key) else key
        if not pa.types.is_string(key):
            return False
        inner = [kind.item_type]
    return all(map(_has_text_keys, inner))

"""Shapes of types: which can be one column.

No type is both a number and a record. Dates, times of no zone and times of nanoseconds are shapes
apart: no type of a time has all that the others have, and a zone would be guessed.
"""

from collections.abc import Set as AbstractSet
from typing import Any, Final

import pyarrow as pa

from storage_core.parts.typed_columns import column_type

# What a list or a map of them is a plain list or map of.
_PLAIN: Final = ("number", "text")
# What can be a text beside texts.
_TEXTS_TOO: Final = (
    *("number", "bytes", "clock", "date"),
    *("time", "time_ns", "local_time", "local_time_ns"),
)
_types: Any = pa.types


def shape_of(kind: Any) -> str:  # noqa: ANN401, PLR0911 - a type of Arrow's
    """Return what types have in common that SQL casts to each other."""
    if _types.is_struct(kind):
        return "record"
    if _types.is_map(kind):
        return "map" + _inside(kind.item_type)
    if _types.is_list(kind):
        return "list" + _inside(kind.value_type)
    if _types.is_binary(kind) or _types.is_fixed_size_binary(kind):
        return "bytes"
    if _types.is_time(kind):
        return "clock"
    if _types.is_date(kind):
        return "date"
    if _types.is_timestamp(kind):
        return ("local_time" if kind.tz is None else "time") + ("_ns" if kind.unit == "ns" else "")
    is_text = _types.is_dictionary(kind) or _types.is_string(kind)
    return "text" if is_text or column_type(kind) != kind else "number"


def _inside(kind: Any) -> str:  # noqa: ANN401 - a type of Arrow's
    shape = shape_of(kind)
    return "" if shape in _PLAIN else f"_{shape}"


def can_unite(shapes: AbstractSet[str]) -> bool:
    """Tell whether SQL finds one type for values of all these shapes."""
    if len(shapes) == 1:
        return True
    others = shapes - {"text"}
    return "text" in shapes and len(others) == 1 and others < set(_TEXTS_TOO)


def plain(kind: Any) -> pa.DataType:  # noqa: ANN401 - a type of Arrow's
    """Return a type as engines have it, whatever lists call their items."""
    if _types.is_dictionary(kind):
        return plain(kind.value_type)
    if _types.is_fixed_size_binary(kind):
        return pa.binary()
    if _types.is_struct(kind):
        return pa.struct([pa.field(one.name, plain(one.type)) for one in kind])
    if _types.is_map(kind):
        return pa.map_(pa.string(), plain(kind.item_type))
    if _types.is_list(kind):
        return pa.list_(plain(kind.value_type))
    return pa.string() if _types.is_decimal256(kind) else kind

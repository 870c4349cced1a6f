"""Fields of one name and several shapes: which columns of a table they are.

SQL unites columns by name, and no type is both a number and a record. So where a name has shapes
among the schemas of a stream that SQL cannot unite, numbers and texts keep it, and the others are
columns of their own: `<name>_record`, `<name>_list` (of records `<name>_list_record`),
`<name>_map`, `<name>_bytes`, `<name>_time`, and `<name>_clock`, a time of day. Dates, times of no
zone and times of nanoseconds are shapes apart: no type of a time has all that the others have, and
a zone would be guessed.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Any, Final

import pyarrow as pa

from storage_core.sealed.part_values import Writer, column_of, shown_fields, shown_type

# Those that keep a name, and what can be a text beside texts.
_PLAIN: Final = ("number", "text")
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
    return "text" if is_text or shown_type(kind) != kind else "number"


def _inside(kind: Any) -> str:  # noqa: ANN401 - a type of Arrow's
    shape = shape_of(kind)
    return "" if shape in _PLAIN else f"_{shape}"


def can_unite(shapes: AbstractSet[str]) -> bool:
    """Tell whether SQL finds one type for values of all these shapes."""
    if len(shapes) == 1:
        return True
    others = shapes - {"text"}
    return "text" in shapes and len(others) == 1 and others < set(_TEXTS_TOO)


def names_of_several_shapes(writers: Iterable[Writer]) -> frozenset[str]:
    """Return the columns that have several shapes among the values that these schemas wrote."""
    met: dict[str, set[str]] = {}
    for writer in writers:
        names = shown_fields(writer.schema)
        for field in writer.schema.arrow_schema(names):
            met.setdefault(column_of(field.name).lower(), set()).add(shape_of(field.type))
    return frozenset(name for name, shapes in met.items() if not can_unite(shapes))


def shown_name(
    name: str, kind: pa.DataType, several: AbstractSet[str], taken: AbstractSet[str]
) -> str:
    """Return the column of a field: its own name, or one by its shape beside others.

    Args:
        name: The field's.
        kind: Its type.
        several: The names, in small letters, that have shapes that are not one column.
        taken: All names, in small letters.
    """
    shape = shape_of(kind)
    if name.lower() not in several or shape in _PLAIN:
        return name
    shown = f"{name}_{shape}"
    while shown.lower() in taken:
        shown += "_"
    return shown

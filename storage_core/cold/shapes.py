"""Fields of one name and several shapes: which columns of a table they are.

SQL unites columns by name, and no type is both a number and a record. So where a name has several
shapes among the schemas of a stream, the plain ones (numbers, texts, truth) keep it, and the others
are columns of their own: `<name>_record`, `<name>_list`, `<name>_map`, `<name>_bytes` and
`<name>_time`.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from storage_core.parts.typed_rows import Writer, column_of, shown_fields

PLAIN = ""
Renamed = tuple[tuple[str, str], ...]
_parquet: Any = pq
_types: Any = pa.types


def shape_of(kind: Any) -> str:  # noqa: ANN401 - a type of Arrow's
    """Return what kinds of type have in common that SQL casts to each other."""
    if _types.is_dictionary(kind):
        kind = kind.value_type
    shapes = {
        "record": _types.is_struct,
        "map": _types.is_map,
        "list": _types.is_list,
        "bytes": lambda one: _types.is_binary(one) or _types.is_fixed_size_binary(one),
        "time": _types.is_temporal,
    }
    return next((name for name, has in shapes.items() if has(kind)), PLAIN)


def names_of_several_shapes(writers: Iterable[Writer]) -> frozenset[str]:
    """Return the columns that have several shapes among the values that these schemas wrote."""
    met: dict[str, set[str]] = {}
    for writer in writers:
        names = shown_fields(writer.schema)
        for field in writer.schema.arrow_schema(names):
            met.setdefault(column_of(field.name).lower(), set()).add(shape_of(field.type))
    return frozenset(name for name, shapes in met.items() if len(shapes) > 1)


def renamed(schema: pa.Schema, several: frozenset[str]) -> Renamed:
    """Return which columns of a table have other names beside those of other shapes."""
    taken = {name.lower() for name in schema.names}
    found = []
    for field in schema:
        shape = shape_of(field.type)
        if field.name.lower() in several and shape != PLAIN:
            name = f"{field.name}_{shape}"
            while name.lower() in taken:
                name += "_"
            found.append((field.name, name))
    return tuple(found)


def files_by_names(
    files: Sequence[tuple[str, str]], several: frozenset[str]
) -> Mapping[Renamed, list[str]]:
    """Return files by the columns that are renamed in them.

    Args:
        files: Their paths, each with the kind of its values; of bytes no file is looked at.
        several: The columns of several shapes; without any no file is.

    Raises:
        FileNotFoundError: One has gone.
    """
    found: dict[Renamed, list[str]] = {}
    for path, kind in files:
        names: Renamed = ()
        if kind and several:
            names = renamed(_parquet.read_schema(Path(path)), several)
        found.setdefault(names, []).append(path)
    return found

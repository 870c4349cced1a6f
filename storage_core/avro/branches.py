"""Which branch of a union each value of a column is, and what may stand for a type with parts."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage_core.avro.avro_types import (
    Array,
    AvroType,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    Union,
    arrow_type,
    members,
)
from storage_core.avro.fitting import Kind, fitted, leaf_name, numbers_of, takes
from storage_core.avro.pieces import Column
from storage_core.avro.row_place import RowPlace
from storage_core.errors import InvalidRequestError

_types: Any = pa.types
_untyped: Any = pa
_compute: Any = pc


def by_width(what: Union, given: Column, wide: Primitive, place: RowPlace) -> list[Column]:
    """Return the column of each of a union's numbers: the first branch that holds it has it."""
    column = fitted(wide, given, place)
    values = numbers_of(column)
    with np.errstate(over="ignore"):
        narrow = values.astype(np.int32 if wide.kind == "long" else np.float32)
    # What is no number is so in any width.
    is_narrow = (narrow == values) | np.isnan(narrow)
    columns = []
    left = np.ones(len(values), np.bool_)
    for member in members(what):
        takes_all = member == wide
        mine = left if takes_all else left & is_narrow
        left = left & ~mine
        none = _untyped.scalar(None, column.type)
        columns.append(_compute.if_else(_untyped.array(mine), column, none))
    return columns


def by_member(others: tuple[AvroType, ...], given: Column, place: RowPlace) -> list[Column]:
    """Return the column of each of a union's members."""
    kind = given.type
    names = [f"member{at}" for at in range(len(others))]
    if _types.is_struct(kind) and kind.names and set(kind.names) <= set(names):
        fields = dict(zip(kind.names, given.flatten(), strict=True))
        return [fields.get(name, _untyped.nulls(len(given))) for name in names]
    matching = [at for at, each in enumerate(others) if _is_shown_as(each, kind)]
    if not matching:
        matching = [at for at, each in enumerate(others) if _may_be(each, kind)]
    if _types.is_null(kind):
        matching = [0]
    if len(matching) != 1:
        branches = ", ".join(
            f"{name}: {name_of(each)}" for name, each in zip(names, others, strict=True)
        )
        place.refuse_all(
            f"is {kind}, and the schema has a union there: give a struct of {branches}"
        )
    return [given if at == matching[0] else _untyped.nulls(len(given)) for at in range(len(others))]


def _is_shown_as(what: AvroType, kind: Kind) -> bool:
    try:
        return bool(arrow_type(what) == kind)
    except InvalidRequestError:
        return False


def _may_be(what: AvroType, kind: Kind) -> bool:
    if isinstance(what, Primitive | Fixed | Enum):
        return takes(what, kind)
    return is_made_of(what, kind)


def name_of(what: AvroType) -> str:
    """Return a type's name as people know it."""
    if isinstance(what, Primitive | Fixed | Enum):
        return leaf_name(what)
    if isinstance(what, Record):
        return f"record {what.name}"
    return "an array" if isinstance(what, Array) else "a map" if isinstance(what, Map) else "union"


def is_made_of(what: AvroType, kind: Kind) -> bool:
    """Tell whether a column of a type may stand for one with parts."""
    if isinstance(what, Record):
        return bool(_types.is_struct(kind))
    if isinstance(what, Map):
        return bool(_types.is_map(kind))
    return bool(
        _types.is_list(kind)
        or _types.is_large_list(kind)
        or _types.is_fixed_size_list(kind)
        or _types.is_list_view(kind)
        or _types.is_large_list_view(kind)
    )

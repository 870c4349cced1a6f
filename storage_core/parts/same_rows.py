"""Whether two tables are the same bit for bit: NaN is itself, and -0.0 is not 0.0."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from storage_core.parts.part_values import one_array

_INTEGERS = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
_compute: Any = pc


def are_same(one: pa.Table, other: pa.Table) -> bool:
    """Tell whether two tables have the same rows in the same columns."""
    if one.schema.names != other.schema.names or one.num_rows != other.num_rows:
        return False
    pairs = zip(one.columns, other.columns, strict=True)
    return all(_are_same(one_array(a), one_array(b)) for a, b in pairs)


def _are_same(one: Any, other: Any) -> bool:  # noqa: ANN401 - arrays
    kind = one.type
    if kind != other.type or len(one) != len(other):
        return False
    if pa.types.is_floating(kind):
        whole = _INTEGERS[kind.bit_width]
        return bool(one.view(whole).equals(other.view(whole)))
    if not pa.types.is_nested(kind):
        return bool(one.equals(other))
    if not one.is_valid().equals(other.is_valid()):
        return False
    return all(_are_same(a, b) for a, b in zip(_inside(one), _inside(other), strict=True))


def _inside(nested: Any) -> list[Any]:  # noqa: ANN401 - arrays
    """Return the arrays of which a nested one is made, without what lies behind nulls."""
    if pa.types.is_struct(nested.type):
        return list(nested.flatten())
    lists = nested
    if pa.types.is_map(nested.type):
        entry = pa.struct([nested.type.key_field, nested.type.item_field])
        lists = nested.cast(pa.list_(entry))
    return [_compute.list_value_length(lists), _compute.list_flatten(lists)]

"""Columns of one name and several types as one: of which type, so that no value loses anything.

Parts and rows that are not sealed are united by name, and each engine has rules of its own for
types that differ: a decimal that is cut off, a whole number that is rounded. So the type is chosen
here, for all of them:

    whole numbers, truths             the widest of them; 1 and 0
    numbers, floating ones among them double: of whole numbers above 2^53 the nearest one, as Avro
                                      promotes them; of decimals of more than 15 digits texts
    decimals, whole numbers           the decimal that holds all, of more than 38 digits texts
    texts and bytes                   bytes
    texts and anything else           texts
    times of several units            microseconds
    records, lists, maps              of what their insides come to, records with the fields of all
"""

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from storage_core.format.keys import INT64_MAX
from storage_core.format.window import UNITS_PER_SECOND, Unit
from storage_core.sql.field_columns import FieldColumn, FieldColumns
from storage_core.sql.shapes import plain, shape_of

# The times that both engines have, by how many microseconds they are from the epoch.
TIME_US_MAX: Final = 9_223_372_022_400_000_000
_DIGITS_MAX: Final = 38
# So many a double has of each decimal.
_DOUBLE_DIGITS: Final = 15
# The digits of whole numbers.
_WHOLE: Final[dict[pa.DataType, int]] = {pa.bool_(): 1, pa.int32(): 10, pa.int64(): 19}
_FLOATS: Final = (pa.float32(), pa.float64())
_types: Any = pa.types
Kinds = tuple[pa.DataType, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """A column of a table that is a column as it is shown.

    Attributes:
        column: Its name.
        kind: Its type.
        unit: What it counts, of numbers that are shown as times.
    """

    column: str
    kind: pa.DataType
    unit: Unit | None = None


@dataclass(frozen=True, slots=True)
class Shown:
    """A column as it is shown.

    Attributes:
        name: Its name.
        sources: The columns of the table that it is; each row has it in one of them. Without any
            it is null in all rows of the table.
        kinds: The types that it has in all tables.
    """

    name: str
    sources: tuple[Source, ...]
    kinds: Kinds

    @property
    def is_as_it_lies(self) -> bool:
        """Whether a column of the table is it."""
        if len(self.sources) != 1:
            return False
        (one,) = self.sources
        return self.name == one.column and is_one_to_engines(one.kind, self.kinds)


def time_bounds(unit: Unit) -> int:
    """Return how large a number in a unit may be to be a time that both engines have."""
    return min(TIME_US_MAX * UNITS_PER_SECOND[unit] // 10**6, INT64_MAX - 1000)


def one_kind(kinds: Kinds) -> pa.DataType:
    """Return the type of values of several types that can be one column."""
    every = tuple(dict.fromkeys(map(plain, kinds)))
    found = _nested(every)
    if found is not None:
        return found
    if len(every) == 1:
        return every[0]
    shapes = {shape_of(kind) for kind in every}
    if "text" in shapes:
        return pa.binary() if shapes == {"text", "bytes"} else pa.string()
    if shapes == {"number"}:
        return _number(every)
    # Of several units.
    return pa.time64("us") if shapes == {"clock"} else pa.timestamp("us", _parts(every[0]).tz)


def is_one_to_engines(kind: pa.DataType, kinds: Kinds) -> bool:
    """Tell whether values of a type are what they come to among several."""
    return plain(kind) == plain(one_kind(kinds))


def record_fields(kinds: Kinds) -> list[FieldColumn]:
    """Return the fields that records of several types are united to."""
    columns = FieldColumns()
    for kind in kinds:
        columns.add(_parts(kind))
    return list(columns)


def part_of(record: pa.DataType, column: FieldColumn) -> "pa.Field[Any] | None":
    """Return which field of a record is one that records are united to; None if none is."""
    fields: list[pa.Field[Any]] = list(_parts(record))
    for one in fields:
        if one.name == column.field and plain(one.type) in column.kinds:
            return one
    return None


def insides(kinds: Kinds) -> Kinds:
    """Return the types of what lies in lists, or of the values of maps."""
    return tuple(
        dict.fromkeys(
            _parts(kind).item_type if _types.is_map(kind) else _parts(kind).value_type
            for kind in kinds
        )
    )


def _nested(kinds: Kinds) -> pa.DataType | None:
    if all(map(_types.is_struct, kinds)):
        fields = [pa.field(one.name, one_kind(one.kinds)) for one in record_fields(kinds)]
        return pa.struct(fields)
    if all(map(_types.is_map, kinds)):
        return pa.map_(pa.string(), one_kind(insides(kinds)))
    if all(map(_types.is_list, kinds)):
        return pa.list_(one_kind(insides(kinds)))
    return None


def _number(kinds: Kinds) -> pa.DataType:
    decimals = [_parts(kind) for kind in kinds if _types.is_decimal(kind)]
    if any(kind in _FLOATS for kind in kinds):
        is_held = all(one.precision <= _DOUBLE_DIGITS for one in decimals)
        return pa.float64() if is_held else pa.string()
    whole = max((_WHOLE[kind] for kind in kinds if kind in _WHOLE), default=0)
    if not decimals:
        return pa.int64() if whole == _WHOLE[pa.int64()] else pa.int32()
    scale = max(one.scale for one in decimals)
    digits = scale + max(whole, *(one.precision - one.scale for one in decimals))
    return pa.decimal128(digits, scale) if digits <= _DIGITS_MAX else pa.string()


def _parts(kind: pa.DataType) -> Any:  # noqa: ANN401 - what it has depends on the kind
    return kind

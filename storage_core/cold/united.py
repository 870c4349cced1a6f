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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from storage_core.cold.shapes import can_unite, shape_of, shown_name
from storage_core.sealed.part_values import ENVELOPE, base_of

_DIGITS_MAX: Final = 38
# So many a double has of each decimal.
_DOUBLE_DIGITS: Final = 15
# The digits of whole numbers.
_WHOLE: Final[dict[pa.DataType, int]] = {pa.bool_(): 1, pa.int32(): 10, pa.int64(): 19}
_FLOATS: Final = (pa.float32(), pa.float64())
_types: Any = pa.types
Kinds = tuple[pa.DataType, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """A column as it is shown.

    Attributes:
        name: Its name.
        sources: The columns of the table that it is, by name, with their types; each row has it
            in one of them.
        kinds: The types that it has in all tables.
    """

    name: str
    sources: tuple[tuple[str, pa.DataType], ...]
    kinds: Kinds

    @property
    def is_as_it_lies(self) -> bool:
        """Whether a column of the table is it."""
        (column, kind), *others = self.sources
        return self.name == column and not others and is_one_to_engines(kind, self.kinds)


def shown_columns(schemas: Sequence[pa.Schema], several: frozenset[str]) -> list[tuple[Shown, ...]]:
    """Return for each table what its columns are beside those of the others.

    Args:
        schemas: The tables' columns.
        several: The columns of several shapes.
    """
    merged = fields_of([list(schema) for schema in schemas], several)
    return [_shown(schema, merged) for schema in schemas]


def _shown(schema: pa.Schema, merged: "Sequence[Merged]") -> tuple[Shown, ...]:
    found = []
    for one in merged:
        bases: dict[str, list[tuple[str, pa.DataType]]] = {}
        for field in one.among(schema):
            bases.setdefault(base_of(field.name), []).append((field.name, field.type))
        for base, sources in bases.items():
            # Those that differ only in case stay for the engine to tell apart, or to refuse.
            is_own = base in ENVELOPE or len(bases) > 1
            kinds = tuple(kind for _, kind in sources) if is_own else one.kinds
            found.append(Shown(base if is_own else one.name, tuple(sources), kinds))
    order = {name: at for at, name in enumerate(schema.names)}
    return tuple(sorted(found, key=lambda shown: order[shown.sources[0][0]]))


@dataclass(frozen=True, slots=True)
class Merged:
    """A field of records that are united, or a column of tables.

    Attributes:
        name: Its name.
        sources: The names and types that are it.
        kinds: The types.
    """

    name: str
    sources: frozenset[tuple[str, pa.DataType]]
    kinds: Kinds

    def among(self, fields: Iterable["pa.Field[Any]"]) -> list["pa.Field[Any]"]:
        """Return which of some fields are it."""
        return [field for field in fields if (field.name, field.type) in self.sources]


def fields_of(
    records: Iterable[Iterable["pa.Field[Any]"]], several: frozenset[str] | None = None
) -> list[Merged]:
    """Return the fields that records are united to.

    Args:
        records: The fields of each.
        several: The names of several shapes; of those of the records if None.
    """
    met = list(dict.fromkeys((one.name, one.type) for fields in records for one in fields))
    if several is None:
        several = _of_several_shapes(met)
    taken = {base_of(name).lower() for name, _ in met}
    groups: dict[str, list[tuple[str, str, pa.DataType]]] = {}
    for name, kind in met:
        shown = shown_name(base_of(name), kind, several, taken)
        groups.setdefault(shown.lower(), []).append((shown, name, kind))
    return [
        Merged(
            group[0][0],
            frozenset((name, kind) for _, name, kind in group),
            tuple(dict.fromkeys(kind for _, _, kind in group)),
        )
        for group in groups.values()
    ]


def _of_several_shapes(fields: Iterable[tuple[str, pa.DataType]]) -> frozenset[str]:
    shapes: dict[str, set[str]] = {}
    for name, kind in fields:
        shapes.setdefault(name.lower(), set()).add(shape_of(kind))
    return frozenset(name for name, some in shapes.items() if not can_unite(some))


def one_kind(kinds: Kinds) -> pa.DataType:
    """Return the type of values of several types that can be one column."""
    if len(kinds) == 1:
        return kinds[0]
    every = tuple(dict.fromkeys(_plain(kind) for kind in kinds))
    if len(every) == 1:
        return every[0]
    found = _nested(every)
    if found is not None:
        return found
    shapes = {shape_of(kind) for kind in every}
    if "text" in shapes:
        return pa.binary() if shapes == {"text", "bytes"} else pa.string()
    if shapes == {"number"}:
        return _number(every)
    # Of several units.
    return pa.time64("us") if shapes == {"clock"} else pa.timestamp("us", _parts(every[0]).tz)


def is_one_to_engines(kind: pa.DataType, kinds: Kinds) -> bool:
    """Tell whether values of a type are what they come to among several."""
    return len(kinds) == 1 or _plain(kind) == _plain(one_kind(kinds))


def record_fields(kinds: Kinds) -> list[Merged]:
    """Return the fields that records of several types are united to."""
    return fields_of([list(_parts(kind)) for kind in kinds])


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


def _plain(kind: Any) -> pa.DataType:  # noqa: ANN401 - a type of Arrow's
    """Return a type as engines have it, whatever lists call their items."""
    if _types.is_dictionary(kind):
        return _plain(kind.value_type)
    if _types.is_fixed_size_binary(kind):
        return pa.binary()
    if _types.is_struct(kind):
        return pa.struct([pa.field(one.name, _plain(one.type)) for one in kind])
    if _types.is_map(kind):
        return pa.map_(pa.string(), _plain(kind.item_type))
    if _types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    return pa.string() if _types.is_decimal256(kind) else kind


def _parts(kind: pa.DataType) -> Any:  # noqa: ANN401 - what it has depends on the kind
    return kind

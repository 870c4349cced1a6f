"""Avro's types as a tree, and the Arrow type that shows each.

    null boolean int long float double bytes string    their own kind
    fixed        fixed-size binary, of more than 256 bytes binary
    enum         string
    array        list                       map        map of strings
    record       struct                     union      of null and one other: that one, with nulls
    union        of int and long: long; of float and double: double; any other: a struct of
                 member0, member1, ... of which one is filled, as Spark's Avro reader shows it
    date, time-*, timestamp-*, local-timestamp-*, decimal of 76 digits at most: Arrow's of the name

A logical type that is unknown, or does not fit what it stands on, is none, as Avro demands. A
record that holds itself has no Arrow type.
"""

from dataclasses import dataclass, field
from typing import Any, Final, Literal

import pyarrow as pa

from storage_core.avro.schema_text import NESTING_MAX
from storage_core.errors import InvalidRequestError

PrimitiveKind = Literal["null", "boolean", "int", "long", "float", "double", "bytes", "string"]

_PLAIN: Final[dict[str, pa.DataType]] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_TIMES: Final[dict[tuple[str, str], pa.DataType]] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
# What one union holds that is shown as the wider of both.
_WIDENED: Final[dict[frozenset[str], PrimitiveKind]] = {
    frozenset({"int", "long"}): "long",
    frozenset({"float", "double"}): "double",
}
# Bytes of what has as many, always.
WIDTHS: Final[dict[str, int]] = {"null": 0, "boolean": 1, "float": 4, "double": 8}
# A wider fixed is shown as bytes of any length: in Arrow's fixed width nulls take it, too.
FIXED_SHOWN_MAX: Final = 256
DECIMAL_DIGITS_MAX: Final = 76
_NARROW_DIGITS_MAX: Final = 38


@dataclass(frozen=True, slots=True)
class Decimal:
    """A number of so many digits, so many of them behind the point."""

    precision: int
    scale: int

    @property
    def arrow(self) -> pa.DataType:
        """Return Arrow's type of it."""
        if self.precision <= _NARROW_DIGITS_MAX:
            return pa.decimal128(self.precision, self.scale)
        return pa.decimal256(self.precision, self.scale)


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type without parts; `logical` is a name that Arrow has a type for."""

    kind: PrimitiveKind
    logical: str | None = None
    decimal: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Fixed:
    """So many bytes."""

    name: str
    aliases: frozenset[str]
    size: int
    decimal: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Enum:
    """One of some symbols."""

    name: str
    aliases: frozenset[str]
    symbols: tuple[str, ...]
    default: str | None


@dataclass(frozen=True, slots=True)
class Array:
    """Any number of one type."""

    items: "AvroType"


@dataclass(frozen=True, slots=True)
class Map:
    """Any number of one type, each under a string."""

    values: "AvroType"


@dataclass(frozen=True, slots=True)
class Union:
    """One of several types."""

    branches: tuple["AvroType", ...]


@dataclass(frozen=True, slots=True)
class Field:
    """A record's field; `default` is JSON, and counts where `has_default`."""

    name: str
    aliases: frozenset[str]
    type: "AvroType"
    has_default: bool
    default: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """Fields in order. They are set once, when all are known: one may be the record itself."""

    name: str
    aliases: frozenset[str]
    fields: list[Field] = field(default_factory=list)


AvroType = Primitive | Fixed | Enum | Array | Map | Union | Record
Named = Fixed | Enum | Record

NULL: Final = Primitive("null")


def members(union: Union) -> tuple[AvroType, ...]:
    """Return what a union holds beside null."""
    return tuple(branch for branch in union.branches if branch != NULL)


def widened(union: Union) -> Primitive | None:
    """Return the type that shows all of a union's numbers, where it has two of one sort."""
    others = members(union)
    kinds = {one.kind for one in others if isinstance(one, Primitive) and one.logical is None}
    if len(others) != len(kinds) or (kind := _WIDENED.get(frozenset(kinds))) is None:
        return None
    return Primitive(kind)


def arrow_type(shown: AvroType) -> pa.DataType:
    """Return the Arrow type that shows a type.

    Raises:
        InvalidRequestError: It holds itself.
    """
    return _arrow(shown, ())


def _arrow(shown: AvroType, inside: tuple[Record, ...]) -> pa.DataType:
    if isinstance(shown, Union):
        return _of_members(shown, inside)
    if isinstance(shown, Primitive | Fixed) and shown.decimal is not None:
        return shown.decimal.arrow
    arrow: pa.DataType = pa.string()
    if isinstance(shown, Primitive):
        arrow = _TIMES.get((shown.kind, shown.logical or ""), _PLAIN[shown.kind])
    elif isinstance(shown, Fixed):
        arrow = pa.binary(shown.size if shown.size <= FIXED_SHOWN_MAX else -1)
    elif isinstance(shown, Array):
        arrow = pa.list_(_arrow(shown.items, inside))
    elif isinstance(shown, Map):
        arrow = pa.map_(pa.string(), _arrow(shown.values, inside))
    elif isinstance(shown, Record):
        arrow = _struct(shown, inside)
    return arrow


def _of_members(shown: Union, inside: tuple[Record, ...]) -> pa.DataType:
    others = members(shown)
    if not others:
        return pa.null()
    member = others[0] if len(others) == 1 else widened(shown)
    if member is not None:
        return _arrow(member, inside)
    return pa.struct(
        [pa.field(f"member{at}", _arrow(each, inside)) for at, each in enumerate(others)]
    )


def _struct(shown: Record, inside: tuple[Record, ...]) -> pa.DataType:
    if any(shown is one for one in inside):
        message = f"{shown.name} holds itself, and no column can: leave its field out by `columns`"
        raise InvalidRequestError(message)
    return pa.struct(
        [pa.field(each.name, _arrow(each.type, (*inside, shown))) for each in shown.fields]
    )


def logical_of(kind: PrimitiveKind, logical: str) -> str | None:
    """Return a logical type's name where Arrow has a type for it on this kind."""
    return logical if (kind, logical) in _TIMES else None


_TYPES_MAX: Final = 100_000


def check_extent(root: AvroType) -> None:
    """Refuse a schema of too many types, or with too many in each other.

    Raises:
        InvalidRequestError: It is one.
    """
    _Extent().of(root, 0)


class _Extent:
    """What is known of records: how deep they are, and how many types they are."""

    def __init__(self) -> None:
        self._cached: dict[int, tuple[int, int]] = {}

    def of(self, what: AvroType, nesting: int) -> tuple[int, int]:
        """Return how many types stand in each other below a type, and how many they are."""
        extent = self._cached.get(id(what))
        if extent is None:
            if nesting > NESTING_MAX:
                raise _too_deep()
            # Of one that holds itself, what is inside it.
            self._cached[id(what)] = 0, 1
            parts = [self.of(each, nesting + 1) for each in _parts(what)]
            depth = max((each for each, _ in parts), default=-1) + 1
            extent = self._cached[id(what)] = depth, 1 + sum(each for _, each in parts)
        depth, count = extent
        if nesting + depth > NESTING_MAX:
            raise _too_deep()
        if count > _TYPES_MAX:
            message = f"a schema of more than {_TYPES_MAX} types, each counted where it is used"
            raise InvalidRequestError(message)
        return extent


def _parts(what: AvroType) -> list[AvroType]:
    if isinstance(what, Record):
        return [each.type for each in what.fields]
    if isinstance(what, Union):
        return list(what.branches)
    if isinstance(what, Array):
        return [what.items]
    return [what.values] if isinstance(what, Map) else []


def _too_deep() -> InvalidRequestError:
    return InvalidRequestError(f"a schema of more than {NESTING_MAX} types in each other")

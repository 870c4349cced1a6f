"""Avro types as a tree, the Arrow type of each, and how large a schema may be.

    null boolean int long float double bytes string    the same
    fixed        fixed-size binary; of more than 256 bytes binary
    enum         string
    array        list                       map        map with string keys
    record       struct                     union      of null and one other: that one, nullable
    union        of int and long: long; of float and double: double; any other: a struct of
                 member0, member1, ... of which one is filled, as in Spark's Avro reader
    date, time-*, timestamp-*, local-timestamp-*, decimal of 76 digits at most: Arrow's of the name

A logical type that is unknown or does not fit its base type is ignored, as Avro demands. A
recursive record has no Arrow type.

A short text can be a very large schema, as of records each of which has the one before it twice.
Nothing could read, skip or show such values, so `check_size` refuses it.
"""

from dataclasses import dataclass, field
from typing import Any, Final, Literal

import pyarrow as pa

from storage_core.avro.schema_text import NESTING_MAX
from storage_core.errors import InvalidRequestError

PrimitiveKind = Literal["null", "boolean", "int", "long", "float", "double", "bytes", "string"]

_ARROW_TYPES: Final[dict[str, pa.DataType]] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_TIME_TYPES: Final[dict[tuple[str, str], pa.DataType]] = {
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
# Two number types that one union has as the wider of both.
_WIDENED: Final[dict[frozenset[str], PrimitiveKind]] = {
    frozenset({"int", "long"}): "long",
    frozenset({"float", "double"}): "double",
}
# The exclusive end of the values of a time of day.
TIMES_OF_DAY: Final = {"time-millis": 86_400_000, "time-micros": 86_400_000_000}
# The size in bytes of types of fixed width.
WIDTHS: Final[dict[str, int]] = {"null": 0, "boolean": 1, "float": 4, "double": 8}
# A wider fixed is binary: in fixed-size binary nulls take the width, too.
FIXED_SIZE_BINARY_MAX: Final = 256
DECIMAL_DIGITS_MAX: Final = 76
_TYPES_MAX: Final = 100_000
_NARROW_DIGITS_MAX: Final = 38


@dataclass(frozen=True, slots=True)
class Decimal:
    """The logical type `decimal`."""

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
    """A primitive type; `logical` is a logical type that Arrow has a type for."""

    kind: PrimitiveKind
    logical: str | None = None
    decimal: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Fixed:
    """A fixed."""

    name: str
    aliases: frozenset[str]
    size: int
    decimal: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Enum:
    """An enum."""

    name: str
    aliases: frozenset[str]
    symbols: tuple[str, ...]
    default: str | None


@dataclass(frozen=True, slots=True)
class Array:
    """An array."""

    items: "AvroType"


@dataclass(frozen=True, slots=True)
class Map:
    """A map; its keys are strings."""

    values: "AvroType"


@dataclass(frozen=True, slots=True)
class Union:
    """A union."""

    branches: tuple["AvroType", ...]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record; `default` is JSON, valid if `has_default`."""

    name: str
    aliases: frozenset[str]
    type: "AvroType"
    has_default: bool
    default: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """A record; its fields are added once, as they may refer to it."""

    name: str
    aliases: frozenset[str]
    fields: list[Field] = field(default_factory=list)


AvroType = Primitive | Fixed | Enum | Array | Map | Union | Record
Named = Fixed | Enum | Record

NULL: Final = Primitive("null")


def members(union: Union) -> tuple[AvroType, ...]:
    """Return the branches of a union other than null."""
    return tuple(branch for branch in union.branches if branch != NULL)


def widened(union: Union) -> Primitive | None:
    """Return the wider number type of a union of int and long, or float and double; else None."""
    others = members(union)
    kinds = {
        branch.kind for branch in others if isinstance(branch, Primitive) and branch.logical is None
    }
    if len(others) != len(kinds) or (kind := _WIDENED.get(frozenset(kinds))) is None:
        return None
    return Primitive(kind)


def arrow_type(avro_type: AvroType) -> pa.DataType:
    """Return the Arrow type of an Avro type.

    Raises:
        InvalidRequestError: It is recursive.
    """
    return _arrow_type(avro_type, ())


def _arrow_type(avro_type: AvroType, enclosing: tuple[Record, ...]) -> pa.DataType:
    if isinstance(avro_type, Union):
        return _union(avro_type, enclosing)
    if isinstance(avro_type, Primitive | Fixed) and avro_type.decimal is not None:
        return avro_type.decimal.arrow
    arrow: pa.DataType = pa.string()
    if isinstance(avro_type, Primitive):
        arrow = _TIME_TYPES.get(
            (avro_type.kind, avro_type.logical or ""), _ARROW_TYPES[avro_type.kind]
        )
    elif isinstance(avro_type, Fixed):
        arrow = pa.binary(avro_type.size if avro_type.size <= FIXED_SIZE_BINARY_MAX else -1)
    elif isinstance(avro_type, Array):
        arrow = pa.list_(_arrow_type(avro_type.items, enclosing))
    elif isinstance(avro_type, Map):
        arrow = pa.map_(pa.string(), _arrow_type(avro_type.values, enclosing))
    elif isinstance(avro_type, Record):
        arrow = _struct(avro_type, enclosing)
    return arrow


def _union(avro_type: Union, enclosing: tuple[Record, ...]) -> pa.DataType:
    others = members(avro_type)
    if not others:
        return pa.null()
    member = others[0] if len(others) == 1 else widened(avro_type)
    if member is not None:
        return _arrow_type(member, enclosing)
    return pa.struct(
        [
            pa.field(f"member{index}", _arrow_type(branch, enclosing))
            for index, branch in enumerate(others)
        ]
    )


def _struct(avro_type: Record, enclosing: tuple[Record, ...]) -> pa.DataType:
    if any(avro_type is record for record in enclosing):
        message = (
            f"record {avro_type.name} is recursive, and no column can be: leave it out of `columns`"
        )
        raise InvalidRequestError(message)
    return pa.struct(
        [
            pa.field(child.name, _arrow_type(child.type, (*enclosing, avro_type)))
            for child in avro_type.fields
        ]
    )


def logical_of(kind: PrimitiveKind, logical: str) -> str | None:
    """Return a logical type if Arrow has a type for it on this primitive type; else None."""
    return logical if (kind, logical) in _TIME_TYPES else None


def check_size(root: AvroType) -> None:
    """Refuse a schema of too many types, or nested too deep.

    Raises:
        InvalidRequestError: It is too large.
    """
    _TypeSize().size_of(root, 0)


class _TypeSize:
    """Depth and number of types of each record, computed once."""

    def __init__(self) -> None:
        self._cached: dict[int, tuple[int, int]] = {}

    def size_of(self, avro_type: AvroType, nesting: int) -> tuple[int, int]:
        """Return the depth below a type, and the number of types it is made of."""
        size = self._cached.get(id(avro_type))
        if size is None:
            if nesting > NESTING_MAX:
                raise _too_deep()
            # For a recursive type, inside itself.
            self._cached[id(avro_type)] = 0, 1
            sizes = [self.size_of(child, nesting + 1) for child in _children(avro_type)]
            depth = max((depth for depth, _ in sizes), default=-1) + 1
            size = self._cached[id(avro_type)] = depth, 1 + sum(count for _, count in sizes)
        depth, count = size
        if nesting + depth > NESTING_MAX:
            raise _too_deep()
        if count > _TYPES_MAX:
            message = f"a schema may have at most {_TYPES_MAX} types, each counted where it is used"
            raise InvalidRequestError(message)
        return size


def _children(avro_type: AvroType) -> list[AvroType]:
    if isinstance(avro_type, Record):
        return [child.type for child in avro_type.fields]
    if isinstance(avro_type, Union):
        return list(avro_type.branches)
    if isinstance(avro_type, Array):
        return [avro_type.items]
    return [avro_type.values] if isinstance(avro_type, Map) else []


def _too_deep() -> InvalidRequestError:
    return InvalidRequestError(f"a schema may be nested at most {NESTING_MAX} deep")

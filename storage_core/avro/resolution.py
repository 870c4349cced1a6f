"""Schema resolution: a plan to read what a writer's schema wrote as a reader's schema.

A plan is made once for a pair of schemas. A union branch or enum symbol that the reader's schema
lacks is a fault of the rows that have it. Avro's rules ignore logical types; here two different
logical types do not resolve, since milliseconds would be read as microseconds.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from storage_core.avro.avro_types import (
    NULL,
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Union,
    arrow_type,
    members,
    widened,
)
from storage_core.avro.defaults import default_value
from storage_core.avro.schema import VALUE, AvroSchema
from storage_core.errors import InvalidRequestError

_PROMOTED: Final = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
}


@dataclass(frozen=True, slots=True)
class PrimitivePlan:
    """A primitive type, read as itself or as one that it is promoted to."""

    writer: Primitive
    reader: Primitive


@dataclass(frozen=True, slots=True)
class FixedPlan:
    """A fixed."""

    writer: Fixed
    reader: Fixed


@dataclass(frozen=True, slots=True)
class EnumPlan:
    """An enum: the reader's symbol for each of the writer's; None is a fault."""

    writer: tuple[str, ...]
    reader: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class ItemsPlan:
    """An array or map."""

    writer: Array | Map
    plan: "Plan"


@dataclass(frozen=True, slots=True)
class FieldStep:
    """A field of the writer's: skipped, or read into a column."""

    writer: AvroType
    column: int | None
    plan: "Plan | None"


@dataclass(frozen=True, slots=True)
class RecordPlan:
    """A record.

    Attributes:
        steps: The writer's fields in order.
        names: The columns' names.
        defaults: The value of each column that no step fills.
        types: The columns' Arrow types.
    """

    steps: tuple[FieldStep, ...]
    names: tuple[str, ...]
    defaults: dict[int, Any]
    types: tuple[pa.DataType, ...]


@dataclass(frozen=True, slots=True)
class BranchPlan:
    """A branch of the writer's union.

    Attributes:
        plan: How it is read; None for null, or where the reader has no such branch.
        member: The reader's branch; None is null.
        is_fault: Whether the reader has no such branch.
        name: The name of its type.
    """

    plan: "Plan | None"
    member: int | None
    is_fault: bool
    name: str


@dataclass(frozen=True, slots=True)
class UnionPlan:
    """A union of the writer's or the reader's.

    Attributes:
        is_union: Whether the writer has a union, so that bodies have a branch number.
        branches: The writer's.
        type: The Arrow type: of the one member, or a struct of all of them.
        members: How many members the struct has; None where there is no struct.
    """

    is_union: bool
    branches: tuple[BranchPlan, ...]
    type: pa.DataType
    members: int | None


Plan = PrimitivePlan | FixedPlan | EnumPlan | ItemsPlan | RecordPlan | UnionPlan


class _MismatchError(Exception):
    """Two types that do not resolve."""

    @classmethod
    def of(cls, writer: AvroType, reader: AvroType) -> "_MismatchError":
        """Return the error for two types."""
        return cls(f"{_name(writer)} is not {_name(reader)}")


def resolve(writer: AvroSchema, reader: AvroSchema, columns: Iterable[str] | None) -> RecordPlan:
    """Return the plan to read bodies of one schema as columns of another.

    Raises:
        InvalidRequestError: The schemas do not resolve, or a column is not there.
    """
    requested = reader.select(columns)
    try:
        if isinstance(writer.root, Record) and isinstance(reader.root, Record):
            return _fields(writer.root, requested, reader.root.fields)
        plan = _plan(writer.root, reader.root)
    except _MismatchError as error:
        message = (
            f"bodies of {writer.full_name} cannot be read as {reader.full_name}: {error}; "
            "give a compatible reader schema"
        )
        raise InvalidRequestError(message) from error
    step = FieldStep(writer.root, 0 if requested else None, plan if requested else None)
    return RecordPlan(
        (step,), (VALUE,)[: len(requested)], {}, (arrow_type(reader.root),)[: len(requested)]
    )


def _plan(writer: AvroType, reader: AvroType) -> Plan:
    if isinstance(writer, Union) or isinstance(reader, Union):
        return _choice(writer, reader)
    if isinstance(writer, Primitive) and isinstance(reader, Primitive):
        return _primitive(writer, reader)
    plan: Plan | None = None
    if isinstance(writer, Array) and isinstance(reader, Array):
        plan = ItemsPlan(writer, _plan(writer.items, reader.items))
    elif isinstance(writer, Map) and isinstance(reader, Map):
        plan = ItemsPlan(writer, _plan(writer.values, reader.values))
    elif isinstance(writer, Record) and isinstance(reader, Record):
        # A recursive record is refused here, before its fields are resolved.
        arrow_type(reader)
        plan = _fields(writer, reader.fields, reader.fields)
    elif isinstance(writer, Enum) and isinstance(reader, Enum):
        symbols = frozenset(reader.symbols)
        read = tuple(name if name in symbols else reader.default for name in writer.symbols)
        plan = EnumPlan(writer.symbols, read)
    elif isinstance(writer, Fixed) and isinstance(reader, Fixed):
        is_other = writer.decimal and reader.decimal and writer.decimal != reader.decimal
        plan = None if is_other or writer.size != reader.size else FixedPlan(writer, reader)
    if plan is None or (
        isinstance(writer, Enum | Fixed)
        and isinstance(reader, Enum | Fixed)
        and not _is_named(writer, reader)
    ):
        raise _MismatchError.of(writer, reader)
    return plan


def _primitive(writer: Primitive, reader: Primitive) -> PrimitivePlan:
    if writer.kind != reader.kind and (writer.kind, reader.kind) not in _PROMOTED:
        raise _MismatchError.of(writer, reader)
    is_other_logical = writer.logical and reader.logical and writer.logical != reader.logical
    is_other_decimal = writer.decimal and reader.decimal and writer.decimal != reader.decimal
    if is_other_logical or is_other_decimal:
        raise _MismatchError.of(writer, reader)
    return PrimitivePlan(writer, reader)


def _is_named(writer: Named, reader: Named) -> bool:
    """Whether the reader's type has the writer's name or an alias of it, without namespaces."""
    names = {_short(name) for name in (reader.name, *reader.aliases)}
    return _short(writer.name) in names


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _written_names(writer: Record, reader: list[Field]) -> dict[str, str]:
    """Return for each of the reader's fields the writer's field that fills it.

    The same name goes before an alias; each of the writer's fields fills one of the reader's.
    """
    left = {field.name for field in writer.fields}
    names = {field.name: field.name for field in reader if field.name in left}
    left -= names.keys()
    for field in reader:
        name = next((name for name in sorted(field.aliases) if name in left), None)
        if field.name not in names and name is not None:
            names[field.name] = name
            left.remove(name)
    return names


def _fields(writer: Record, requested: list[Field], reader: list[Field]) -> RecordPlan:
    """Return the plan of some of the reader's fields; `reader` has all of them."""
    theirs = {field.name: field for field in writer.fields}
    written = _written_names(writer, reader)
    columns: dict[str, tuple[int, Plan]] = {}
    defaults: dict[int, Any] = {}
    for index, field in enumerate(requested):
        name = written.get(field.name)
        if name is not None:
            try:
                columns[name] = index, _plan(theirs[name].type, field.type)
            except _MismatchError as error:
                message = f"field {field.name}: {error}"
                raise _MismatchError(message) from error
        elif field.has_default:
            defaults[index] = default_value(field.type, field.default)
        else:
            message = f"field {field.name} is not in the writer's schema, and has no default"
            raise _MismatchError(message)
    steps = tuple(
        FieldStep(field.type, *columns[field.name])
        if field.name in columns
        else FieldStep(field.type, None, None)
        for field in writer.fields
    )
    types = tuple(arrow_type(field.type) for field in requested)
    return RecordPlan(steps, tuple(field.name for field in requested), defaults, types)


def _choice(writer: AvroType, reader: AvroType) -> UnionPlan:
    theirs = writer.branches if isinstance(writer, Union) else (writer,)
    reader_members = members(reader) if isinstance(reader, Union) else (reader,)
    wide = widened(reader) if isinstance(reader, Union) else None
    branches = tuple(_branch(branch, reader_members, reader, wide) for branch in theirs)
    if all(branch.is_fault for branch in branches):
        raise _MismatchError.of(writer, reader)
    is_one = wide is not None or len(reader_members) <= 1
    return UnionPlan(
        isinstance(writer, Union),
        branches,
        arrow_type(reader),
        None if is_one else len(reader_members),
    )


def _branch(
    writer: AvroType, reader_members: tuple[AvroType, ...], reader: AvroType, wide: Primitive | None
) -> BranchPlan:
    name = _name(writer)
    if writer == NULL:
        has_null = reader == NULL or (isinstance(reader, Union) and NULL in reader.branches)
        return BranchPlan(None, None, not has_null, name)
    # By full name first, then by type, then by promotion.
    for fits in (_has_its_name, _is_same, _is_any):
        for index, member in enumerate(reader_members):
            if not fits(writer, member):
                continue
            try:
                plan = _plan(writer, member)
                if wide is not None:
                    plan = _plan(writer, wide)
            except _MismatchError:
                continue
            return BranchPlan(plan, index, is_fault=False, name=name)
    return BranchPlan(None, None, is_fault=True, name=name)


def _has_its_name(writer: AvroType, reader: AvroType) -> bool:
    return isinstance(writer, Named) and isinstance(reader, Named) and writer.name == reader.name


def _is_any(_writer: AvroType, _reader: AvroType) -> bool:
    return True


def _is_same(writer: AvroType, reader: AvroType) -> bool:
    if isinstance(writer, Primitive) and isinstance(reader, Primitive):
        return writer.kind == reader.kind
    if isinstance(writer, Named) and isinstance(reader, Named):
        return type(writer) is type(reader) and _is_named(writer, reader)
    return type(writer) is type(reader)


def _name(avro_type: AvroType) -> str:
    if isinstance(avro_type, Primitive):
        of = f" of {avro_type.decimal.precision} digits" if avro_type.decimal is not None else ""
        return avro_type.logical or (f"decimal{of}" if of else avro_type.kind)
    if isinstance(avro_type, Named):
        return avro_type.name
    if isinstance(avro_type, Union):
        return f"a union of {', '.join(_name(branch) for branch in avro_type.branches)}"
    return "array" if isinstance(avro_type, Array) else "map"

"""How what a writer's schema says becomes what a reader's schema asks for: Avro's resolution.

It is found once for two schemas, as a plan; that a union's branch or an enum's symbol has no place
in the reader's schema shows with the rows, and makes them faults. Logical types take no part in
Avro's resolution: who reads a timestamp of milliseconds as one of microseconds is refused here,
since the number would be taken for what it is not.
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
class Plain:
    """A type without parts, shown as another that holds it."""

    kind: Primitive
    shown: Primitive


@dataclass(frozen=True, slots=True)
class Sized:
    """So many bytes."""

    kind: Fixed
    shown: Fixed


@dataclass(frozen=True, slots=True)
class Symbols:
    """An enum: what is shown for each of the writer's symbols; None is a fault."""

    names: tuple[str, ...]
    shown: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Items:
    """An array or map."""

    kind: Array | Map
    plan: "Plan"


@dataclass(frozen=True, slots=True)
class Step:
    """A field of the writer's: passed over, or read into a column."""

    kind: AvroType
    column: int | None
    plan: "Plan | None"


@dataclass(frozen=True, slots=True)
class Fields:
    """A record.

    Attributes:
        steps: The writer's fields in order.
        names: The columns.
        defaults: What a column holds that no step fills.
        types: The columns' types.
    """

    steps: tuple[Step, ...]
    names: tuple[str, ...]
    defaults: dict[int, Any]
    types: tuple[pa.DataType, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch of the writer's.

    Attributes:
        plan: How it is read; None for a null, or where it has no place.
        member: Where it is shown; None shows null.
        is_fault: It has no place in what the reader asks for.
        name: What it is.
    """

    plan: "Plan | None"
    member: int | None
    is_fault: bool
    name: str


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several types, of the writer's or the reader's.

    Attributes:
        is_union: Whether the body says which branch it is.
        branches: The writer's.
        type: What is shown: the one type of all, or a struct of members.
        members: How many; None where all are shown as one.
    """

    is_union: bool
    branches: tuple[Branch, ...]
    type: pa.DataType
    members: int | None


Plan = Plain | Sized | Symbols | Items | Fields | Choice


class _MismatchError(Exception):
    """Two types that do not resolve."""

    @classmethod
    def of(cls, writer: AvroType, reader: AvroType) -> "_MismatchError":
        """Return that one is not the other."""
        return cls(f"{_name(writer)} is no {_name(reader)}")


def plan_of(writer: AvroSchema, reader: AvroSchema, columns: Iterable[str] | None) -> Fields:
    """Return how bodies of one schema are read as columns of another.

    Raises:
        InvalidRequestError: The schemas do not resolve, or a column is not there.
    """
    requested = reader.chosen(columns)
    try:
        if isinstance(writer.root, Record) and isinstance(reader.root, Record):
            return _fields(writer.root, requested, reader.root.fields)
        plan = _plan(writer.root, reader.root)
    except _MismatchError as error:
        message = (
            f"what {writer.full_name} writes cannot be read as {reader.full_name}: {error}; "
            "give a reader's schema that is compatible"
        )
        raise InvalidRequestError(message) from error
    step = Step(writer.root, 0 if requested else None, plan if requested else None)
    return Fields(
        (step,), (VALUE,)[: len(requested)], {}, (arrow_type(reader.root),)[: len(requested)]
    )


def _plan(writer: AvroType, reader: AvroType) -> Plan:
    if isinstance(writer, Union) or isinstance(reader, Union):
        return _choice(writer, reader)
    if isinstance(writer, Primitive) and isinstance(reader, Primitive):
        return _plain(writer, reader)
    plan: Plan | None = None
    if isinstance(writer, Array) and isinstance(reader, Array):
        plan = Items(writer, _plan(writer.items, reader.items))
    elif isinstance(writer, Map) and isinstance(reader, Map):
        plan = Items(writer, _plan(writer.values, reader.values))
    elif isinstance(writer, Record) and isinstance(reader, Record):
        # One that holds itself ends here, before its fields are looked into.
        arrow_type(reader)
        plan = _fields(writer, reader.fields, reader.fields)
    elif isinstance(writer, Enum) and isinstance(reader, Enum):
        symbols = frozenset(reader.symbols)
        symbols_read = (each if each in symbols else reader.default for each in writer.symbols)
        plan = Symbols(writer.symbols, tuple(symbols_read))
    elif isinstance(writer, Fixed) and isinstance(reader, Fixed):
        is_other = writer.decimal and reader.decimal and writer.decimal != reader.decimal
        plan = None if is_other or writer.size != reader.size else Sized(writer, reader)
    if plan is None or (
        isinstance(writer, Enum | Fixed)
        and isinstance(reader, Enum | Fixed)
        and not _is_named(writer, reader)
    ):
        raise _MismatchError.of(writer, reader)
    return plan


def _plain(writer: Primitive, reader: Primitive) -> Plain:
    if writer.kind != reader.kind and (writer.kind, reader.kind) not in _PROMOTED:
        raise _MismatchError.of(writer, reader)
    both = writer.logical and reader.logical, writer.decimal and reader.decimal
    if (both[0] and writer.logical != reader.logical) or (
        both[1] and writer.decimal != reader.decimal
    ):
        raise _MismatchError.of(writer, reader)
    return Plain(writer, reader)


def _is_named(writer: Named, reader: Named) -> bool:
    """Whether a reader's type is meant by a name, which counts without its namespace."""
    names = {_short(one) for one in (reader.name, *reader.aliases)}
    return _short(writer.name) in names


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _written_names(writer: Record, reader: list[Field]) -> dict[str, str]:
    """Return by which of the writer's fields each of the reader's is filled, each by its own.

    One of the same name stands before one that has it among its aliases.
    """
    left = {field.name for field in writer.fields}
    names = {field.name: field.name for field in reader if field.name in left}
    left -= names.keys()
    for field in reader:
        name = next((one for one in sorted(field.aliases) if one in left), None)
        if field.name not in names and name is not None:
            names[field.name] = name
            left.remove(name)
    return names


def _fields(writer: Record, asked: list[Field], reader: list[Field]) -> Fields:
    """Return how some of the reader's fields are read, all of which are `reader`."""
    theirs = {field.name: field for field in writer.fields}
    written = _written_names(writer, reader)
    columns: dict[str, tuple[int, Plan]] = {}
    defaults: dict[int, Any] = {}
    for index, field in enumerate(asked):
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
            message = f"field {field.name} is not written, and has no default"
            raise _MismatchError(message)
    steps = tuple(
        Step(field.type, *columns[field.name])
        if field.name in columns
        else Step(field.type, None, None)
        for field in writer.fields
    )
    types = tuple(arrow_type(field.type) for field in asked)
    return Fields(steps, tuple(field.name for field in asked), defaults, types)


def _choice(writer: AvroType, reader: AvroType) -> Choice:
    theirs = writer.branches if isinstance(writer, Union) else (writer,)
    reader_members = members(reader) if isinstance(reader, Union) else (reader,)
    wide = widened(reader) if isinstance(reader, Union) else None
    branches = tuple(_branch(each, reader_members, reader, wide) for each in theirs)
    if all(each.is_fault for each in branches):
        raise _MismatchError.of(writer, reader)
    is_one = wide is not None or len(reader_members) <= 1
    return Choice(
        isinstance(writer, Union),
        branches,
        arrow_type(reader),
        None if is_one else len(reader_members),
    )


def _branch(
    writer: AvroType, shown: tuple[AvroType, ...], reader: AvroType, wide: Primitive | None
) -> Branch:
    name = _name(writer)
    if writer == NULL:
        has_null = reader == NULL or (isinstance(reader, Union) and NULL in reader.branches)
        return Branch(None, None, not has_null, name)
    # The one of its full name first, then the same type, then one that it is promoted to.
    for fits in (_has_its_name, _is_same, _is_any):
        for index, member in enumerate(shown):
            if not fits(writer, member):
                continue
            try:
                plan = _plan(writer, member)
                if wide is not None:
                    plan = _plan(writer, wide)
            except _MismatchError:
                continue
            return Branch(plan, index, is_fault=False, name=name)
    return Branch(None, None, is_fault=True, name=name)


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


def _name(what: AvroType) -> str:
    if isinstance(what, Primitive):
        of = f" of {what.decimal.precision} digits" if what.decimal is not None else ""
        return what.logical or (f"decimal{of}" if of else what.kind)
    if isinstance(what, Named):
        return what.name
    if isinstance(what, Union):
        return f"a union of {', '.join(_name(each) for each in what.branches)}"
    return "array" if isinstance(what, Array) else "map"

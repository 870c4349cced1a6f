"""A schema: its text, what tells it from others, and its types as a tree.

fastavro judges whether a text is a schema and makes its canonical form; what is here makes one text
of a schema and those it refers to, and the tree that bodies are read by.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import xxhash
from fastavro.schema import (
    SchemaParseException,
    UnknownType,
    fingerprint,
    parse_schema,
    to_parsing_canonical_form,
)

from storage_core.avro.avro_types import (
    DECIMAL_DIGITS_MAX,
    Array,
    AvroType,
    Decimal,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Primitive,
    PrimitiveKind,
    Record,
    Union,
    arrow_type,
    check_extent,
    logical_of,
)
from storage_core.avro.names import check_names
from storage_core.avro.schema_text import (
    NAMED,
    NESTING_MAX,
    PRIMITIVES,
    TEXT_MAX,
    dotted,
    full_name,
    stands_alone,
    undotted_error,
    undotted_form,
)
from storage_core.errors import InvalidRequestError
from storage_core.format.schema_entry import SchemaEntry
from storage_core.format.schema_order import in_order_of_all

_FIXED_BYTES_MAX: Final = 2**31 - 1
# What fastavro raises of a text that is none; the overflow is of a default.
_UNPARSED: Final = (
    SchemaParseException,
    ValueError,
    TypeError,
    AttributeError,
    KeyError,
    OverflowError,
)
# The field's name of a schema that is no record.
VALUE: Final = "value"


@dataclass(frozen=True, slots=True, eq=False)
class AvroSchema:
    """A schema that stands alone.

    Attributes:
        text: JSON; what it refers to is in it.
        fingerprint: CRC-64-AVRO of the parsing canonical form, 8 bytes as Avro writes them. Schemas
            that differ in defaults, aliases or logical types only have the same; see `identity`.
        full_name: The name with its namespace; of a schema without name, its kind.
        root: Its type.
    """

    text: str
    fingerprint: bytes
    full_name: str
    root: AvroType

    @classmethod
    def parse(cls, text: str, references: Iterable[str] = ()) -> "AvroSchema":
        """Read a schema's text, with the texts of the schemas that it refers to.

        Raises:
            InvalidRequestError: The text is no schema, has a name that Avro forbids or one twice,
                refers to one that is not given, or is too long with those that it refers to.
        """
        alone = stands_alone(text, references)
        check_names(alone)
        return cls._of(alone)

    @classmethod
    def stored(cls, text: str) -> "AvroSchema":
        """Read the text of a schema that a store has rows of, whatever its names are.

        Raises:
            InvalidRequestError: The text is no schema.
        """
        return cls._of(stands_alone(text, ()))

    @classmethod
    def _of(cls, alone: Any) -> "AvroSchema":  # noqa: ANN401 - JSON
        whole = json.dumps(alone, separators=(",", ":"))
        if len(whole) > TEXT_MAX:
            # It could not be read again by itself.
            message = (
                f"a schema of {len(whole)} characters, with those that it refers to and as ASCII; "
                f"{TEXT_MAX} are the most"
            )
            raise InvalidRequestError(message)
        try:
            judged = dotted(json.loads(whole, object_hook=_without_logical))
            made = to_parsing_canonical_form(parse_schema(judged, _write_hint=False))
            canonical = undotted_form(made)
            root = _Tree().type_of(alone, 0)
            check_extent(root)
            mark = bytes.fromhex(fingerprint(canonical, "CRC-64-AVRO"))
        except UnknownType as error:
            # NOTE: fastavro (1.13) has the whole type here where it is no bare name.
            kind = error.name.get("type") if isinstance(error.name, dict) else error.name
            name = str(kind).lstrip(".")
            message = f"the schema refers to {name}, which is not given; add it as reference"
            raise InvalidRequestError(message) from error
        except InvalidRequestError:
            raise
        except _UNPARSED as error:
            message = f"this is no Avro schema: {undotted_error(error)}"
            raise InvalidRequestError(message) from error
        name = root.name if isinstance(root, Named) else _kind(alone)
        return cls(whole, mark, name, root)

    @property
    def identity(self) -> bytes:
        """What tells it from any other schema: its fingerprint, and the xxh3-64 of its text."""
        return self.fingerprint + xxhash.xxh3_64_digest(self.text.encode())

    @property
    def is_record(self) -> bool:
        """Whether it has fields of its own."""
        return isinstance(self.root, Record)

    @property
    def fields(self) -> list[Field]:
        """The columns' fields; of a schema that is no record one, `value`."""
        if isinstance(self.root, Record):
            return self.root.fields
        return [Field(VALUE, frozenset(), self.root, has_default=False)]

    def arrow_schema(self, columns: Iterable[str] | None = None) -> pa.Schema:
        """Return names and Arrow types of its fields, or of some of them in the given order.

        Raises:
            InvalidRequestError: A column is none of its fields, or has no Arrow type.
        """
        return pa.schema(
            [pa.field(each.name, arrow_type(each.type)) for each in self.chosen(columns)]
        )

    def chosen(self, columns: Iterable[str] | None) -> list[Field]:
        """Return the fields of these names, each once.

        Raises:
            InvalidRequestError: There is none of a name.
        """
        by_name = {each.name: each for each in self.fields}
        names = list(by_name) if columns is None else list(dict.fromkeys(columns))
        if unknown := [name for name in names if name not in by_name]:
            message = (
                f"{self.full_name} has no field {', '.join(unknown)}; it has {', '.join(by_name)}"
            )
            raise InvalidRequestError(message)
        return [by_name[name] for name in names]


def _without_logical(given: dict[str, Any]) -> dict[str, Any]:
    """Return a type without its logical one: one that does not fit is none, and no error."""
    return {name: value for name, value in given.items() if name != "logicalType"}


def _kind(parsed: Any) -> str:  # noqa: ANN401 - JSON
    return (
        "union"
        if isinstance(parsed, list)
        else str(parsed["type"] if isinstance(parsed, dict) else parsed)
    )


class _Tree:
    """Makes the tree of a schema that stands alone: all names full, each defined once."""

    def __init__(self) -> None:
        self._named: dict[str, Named] = {}

    def type_of(self, parsed: Any, nesting: int) -> AvroType:  # noqa: ANN401 - JSON
        if nesting > NESTING_MAX:
            message = f"a schema of more than {NESTING_MAX} types in each other"
            raise InvalidRequestError(message)
        if isinstance(parsed, list):
            if not parsed:
                message = "this is no Avro schema: a union without branches"
                raise InvalidRequestError(message)
            return Union(tuple(self.type_of(one, nesting + 1) for one in parsed))
        document = {"type": parsed} if isinstance(parsed, str) else parsed
        kind = document["type"]
        if isinstance(kind, dict | list):
            avro_type = self.type_of(kind, nesting + 1)
        elif kind == "array":
            avro_type = Array(self.type_of(document["items"], nesting + 1))
        elif kind == "map":
            avro_type = Map(self.type_of(document["values"], nesting + 1))
        elif kind in NAMED:
            avro_type = self._named_type(document, nesting)
        else:
            avro_type = self._named.get(kind) or _logical(_primitive(kind), document)
        return avro_type

    def _named_type(self, parsed: Mapping[str, Any], nesting: int) -> Named:
        name, kind = parsed["name"], parsed["type"]
        inside = name.rpartition(".")[0]
        aliases = frozenset(full_name(one, inside) for one in parsed.get("aliases", ()))
        if kind == "enum":
            if not parsed["symbols"]:
                message = f"this is no Avro schema: enum {name} without symbols"
                raise InvalidRequestError(message)
            made: Named = Enum(name, aliases, tuple(parsed["symbols"]), parsed.get("default"))
        elif kind == "fixed":
            size = _fixed_size(name, parsed.get("size"))
            made = Fixed(name, aliases, size, _decimal(parsed, _digits_of(size)))
        else:
            made = Record(name, aliases)
            self._named[name] = made
            made.fields.extend(self._field(each, nesting) for each in parsed["fields"])
        self._named[name] = made
        return made

    def _field(self, parsed: Mapping[str, Any], nesting: int) -> Field:
        return Field(
            parsed["name"],
            frozenset(parsed.get("aliases", ())),
            self.type_of(parsed["type"], nesting + 1),
            "default" in parsed,
            parsed.get("default"),
        )


def _fixed_size(name: str, given: object) -> int:
    if type(given) is not int or not 0 <= given <= _FIXED_BYTES_MAX:
        message = (
            f"this is no Avro schema: the size of fixed {name} is {given!r}, and no integer from 0 "
            f"to {_FIXED_BYTES_MAX}"
        )
        raise InvalidRequestError(message)
    return given


def _primitive(kind: str) -> PrimitiveKind:
    for name in PRIMITIVES:
        if kind == name:
            return name
    message = f"the schema refers to {kind}, which is not given; add it as reference"
    raise InvalidRequestError(message)


def _logical(kind: PrimitiveKind, parsed: Mapping[str, Any]) -> Primitive:
    logical = parsed.get("logicalType")
    if kind == "bytes":
        return Primitive(kind, decimal=_decimal(parsed, DECIMAL_DIGITS_MAX))
    return Primitive(kind, logical_of(kind, logical) if isinstance(logical, str) else None)


def _decimal(parsed: Mapping[str, Any], digits_max: int) -> Decimal | None:
    if parsed.get("logicalType") != "decimal":
        return None
    precision, scale = parsed.get("precision"), parsed.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int):
        return None
    fits = 1 <= precision <= min(digits_max, DECIMAL_DIGITS_MAX) and 0 <= scale <= precision
    return Decimal(precision, scale) if fits else None


def _digits_of(size: int) -> int:
    """Return how many digits any number of so many bytes has."""
    return len(str(2 ** (8 * min(size, DECIMAL_DIGITS_MAX) - 1) - 1)) - 1 if size else 0


def newest_schema(*orders: Iterable[SchemaEntry]) -> SchemaEntry | None:
    """Return the schema with the highest id in its registry, of one id the last; None if none.

    A registry counts its ids up. Those of one id, as of no registry, are told apart by the order
    in which they came to the shards (`schema_order.py`).

    Args:
        orders: The schemas of a stream, or of each of several, as `schemas()` returns them.
    """
    newest: SchemaEntry | None = None
    for entry in in_order_of_all(orders):
        if newest is None or entry.registry_id >= newest.registry_id:
            newest = entry
    return newest

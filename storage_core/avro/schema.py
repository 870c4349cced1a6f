"""An Avro schema: its text, fingerprint and identity, and its types as a tree.

fastavro validates the text and makes the parsing canonical form. Here a schema and those it refers
to become one text, and the tree that bodies are decoded by.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
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
    check_size,
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
    inline_references,
    undotted_error,
    undotted_form,
)
from storage_core.errors import InvalidRequestError
from storage_core.format.schema_entry import SchemaEntry
from storage_core.format.schema_order import in_order_of_all
from storage_core.platform import xxh3

_FIXED_BYTES_MAX: Final = 2**31 - 1
# What fastavro raises of an invalid schema; an overflow of a default.
_UNPARSED: Final = (
    SchemaParseException,
    ValueError,
    TypeError,
    AttributeError,
    KeyError,
    OverflowError,
)
# The name of the only field of a schema that is not a record.
VALUE: Final = "value"
# The attribute of a record that says what its bodies are, where they are not Avro's.
BODIES: Final = "shardlog.bodies"
JSON_BODIES: Final = "json"


@dataclass(frozen=True, slots=True, eq=False)
class AvroSchema:
    """A schema without references.

    Attributes:
        text: JSON, with the schemas that it refers to inlined.
        fingerprint: CRC-64-AVRO of the parsing canonical form, 8 bytes as Avro writes them. Schemas
            that differ in defaults, aliases or logical types only have the same; see `identity`.
        full_name: The name with its namespace; of an unnamed type the type's name.
        root: Its type.
        has_json_bodies: Whether bodies are texts of JSON, which have the fields of the record
            (json_bodies.py): its text has the attribute `shardlog.bodies` then.
    """

    text: str
    fingerprint: bytes
    full_name: str
    root: AvroType
    has_json_bodies: bool = False

    @classmethod
    def parse(cls, text: str, references: Iterable[str] = ()) -> "AvroSchema":
        """Parse a schema, with the texts of the schemas that it refers to.

        Raises:
            InvalidRequestError: The text is not a schema, has an invalid or repeated name, a
                reference that is missing, or is too long with its references.
        """
        return cls._of(inline_references(text, references), are_names_checked=True)

    @classmethod
    def stored(cls, text: str) -> "AvroSchema":
        """Parse a schema that a stream has rows of; its names are not checked.

        Raises:
            InvalidRequestError: The text is not a schema.
        """
        return cls._of(inline_references(text, ()), are_names_checked=False)

    @classmethod
    def _of(cls, document: Any, *, are_names_checked: bool) -> "AvroSchema":  # noqa: ANN401 - JSON
        text = json.dumps(document, separators=(",", ":"))
        if len(text) > TEXT_MAX:
            # It could not be read again by itself.
            message = (
                f"the schema has {len(text)} characters as ASCII, with its references; the maximum "
                f"is {TEXT_MAX}"
            )
            raise InvalidRequestError(message)
        try:
            dotted_document = dotted(json.loads(text, object_hook=_without_logical))
            parsed = parse_schema(dotted_document, _write_hint=False)
            canonical = undotted_form(to_parsing_canonical_form(parsed))
            tree = _TypeTree()
            root = tree.type_of(document, 0)
            check_size(root)
            if are_names_checked:
                tree.check_names()
            crc = bytes.fromhex(fingerprint(canonical, "CRC-64-AVRO"))
        except UnknownType as error:
            # NOTE: fastavro (1.13) has the whole type here where it is not a bare name.
            kind = error.name.get("type") if isinstance(error.name, dict) else error.name
            name = str(kind).lstrip(".")
            message = f"the schema refers to {name}, which is missing; add it as a reference"
            raise InvalidRequestError(message) from error
        except InvalidRequestError:
            raise
        except _UNPARSED as error:
            message = f"not an Avro schema: {undotted_error(error)}"
            raise InvalidRequestError(message) from error
        name = root.name if isinstance(root, Named) else _kind(document)
        has_json_bodies = isinstance(document, dict) and document.get(BODIES) == JSON_BODIES
        return cls(text, crc, name, root, has_json_bodies)

    @property
    def identity(self) -> bytes:
        """Unique for a text: the fingerprint, and the xxh3-64 of the text."""
        return self.fingerprint + xxh3.xxh3_64_digest(self.text.encode())

    @property
    def is_record(self) -> bool:
        """Whether it is a record."""
        return isinstance(self.root, Record)

    @property
    def fields(self) -> list[Field]:
        """The fields of a record; of any other type one field, `value`."""
        if isinstance(self.root, Record):
            return self.root.fields
        return [Field(VALUE, frozenset(), self.root, has_default=False)]

    def arrow_schema(self, columns: Iterable[str] | None = None) -> pa.Schema:
        """Return names and Arrow types of its fields, or of some of them in this order.

        Raises:
            InvalidRequestError: A column is not a field, or has no Arrow type.
        """
        return pa.schema(
            [pa.field(field.name, arrow_type(field.type)) for field in self.select(columns)]
        )

    def select(self, columns: Iterable[str] | None) -> list[Field]:
        """Return the fields of these names, each once.

        Raises:
            InvalidRequestError: A name is not a field.
        """
        by_name = {field.name: field for field in self.fields}
        names = list(by_name) if columns is None else list(dict.fromkeys(columns))
        if unknown := [name for name in names if name not in by_name]:
            message = (
                f"{self.full_name} has no field {', '.join(unknown)}; it has {', '.join(by_name)}"
            )
            raise InvalidRequestError(message)
        return [by_name[name] for name in names]


def _without_logical(document: dict[str, Any]) -> dict[str, Any]:
    """Drop the logical type: an invalid one is ignored, not an error."""
    return {name: value for name, value in document.items() if name != "logicalType"}


def _kind(document: Any) -> str:  # noqa: ANN401 - JSON
    return (
        "union"
        if isinstance(document, list)
        else str(document["type"] if isinstance(document, dict) else document)
    )


class _TypeTree:
    """Builds the tree of a document without references: all names full, each defined once."""

    def __init__(self) -> None:
        self._named: dict[str, Named] = {}

    def check_names(self) -> None:
        """Refuse names that Avro forbids, and repeated fields."""
        for name, named in self._named.items():
            for part in name.split("."):
                check_names([part], f"{{}} in the name {name!r}")
            if isinstance(named, Record):
                check_names([field.name for field in named.fields], f"field {{}} of {name}")

    def type_of(self, document: Any, nesting: int) -> AvroType:  # noqa: ANN401 - JSON
        if nesting > NESTING_MAX:
            message = f"a schema may be nested at most {NESTING_MAX} deep"
            raise InvalidRequestError(message)
        if isinstance(document, list):
            if not document:
                message = "not an Avro schema: a union without branches"
                raise InvalidRequestError(message)
            return Union(tuple(self.type_of(branch, nesting + 1) for branch in document))
        document = {"type": document} if isinstance(document, str) else document
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
            avro_type = self._named.get(kind) or _primitive_type(_primitive(kind), document)
        return avro_type

    def _named_type(self, document: Mapping[str, Any], nesting: int) -> Named:
        name, kind = document["name"], document["type"]
        namespace = name.rpartition(".")[0]
        aliases = frozenset(full_name(name, namespace) for name in document.get("aliases", ()))
        if kind == "enum":
            if not document["symbols"]:
                message = f"not an Avro schema: enum {name} without symbols"
                raise InvalidRequestError(message)
            named_type: Named = Enum(
                name, aliases, tuple(document["symbols"]), document.get("default")
            )
        elif kind == "fixed":
            size = _fixed_size(name, document.get("size"))
            named_type = Fixed(name, aliases, size, _decimal(document, _decimal_digits(size)))
        else:
            named_type = Record(name, aliases)
            self._named[name] = named_type
            named_type.fields.extend(self._field(field, nesting) for field in document["fields"])
        self._named[name] = named_type
        return named_type

    def _field(self, document: Mapping[str, Any], nesting: int) -> Field:
        return Field(
            document["name"],
            frozenset(document.get("aliases", ())),
            self.type_of(document["type"], nesting + 1),
            "default" in document,
            document.get("default"),
        )


def _fixed_size(name: str, size: object) -> int:
    if type(size) is not int or not 0 <= size <= _FIXED_BYTES_MAX:
        message = (
            f"not an Avro schema: the size of fixed {name} must be an integer from 0 to "
            f"{_FIXED_BYTES_MAX}, not {size!r}"
        )
        raise InvalidRequestError(message)
    return size


def _primitive(kind: str) -> PrimitiveKind:
    for name in PRIMITIVES:
        if kind == name:
            return name
    message = f"the schema refers to {kind}, which is missing; add it as a reference"
    raise InvalidRequestError(message)


def _primitive_type(kind: PrimitiveKind, document: Mapping[str, Any]) -> Primitive:
    logical = document.get("logicalType")
    if kind == "bytes":
        return Primitive(kind, decimal=_decimal(document, DECIMAL_DIGITS_MAX))
    return Primitive(kind, logical_of(kind, logical) if isinstance(logical, str) else None)


def _decimal(document: Mapping[str, Any], digits_max: int) -> Decimal | None:
    if document.get("logicalType") != "decimal":
        return None
    precision, scale = document.get("precision"), document.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int):
        return None
    fits = 1 <= precision <= min(digits_max, DECIMAL_DIGITS_MAX) and 0 <= scale <= precision
    return Decimal(precision, scale) if fits else None


def _decimal_digits(size: int) -> int:
    """Return the digits that an integer of so many bytes can always have."""
    return len(str(2 ** (8 * min(size, DECIMAL_DIGITS_MAX) - 1) - 1)) - 1 if size else 0


def newest_schema(*orders: Iterable[SchemaEntry]) -> SchemaEntry | None:
    """Return the schema with the highest registry id, of equal ids the last; None if empty.

    Registry ids increase. Equal ids, as of schemas without a registry, are in the order in which
    the shards got them (`schema_order.py`).

    Args:
        orders: The schemas of one or more streams, as `schemas()` returns them.
    """
    newest: SchemaEntry | None = None
    for entry in in_order_of_all(orders):
        if newest is None or entry.registry_id >= newest.registry_id:
            newest = entry
    return newest

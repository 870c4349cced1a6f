"""JSON Schema as an event type: the fields of the flat objects that a schema describes.

    integer -> int      string -> string      string of format date-time -> timestamp, date -> date,
    number -> float     boolean -> bool           uuid -> uuid; any other format -> string
    enum or const of texts -> enum; string where a text is no name of DEFINE's

A property is nullable if it is not required, or if null is one of its types, however that is
written: `["null", "string"]`, `anyOf` or `oneOf` of null and a type. A `$ref` leads into the same
document. What a schema says besides, as `minimum` or `pattern`, narrows no field: values are judged
as STORE judges those of the type. A schema whose objects no type is like is refused as a whole.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NoReturn
from urllib.parse import unquote

from typed_events.errors import CommandError
from typed_events.types.event_type import (
    ENUM_VALUES_MAX,
    FIELDS_MAX,
    EventType,
    FieldType,
    Kind,
    is_field_name,
)

# Versions of a subject have one name, whatever their titles are: the types of enums have it in
# theirs, and must be the same in each.
_NAME: Final = "value"
_REFS_MAX: Final = 32
_SHOWN_MAX: Final = 60
_NULL: Final = "null"
_KINDS: Final[Mapping[str, Kind]] = {
    "integer": "int",
    "number": "float",
    "string": "string",
    "boolean": "bool",
}
_FORMATS: Final[Mapping[str, Kind]] = {"date-time": "timestamp", "date": "date", "uuid": "uuid"}
# What says of an object that it has fields besides its properties, or others.
_COMPOSED: Final = ("allOf", "anyOf", "oneOf", "if", "not", "patternProperties", "dependentSchemas")
_OF_JSON: Final[Mapping[type, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): _NULL,
    list: "array",
    dict: "object",
}


def type_of_json_schema(text: str) -> EventType:
    """Return the type of the objects that a JSON Schema describes.

    Raises:
        CommandError: It is none, or its objects are not flat ones of the types of fields.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        message = "is no JSON Schema: no JSON"
        raise CommandError(message) from error
    return _Document(document).event_type()


class _Document:
    """One schema, with what its references lead to."""

    def __init__(self, document: Any) -> None:  # noqa: ANN401 - JSON
        self._document = document

    def event_type(self) -> EventType:
        root = self._followed(self._document, "the schema")
        properties = root.get("properties")
        if root.get("type", "object") != "object" or not isinstance(properties, dict):
            _refuse("the schema", "is not of an object with properties")
        for keyword in _COMPOSED:
            if keyword in root:
                _refuse("the schema", f"has {keyword}: the fields of its objects are not listed")
        if not 1 <= len(properties) <= FIELDS_MAX:
            _refuse("the schema", f"has {len(properties):,} properties, not 1 to {FIELDS_MAX:,}")
        required = root.get("required", [])
        required = {name for name in required if isinstance(name, str)}
        for name in sorted(required - properties.keys()):
            _refuse(_property(name), "is required, and nothing says what it is")
        fields = {
            name: self._field(name, written, is_required=name in required)
            for name, written in properties.items()
        }
        return EventType(_NAME, 1, fields)

    def _field(self, name: str, written: object, *, is_required: bool) -> FieldType:
        where = _property(name)
        if not is_field_name(name):
            _refuse(where, "cannot be a field: its name has letters, digits and _")
        described, is_nullable = self._one_of(written, where)
        types, has_null = _types(described, where)
        if len(types) != 1:
            _refuse(where, f"is of {_listed(types)}: a field has one type, or null")
        is_nullable = is_nullable or has_null or not is_required
        kind = _KINDS.get(types[0])
        if kind is None:
            _refuse(where, f"is of type {types[0]}; fields are flat: {', '.join(_KINDS)}")
        if kind != "string":
            return FieldType(kind, is_nullable)
        values = _texts(described)
        if values:
            return FieldType("enum", is_nullable, values)
        written_format = described.get("format")
        if isinstance(written_format, str) and _listed_values(described) is None:
            kind = _FORMATS.get(written_format, kind)
        return FieldType(kind, is_nullable)

    def _one_of(self, written: object, where: str) -> tuple[Mapping[str, Any], bool]:
        """Return the one schema, besides null, that a property's value is of; and whether null."""
        described, is_nullable = self._followed(written, where), False
        for _ in range(_REFS_MAX):
            keyword = next((one for one in ("anyOf", "oneOf", "allOf") if one in described), None)
            if keyword is None:
                break
            members = described[keyword]
            members = members if isinstance(members, list) else []
            followed = [self._followed(one, where) for one in members]
            rest = [one for one in followed if one.get("type") != _NULL]
            if "type" in described or len(rest) != 1 or (keyword == "allOf" and len(followed) != 1):
                _refuse(where, f"has {keyword} of more than a type and null")
            is_nullable = is_nullable or len(rest) < len(followed)
            described = rest[0]
        for keyword in (*_COMPOSED[:5], "$dynamicRef"):
            if keyword in described:
                _refuse(where, f"has {keyword}, which no type of a field is")
        return described, is_nullable

    def _followed(self, written: object, where: str) -> Mapping[str, Any]:
        """Return a schema, or that which its references lead to."""
        followed = 0
        while isinstance(written, dict) and "$ref" in written:
            written = self._referred(written["$ref"], where)
            followed += 1
            if followed > _REFS_MAX:
                _refuse(where, f"has more than {_REFS_MAX} references in a row")
        if not isinstance(written, dict):
            _refuse(where, "has no type")
        return written

    def _referred(self, reference: object, where: str) -> object:
        if not isinstance(reference, str) or not reference.startswith("#/"):
            _refuse(where, f"has a reference to {_excerpt(reference)}, which is elsewhere")
        place: Any = self._document
        for step in reference.removeprefix("#/").split("/"):
            name = unquote(step).replace("~1", "/").replace("~0", "~")
            if not isinstance(place, dict) or name not in place:
                _refuse(where, f"has a reference to {_excerpt(reference)}, which is not there")
            place = place[name]
        return place


def _types(described: Mapping[str, Any], where: str) -> tuple[list[str], bool]:
    """Return the types that values may have besides null, and whether they may be null."""
    written = described.get("type")
    listed = _listed_values(described)
    if isinstance(written, str):
        types = [written]
    elif isinstance(written, list) and all(isinstance(one, str) for one in written):
        types = list(dict.fromkeys(written))
    elif written is None and listed:
        types = list(dict.fromkeys(_OF_JSON[type(value)] for value in listed))
    else:
        _refuse(where, "has no type")
    has_null = _NULL in types
    types = [one for one in types if one != _NULL]
    if sorted(types) == ["integer", "number"]:
        types = ["number"]
    return types, has_null


def _listed_values(described: Mapping[str, Any]) -> list[Any] | None:
    """Return the only values that there may be, None if they are not listed."""
    if "const" in described:
        return [described["const"]]
    listed = described.get("enum")
    return listed if isinstance(listed, list) else None


def _texts(described: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the values of an enum; none where it is none, or where they are no names."""
    listed = _listed_values(described) or ()
    texts = tuple(dict.fromkeys(value for value in listed if isinstance(value, str)))
    fits = len(texts) <= ENUM_VALUES_MAX and all(map(is_field_name, texts))
    return texts if fits else ()


def _listed(types: list[str]) -> str:
    return " and ".join(types) if types else "no type but null"


def _property(name: str) -> str:
    return f"property {_excerpt(name)}"


def _excerpt(value: object) -> str:
    text = ascii(value)[1:-1] if isinstance(value, str) else ascii(value)
    return f'"{text[:_SHOWN_MAX]}…"' if len(text) > _SHOWN_MAX else f'"{text}"'


def _refuse(where: str, why: str) -> NoReturn:
    message = f"{where} {why}"
    raise CommandError(message)

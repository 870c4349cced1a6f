"""One text of a schema and those it refers to: each type stands where it is named first."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from storage_core.errors import InvalidRequestError

NESTING_MAX: Final = 64
PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMED: Final = ("record", "error", "enum", "fixed")
TEXT_MAX: Final = 2**20
# Where the type stands that another is made of.
_INNER: Final = {"array": "items", "map": "values"}

Json = Any


def stands_alone(text: str, references: Iterable[str]) -> Json:
    """Return a schema in which all that it refers to is written out, and every name is full.

    Raises:
        InvalidRequestError: A text is no JSON, or nothing that a schema can be.
    """
    definitions: dict[str, Json] = {}
    for reference in references:
        _Writer({}, definitions, is_last=False).written(_parsed(reference), "", 0)
    return _Writer(definitions, {}, is_last=True).written(_parsed(text), "", 0)


def full_name(name: str, namespace: str) -> str:
    """Return a name with the namespace that it is used in."""
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _parsed(text: str) -> Json:
    if len(text) > TEXT_MAX:
        message = f"a schema of {len(text)} characters; {TEXT_MAX} are the most"
        raise InvalidRequestError(message)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        message = f"a schema is JSON, and this is none: {error}"
        raise InvalidRequestError(message) from error


class _Writer:
    """Writes types out: of those that are `known` by name at the first use, and notes each."""

    def __init__(self, known: Mapping[str, Json], noted: dict[str, Json], *, is_last: bool) -> None:
        self._known, self._noted, self._is_last = known, noted, is_last

    def written(self, given: Json, namespace: str, nesting: int) -> Json:
        if nesting > NESTING_MAX:
            message = f"a schema of more than {NESTING_MAX} types in each other"
            raise InvalidRequestError(message)
        if isinstance(given, str):
            return self._by_name(given, namespace, nesting)
        if isinstance(given, list):
            return [self.written(one, namespace, nesting + 1) for one in given]
        if not isinstance(given, dict):
            message = f"this is no Avro schema: {given!r}"
            raise InvalidRequestError(message)
        kind = given.get("type")
        if isinstance(kind, dict | list):
            # What stands around a type that is written out says nothing.
            return self.written(kind, namespace, nesting + 1)
        if kind in NAMED:
            return self._named(given, namespace, nesting)
        inner = _INNER.get(str(kind), "type")
        made = dict(given)
        if inner in made:
            made[inner] = self.written(made[inner], namespace, nesting + 1)
        return made

    def _by_name(self, given: str, namespace: str, nesting: int) -> Json:
        if given in PRIMITIVES:
            return given
        # As Java does: in the namespace around it, else without one.
        for name in (full_name(given, namespace), given.lstrip(".")):
            if name in self._noted:
                return name
            if name in self._known:
                # Its name is full, and is one without a namespace if it has none.
                definition = {**self._known[name], "namespace": ""}
                return self.written(definition, namespace, nesting + 1)
        # Of a reference it is found where that is written out: another may come behind it.
        return full_name(given, namespace) if self._is_last else given

    def _named(self, given: Mapping[str, Json], namespace: str, nesting: int) -> Json:
        own = given.get("namespace")
        name = full_name(str(given.get("name", "")), namespace if own is None else str(own))
        name = name.lstrip(".")
        made = {**given, "name": name}
        made.pop("namespace", None)
        if namespace and "." not in name:
            # Else it would be taken for one of the namespace around it.
            made["namespace"] = ""
        self._noted[name] = made
        inside = name.rpartition(".")[0]
        if isinstance(given.get("fields"), list):
            made["fields"] = [self._field(each, inside, nesting) for each in given["fields"]]
        return made

    def _field(self, given: Json, namespace: str, nesting: int) -> Json:
        if not isinstance(given, dict) or "type" not in given:
            return given
        return {**given, "type": self.written(given["type"], namespace, nesting + 1)}


def dotted(given: Json) -> Json:
    """Return a schema that stands alone with a dot before each name without a namespace."""
    if isinstance(given, str):
        return given if "." in given or given in PRIMITIVES else f".{given}"
    if isinstance(given, list):
        return [dotted(one) for one in given]
    if not isinstance(given, Mapping):
        return given
    made = dict(given)
    if made.get("type") in NAMED:
        made.pop("namespace", None)
        made["name"] = dotted(made["name"])
        if isinstance(made.get("fields"), list):
            made["fields"] = [_field(one) for one in made["fields"]]
        return made
    for part in ("type", "items", "values"):
        if part in made and made[part] not in ("array", "map"):
            made[part] = dotted(made[part])
    return made


def _field(given: Json) -> Json:
    if not isinstance(given, Mapping) or "type" not in given:
        return given
    return {**given, "type": dotted(given["type"])}


def undotted_form(canonical: str) -> str:
    """Return a canonical form without those dots; nothing else in it begins with one."""
    return canonical.replace('".', '"')


def undotted_error(error: Exception) -> str:
    """Return what fastavro says of a schema, with names as people know them."""
    return str(error).replace(": .", ": ")

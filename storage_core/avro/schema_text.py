"""The text of a schema: references inlined, and names as fastavro understands them.

Each referenced type is defined where it is first named. Java writes a type without a namespace by
its short name even inside a type that has one, and resolves it there. fastavro resolves a short
name in the enclosing namespace only, so for fastavro such a name gets a leading dot; stored texts
and messages have none.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from storage_core.errors import InvalidRequestError

NESTING_MAX: Final = 64
PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMED: Final = ("record", "error", "enum", "fixed")
TEXT_MAX: Final = 2**20
# The key of the inner type.
_INNER: Final = {"array": "items", "map": "values"}

Json = Any


def inline_references(text: str, references: Iterable[str]) -> Json:
    """Return a schema with its references inlined and all names full.

    Raises:
        InvalidRequestError: A text is not JSON, or cannot be a schema.
    """
    definitions: dict[str, Json] = {}
    for reference in references:
        _Inliner({}, definitions, is_last=False).inline(_parsed(reference), "", 0)
    return _Inliner(definitions, {}, is_last=True).inline(_parsed(text), "", 0)


def full_name(name: str, namespace: str) -> str:
    """Return a name with the enclosing namespace, unless it has its own."""
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _parsed(text: str) -> Json:
    if len(text) > TEXT_MAX:
        message = f"the schema has {len(text)} characters; the maximum is {TEXT_MAX}"
        raise InvalidRequestError(message)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        message = f"a schema must be JSON: {error}"
        raise InvalidRequestError(message) from error


class _Inliner:
    """Inlines `definitions` at the first use of their names; `inlined` collects the types."""

    def __init__(
        self, definitions: Mapping[str, Json], inlined: dict[str, Json], *, is_last: bool
    ) -> None:
        self._definitions, self._inlined, self._is_last = definitions, inlined, is_last

    def inline(self, document: Json, namespace: str, nesting: int) -> Json:
        if nesting > NESTING_MAX:
            message = f"a schema may be nested at most {NESTING_MAX} deep"
            raise InvalidRequestError(message)
        if isinstance(document, str):
            return self._by_name(document, namespace, nesting)
        if isinstance(document, list):
            return [self.inline(branch, namespace, nesting + 1) for branch in document]
        if not isinstance(document, dict):
            message = f"not an Avro schema: {document!r}"
            raise InvalidRequestError(message)
        kind = document.get("type")
        if isinstance(kind, dict | list):
            # The object around a nested definition has no meaning.
            return self.inline(kind, namespace, nesting + 1)
        if kind in NAMED:
            return self._named(document, namespace, nesting)
        inner = _INNER.get(str(kind), "type")
        copy = dict(document)
        if inner in copy:
            copy[inner] = self.inline(copy[inner], namespace, nesting + 1)
        return copy

    def _by_name(self, document: str, namespace: str, nesting: int) -> Json:
        if document in PRIMITIVES:
            return document
        # As in Java: in the enclosing namespace, else without one.
        for name in (full_name(document, namespace), document.lstrip(".")):
            if name in self._inlined:
                return name
            if name in self._definitions:
                # Its name is full: no namespace means none.
                definition = {**self._definitions[name], "namespace": ""}
                return self.inline(definition, namespace, nesting + 1)
        # Of a reference it is resolved once that is inlined: a later one may define it.
        return full_name(document, namespace) if self._is_last else document

    def _named(self, document: Mapping[str, Json], namespace: str, nesting: int) -> Json:
        own = document.get("namespace")
        name = full_name(str(document.get("name", "")), namespace if own is None else str(own))
        name = name.lstrip(".")
        copy = {**document, "name": name}
        copy.pop("namespace", None)
        if namespace and "." not in name:
            # Else it would be in the enclosing namespace.
            copy["namespace"] = ""
        self._inlined[name] = copy
        inside = name.rpartition(".")[0]
        if isinstance(document.get("fields"), list):
            copy["fields"] = [self._field(field, inside, nesting) for field in document["fields"]]
        return copy

    def _field(self, field: Json, namespace: str, nesting: int) -> Json:
        if not isinstance(field, dict) or "type" not in field:
            return field
        return {**field, "type": self.inline(field["type"], namespace, nesting + 1)}


def dotted(document: Json) -> Json:
    """Return a schema without references with a dot before each name without a namespace."""
    if isinstance(document, str):
        return document if "." in document or document in PRIMITIVES else f".{document}"
    if isinstance(document, list):
        return [dotted(element) for element in document]
    if not isinstance(document, Mapping):
        return document
    copy = dict(document)
    if copy.get("type") in NAMED:
        copy.pop("namespace", None)
        copy["name"] = dotted(copy["name"])
        if isinstance(copy.get("fields"), list):
            copy["fields"] = [_field(element) for element in copy["fields"]]
        return copy
    for part in ("type", "items", "values"):
        if part in copy and copy[part] not in ("array", "map"):
            copy[part] = dotted(copy[part])
    return copy


def _field(document: Json) -> Json:
    if not isinstance(document, Mapping) or "type" not in document:
        return document
    return {**document, "type": dotted(document["type"])}


def undotted_form(canonical: str) -> str:
    """Return a canonical form without these dots; nothing else in it starts with one."""
    return canonical.replace('".', '"')


def undotted_error(error: Exception) -> str:
    """Return fastavro's message without these dots."""
    return str(error).replace(": .", ": ")

"""A schema as fastavro is asked about it: a name without a namespace begins with a dot.

Java writes a type without a namespace by its short name even inside a type that has one, and finds
it there. fastavro looks for a short name in the namespace around it alone. The dot is fastavro's
only: what is kept, and what people read, has none.
"""

from collections.abc import Mapping
from typing import Any

from storage_core.avro.alone import NAMED, PRIMITIVES

Json = Any


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

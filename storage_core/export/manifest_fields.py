"""Which fields of a manifest differ from those that this version writes.

    object_fields = {"": ("rows", "files"), "files.*": ("name", "bytes")}
    field_differences(document, object_fields)    "it has no 'files.name', and has 'files.title'"

The keys are paths of JSON objects; `*` stands for each value of a list or an object.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import islice
from typing import Any, Final

ObjectFields = Mapping[str, Sequence[str]]

_NAMES_MAX: Final = 5
_NAME_LENGTH_MAX: Final = 60


def names_of(kind: type[Any]) -> tuple[str, ...]:
    """Return the names of a dataclass's fields."""
    return tuple(field.name for field in fields(kind))


def field_differences(document: Mapping[str, Any], object_fields: ObjectFields) -> str:
    """Say which fields a document lacks and which are unknown; empty if it has exactly these."""
    missing, unknown = dict[str, None](), dict[str, None]()
    for path, names in object_fields.items():
        place = path.replace(".*", "")
        prefix = f"{place}." if place else ""
        for value in _at_path(document, path.split(".") if path else ()):
            if isinstance(value, dict):
                missing |= dict.fromkeys(prefix + name for name in names if name not in value)
                unknown |= dict.fromkeys(prefix + name for name in value if name not in names)
    texts = [
        f"{verb} {_listed(names)}"
        for verb, names in (("has no", missing), ("has", unknown))
        if names
    ]
    return f"it {', and '.join(texts)}" if texts else ""


def _at_path(value: object, path: Sequence[str]) -> Iterator[object]:
    """Yield the values at a path; none where there is no such field."""
    if not path:
        yield value
        return
    for inner in _values(value, path[0]):
        yield from _at_path(inner, path[1:])


def _values(value: object, name: str) -> Iterable[object]:
    if name == "*":
        if isinstance(value, dict):
            return value.values()
        return value if isinstance(value, list) else ()
    return [value[name]] if isinstance(value, dict) and name in value else ()


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name[:_NAME_LENGTH_MAX]) for name in islice(names, _NAMES_MAX))

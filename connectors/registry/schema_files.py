"""Schemas as files: `<name>.v<k>.avsc`, versions of one schema, in the order they came out.

A schema refers to another by full name; the other is a file among those that are read. Which of
its versions is meant says the attribute `references` of the schema that refers to it:

    {"type": "record", "name": "Telemetry", "references": {"devices.Place": 1}, "fields": [...]}

Without it the newest is meant, which is another one once a version is added. The name of a file
without `.v<k>` is the name of a schema that has one version.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from storage_core import InvalidRequestError
from storage_core.avro import AvroSchema

_SUFFIX: Final = ".avsc"
_NAME: Final = re.compile(r"(?P<name>.+?)(\.v(?P<version>[1-9][0-9]{0,8}))?\.avsc")
_PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NAMED: Final = ("record", "error", "enum", "fixed")
_REFERENCES: Final = "references"


@dataclass(frozen=True, slots=True)
class SchemaFile:
    """A schema in a file.

    Attributes:
        path: The file.
        name: Its name without version and suffix.
        version: From its name.
        text: What is in it.
        alone: The schema, with what it refers to.
        references: The files of what it refers to itself.
    """

    path: Path
    name: str
    version: int
    text: str
    alone: AvroSchema
    references: tuple["SchemaFile", ...] = ()

    @property
    def full_name(self) -> str:
        """The schema's name with its namespace."""
        return self.alone.full_name


@dataclass(frozen=True, slots=True)
class _Read:
    path: Path
    name: str
    version: int
    text: str
    full_name: str
    needs: frozenset[str]
    pinned: Mapping[str, int]


def read_schema_files(paths: Iterable[Path]) -> list[SchemaFile]:
    """Return the schemas of files and of folders, each behind what it refers to and its elders.

    Raises:
        InvalidRequestError: A file cannot be read, is no schema, or refers to what is not there.
    """
    found = [_read(path) for path in dict.fromkeys(_files(paths))]
    found.sort(key=lambda one: (one.full_name, one.version))
    versions: dict[str, dict[int, _Read]] = {}
    for one in found:
        there = versions.setdefault(one.full_name, {})
        if (same := there.get(one.version)) is not None:
            message = f"{one.full_name} has version {one.version} in {same.path} too"
            raise InvalidRequestError(message, path=one.path)
        there[one.version] = one
    needed = {one.path: _needed(one, versions) for one in found}
    made: dict[Path, SchemaFile] = {}
    for one in _in_order(found, needed):
        references = tuple(made[need.path] for need in needed[one.path])
        made[one.path] = _made(one, references)
    return list(made.values())


def schema_in_file(path: Path) -> AvroSchema:
    """Return the schema of a file; what it refers to is looked for in the files beside it.

    Raises:
        InvalidRequestError: The file cannot be read, is no schema, or refers to what is not there.
    """
    try:
        alone = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        message = f"{path} cannot be read: {why}"
        raise InvalidRequestError(message) from error
    try:
        return AvroSchema.parse(alone)
    except InvalidRequestError as error:
        try:
            beside = read_schema_files([path.parent])
        except InvalidRequestError:
            beside = []
        found = [one.alone for one in beside if one.path == path]
        if not found:
            message = f"{path}: {error.message}"
            raise InvalidRequestError(message) from error
        return found[0]


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        inside = sorted(path.rglob(f"*{_SUFFIX}")) if path.is_dir() else [path]
        if not inside:
            message = f"there is no file *{_SUFFIX} below it"
            raise InvalidRequestError(message, path=path)
        yield from inside


def _read(path: Path) -> _Read:
    parts = _NAME.fullmatch(path.name)
    if parts is None:
        message = f"the name is not of the form <name>.v<k>{_SUFFIX}"
        raise InvalidRequestError(message, path=path)
    try:
        text = path.read_text(encoding="utf-8")
        parsed = json.loads(text)
    except OSError as error:
        raise InvalidRequestError(error.strerror or str(error), path=path) from error
    except (ValueError, RecursionError) as error:
        message = f"not an Avro schema: not JSON: {error}"
        raise InvalidRequestError(message, path=path) from error
    names = _Names()
    try:
        names.walk(parsed, "")
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        message = f"not an Avro schema: {type(error).__name__} {error}"
        raise InvalidRequestError(message, path=path) from error
    pinned = parsed.get(_REFERENCES, {}) if isinstance(parsed, dict) else {}
    if not isinstance(pinned, dict) or not all(type(one) is int for one in pinned.values()):
        message = f'"{_REFERENCES}": write full names and versions, as {{"devices.Place": 1}}'
        raise InvalidRequestError(message, path=path)
    version = int(parts["version"] or 1)
    # What has no name is what its file says.
    own = names.first or parts["name"]
    needs = frozenset(names.used - names.defined)
    return _Read(path, parts["name"], version, text, own, needs, pinned)


class _Names:
    """The full names that a schema defines and uses."""

    def __init__(self) -> None:
        self.first: str | None = None
        self.defined: set[str] = set()
        self.used: set[str] = set()

    def walk(self, schema: Any, inside: str) -> None:  # noqa: ANN401 - JSON
        """Note the names of a schema that stands in a namespace."""
        if isinstance(schema, str):
            if schema not in _PRIMITIVES:
                full = _full(schema, inside)
                # As Java does: in the namespace around it, else without one.
                is_bare = full not in self.defined and schema in self.defined
                self.used.add(schema if is_bare else full)
        elif isinstance(schema, list):
            for branch in schema:
                self.walk(branch, inside)
        elif schema["type"] in _NAMED:
            own = schema.get("namespace")
            name = _full(schema["name"], inside if own is None else own)
            self.first = self.first or name
            self.defined.add(name)
            for field in schema.get("fields", ()):
                self.walk(field["type"], name.rpartition(".")[0])
        else:
            inner = {"array": "items", "map": "values"}.get(str(schema["type"]), "type")
            self.walk(schema[inner], inside)


def _full(name: str, inside: str) -> str:
    return name if "." in name or not inside else f"{inside}.{name}"


def _needed(one: _Read, versions: Mapping[str, Mapping[int, _Read]]) -> list[_Read]:
    """Return the files of what a schema refers to."""
    needed = []
    for name in sorted(one.needs):
        there = versions.get(name, {})
        version = one.pinned.get(name, max(there, default=1))
        if version not in there:
            which = f"{name}, version {version}" if there else name
            message = f"it refers to {which}, which is in none of the files; name its file too"
            raise InvalidRequestError(message, path=one.path)
        needed.append(there[version])
    return needed


def _in_order(found: Sequence[_Read], needed: Mapping[Path, Sequence[_Read]]) -> list[_Read]:
    """Return schemas behind what they refer to, and behind the versions before them."""
    by_path = {one.path: one for one in found}
    before = {one.path: [need.path for need in needed[one.path]] for one in found}
    for elder, younger in pairwise(found):
        if elder.full_name == younger.full_name:
            before[younger.path].append(elder.path)
    try:
        return [by_path[path] for path in TopologicalSorter(before).static_order()]
    except CycleError as error:
        circle = " -> ".join(path.name for path in error.args[1])
        message = f"schemas refer to each other in a circle: {circle}"
        raise InvalidRequestError(message) from error


def _made(one: _Read, references: tuple[SchemaFile, ...]) -> SchemaFile:
    texts = dict.fromkeys(text for file in references for text in _texts(file))
    try:
        alone = AvroSchema.parse(one.text, tuple(texts))
    except InvalidRequestError as error:
        raise InvalidRequestError(error.message, path=one.path) from error
    return SchemaFile(one.path, one.name, one.version, one.text, alone, references)


def _texts(file: SchemaFile) -> list[str]:
    """Return the texts that a file's schema stands on, and its own."""
    return [*(text for below in file.references for text in _texts(below)), file.text]

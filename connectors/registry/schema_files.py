"""Schema files: `<name>.v<k>.avsc`, the versions of one schema in their order.

A schema refers to another by full name; the other is one of the files that are read. The attribute
`references` of the schema that refers to it says which of its versions is meant:

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
    """Return the schemas of files and folders, each behind its references and older versions.

    Raises:
        InvalidRequestError: A file cannot be read, is no schema, or refers to what is not there.
    """
    read_files = [_read(path) for path in dict.fromkeys(_files(paths))]
    read_files.sort(key=lambda file: (file.full_name, file.version))
    versions: dict[str, dict[int, _Read]] = {}
    for file in read_files:
        own_versions = versions.setdefault(file.full_name, {})
        if (same := own_versions.get(file.version)) is not None:
            message = f"{file.full_name} has version {file.version} in {same.path} too"
            raise InvalidRequestError(message, path=file.path)
        own_versions[file.version] = file
    needed = {file.path: _needed(file, versions) for file in read_files}
    made: dict[Path, SchemaFile] = {}
    for file in _in_order(read_files, needed):
        references = tuple(made[need.path] for need in needed[file.path])
        made[file.path] = _made(file, references)
    return list(made.values())


def schema_in_file(path: Path) -> AvroSchema:
    """Return the schema of a file; what it refers to is looked for in the files beside it.

    Raises:
        InvalidRequestError: The file cannot be read, is no schema, or refers to what is not there.
    """
    try:
        alone = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        message = f"{path} cannot be read: {why}"
        raise InvalidRequestError(message) from error
    try:
        return AvroSchema.parse(alone)
    except InvalidRequestError as error:
        try:
            beside = read_schema_files([path.parent])
        except InvalidRequestError:
            beside = []
        schemas = [one.alone for one in beside if one.path == path]
        if not schemas:
            message = f"{path}: {error.message}"
            raise InvalidRequestError(message) from error
        return schemas[0]


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
        message = f"this is not an Avro schema: not JSON: {error}"
        raise InvalidRequestError(message, path=path) from error
    names = _Names()
    try:
        names.walk(parsed, "")
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        message = f"this is not an Avro schema: {type(error).__name__} {error}"
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


def _needed(file: _Read, versions: Mapping[str, Mapping[int, _Read]]) -> list[_Read]:
    """Return the files of what a schema refers to."""
    needed = []
    for name in sorted(file.needs):
        own_versions = versions.get(name, {})
        version = file.pinned.get(name, max(own_versions, default=1))
        if version not in own_versions:
            missing = f"{name}, version {version}" if own_versions else name
            message = f"it refers to {missing}, which is in none of the files; name its file too"
            raise InvalidRequestError(message, path=file.path)
        needed.append(own_versions[version])
    return needed


def _in_order(read_files: Sequence[_Read], needed: Mapping[Path, Sequence[_Read]]) -> list[_Read]:
    """Return schemas behind what they refer to, and behind the versions before them."""
    by_path = {one.path: one for one in read_files}
    before = {one.path: [need.path for need in needed[one.path]] for one in read_files}
    for elder, younger in pairwise(read_files):
        if elder.full_name == younger.full_name:
            before[younger.path].append(elder.path)
    try:
        return [by_path[path] for path in TopologicalSorter(before).static_order()]
    except CycleError as error:
        circle = " -> ".join(path.name for path in error.args[1])
        message = f"schemas refer to each other in a circle: {circle}"
        raise InvalidRequestError(message) from error


def _made(read: _Read, references: tuple[SchemaFile, ...]) -> SchemaFile:
    texts = dict.fromkeys(text for file in references for text in _texts(file))
    try:
        alone = AvroSchema.parse(read.text, tuple(texts))
    except InvalidRequestError as error:
        raise InvalidRequestError(error.message, path=read.path) from error
    return SchemaFile(read.path, read.name, read.version, read.text, alone, references)


def _texts(file: SchemaFile) -> list[str]:
    """Return the texts that a file's schema stands on, and its own."""
    return [*(text for below in file.references for text in _texts(below)), file.text]

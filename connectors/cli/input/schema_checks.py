"""Checks schema files against each other and against a registry, and registers them.

A schema must pass two checks: that it reads what every older file of it wrote, since one stream has
rows of all versions; and the registry's, by the compatibility level of its subject.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import pyarrow as pa

from connectors.registry import Compatibility, Reference, RegistryClient, SchemaFile
from storage_core import InvalidRequestError
from storage_core.avro import decode_batch

Status = Literal["registered", "compatible", "incompatible"]

_NONE: Final = pa.array([], pa.binary())


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of checking a file.

    Attributes:
        file: The file.
        subject: Its subject.
        status: `registered`: it is a version of the subject; `compatible`: it could be.
        id: Its id, if it is registered.
        version: The version of the subject that it is, if it is registered.
        compatibility: The subject's compatibility level; None without a registry.
        why: Why it is incompatible.
    """

    file: SchemaFile
    subject: str
    status: Status
    id: int | None = None
    version: int | None = None
    compatibility: Compatibility | None = None
    why: str | None = None


def checked(
    files: Sequence[SchemaFile], subjects: Mapping[Path, str], client: RegistryClient | None
) -> list[Checked]:
    """Return the result for each file, in their order.

    Args:
        files: Each behind the files it refers to and its older versions.
        subjects: The subject of each file.
        client: The registry; without it files are only checked against each other.
    """
    levels: dict[str, Compatibility] = {}
    done: dict[Path, Checked] = {}
    for file in files:
        subject = subjects[file.path]
        if client is not None and subject not in levels:
            levels[subject] = client.compatibility(subject)
        done[file.path] = _judged(file, subject, client, levels.get(subject), done)
    return list(done.values())


def registered(
    files: Iterable[SchemaFile], subjects: Mapping[Path, str], client: RegistryClient
) -> list[Checked]:
    """Register files that are not registered, in their order; return what became of each."""
    levels: dict[str, Compatibility] = {}
    done: dict[Path, Checked] = {}
    for file in files:
        subject = subjects[file.path]
        references = _references(file, done)
        client.register(subject, file.text, references or ())
        version = client.registered(subject, file.text, references or ())
        if version is None:
            message = f"subject {subject}: the registry accepted the schema and does not find it"
            raise InvalidRequestError(message, path=file.path)
        levels.setdefault(subject, client.compatibility(subject))
        done[file.path] = Checked(
            file, subject, "registered", version.id, version.version, levels[subject]
        )
    return list(done.values())


def _judged(
    file: SchemaFile,
    subject: str,
    client: RegistryClient | None,
    level: Compatibility | None,
    done: Mapping[Path, Checked],
) -> Checked:
    why = _unread(file, [one.file for one in done.values()])
    if client is None:
        status: Status = "incompatible" if why else "compatible"
        return Checked(file, subject, status, why=why)
    references = _references(file, done)
    # A schema that refers to an unregistered one is not registered either.
    version = None if references is None else client.registered(subject, file.text, references)
    if version is not None:
        return Checked(file, subject, "registered", version.id, version.version, level)
    if why is None:
        # With its references inlined, so that they need not be registered yet.
        why = "; ".join(client.incompatibilities(subject, file.alone.text)) or None
    return Checked(
        file, subject, "incompatible" if why else "compatible", compatibility=level, why=why
    )


def _unread(file: SchemaFile, elders: Iterable[SchemaFile]) -> str | None:
    """Return which older version a schema does not read, and why; None if it reads all."""
    for elder in elders:
        if elder.full_name != file.full_name:
            continue
        try:
            decode_batch(_NONE, elder.alone, reader=file.alone)
        except InvalidRequestError as error:
            return f"does not read what {elder.path.name} wrote: {error.message}"
    return None


def _references(file: SchemaFile, done: Mapping[Path, Checked]) -> list[Reference] | None:
    """Return the registered references of a file; None if one is not registered."""
    references = []
    for below in file.references:
        checked_below = done[below.path]
        if checked_below.version is None:
            return None
        references.append(Reference(below.full_name, checked_below.subject, checked_below.version))
    return references

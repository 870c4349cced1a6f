"""Schemas in files against each other and against a registry, and their way into it.

Two judgements, and a schema must pass both: ours, that it reads what every older file of it wrote,
for rows of all versions lie in one stream; and the registry's, by the level of its subject.
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
    """What was found of a file.

    Attributes:
        file: The file.
        subject: Its subject.
        status: `registered`: it is a version of the subject; `compatible`: it could be.
        id: Its id, if it is registered.
        version: The version of the subject that it is, if it is registered.
        compatibility: What the subject asks of its versions; None where no registry was asked.
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
    """Return what is to be said of each file, in their order.

    Args:
        files: Each behind what it refers to and its elders.
        subjects: Of each file.
        client: The registry; without it files are held against each other alone.
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
        found = client.registered(subject, file.text, references or ())
        if found is None:
            message = f"subject {subject}: the registry took it, and does not find it"
            raise InvalidRequestError(message, path=file.path)
        levels.setdefault(subject, client.compatibility(subject))
        done[file.path] = Checked(
            file, subject, "registered", found.id, found.version, levels[subject]
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
    # What refers to a schema that is not registered is not registered either.
    found = None if references is None else client.registered(subject, file.text, references)
    if found is not None:
        return Checked(file, subject, "registered", found.id, found.version, level)
    if why is None:
        # Put together, so that it can be judged before what it refers to is registered.
        why = "; ".join(client.incompatibilities(subject, file.alone.text)) or None
    return Checked(
        file, subject, "incompatible" if why else "compatible", compatibility=level, why=why
    )


def _unread(file: SchemaFile, elders: Iterable[SchemaFile]) -> str | None:
    """Return what a file's schema could not read; None if it reads all older versions."""
    for elder in elders:
        if elder.full_name != file.full_name:
            continue
        try:
            decode_batch(_NONE, elder.alone, reader=file.alone)
        except InvalidRequestError as error:
            return f"does not read what {elder.path.name} wrote: {error.message}"
    return None


def _references(file: SchemaFile, done: Mapping[Path, Checked]) -> list[Reference] | None:
    """Return what a file refers to, as registered; None if some of it is not."""
    references = []
    for below in file.references:
        found = done[below.path]
        if found.version is None:
            return None
        references.append(Reference(below.full_name, found.subject, found.version))
    return references

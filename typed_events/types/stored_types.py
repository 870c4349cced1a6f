"""The types as they are stored: the rows of `_types`, one for each version of a type.

The key of a row is the type's name, its version the type's, its payload the Avro schema of a record
as text. All versions are kept.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import pyarrow as pa

from storage_core import InvalidRequestError, SchemaEntry, StreamReader, root_id, shard_progress
from storage_core.platform.name_suggestions import did_you_mean
from typed_events.errors import CommandError, NotFoundError
from typed_events.types.event_type import EventType
from typed_events.types.single_body import SingleBody

TYPES_STREAM: Final = "_types"


@dataclass(frozen=True)
class StoredType:
    """A version of a type.

    Attributes:
        event_type: Its fields.
        defined_us: When it was defined, in µs.
    """

    event_type: EventType
    defined_us: int = 0

    @cached_property
    def entry(self) -> SchemaEntry:
        """The schema of its payloads, as the log keeps it."""
        schema = self.event_type.schema
        # Under its version, so that readers take the newest version for the newest schema in
        # whatever order events of several came.
        return SchemaEntry(self.event_type.version, schema.identity, schema.text)

    @cached_property
    def single_body(self) -> SingleBody:
        """What encodes its payloads one at a time."""
        return SingleBody(self.event_type)


class StoredTypes:
    """All types of a root at one moment."""

    def __init__(self, versions: Mapping[str, Sequence[StoredType]]) -> None:
        """Take the versions of each type, oldest first."""
        self._versions = versions

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch]) -> "StoredTypes":
        """Return the types that rows of `_types` have."""
        versions: dict[str, dict[int, StoredType]] = {}
        for batch in batches:
            for row in batch.select(["key", "version", "payload", "primary"]).to_pylist():
                name, number = row["key"].decode(), row["version"]
                event_type = EventType.from_avro(number, row["payload"].decode())
                stored = StoredType(event_type, row["primary"])
                versions.setdefault(name, {})[number] = stored
        return cls(
            {
                name: [numbered[number] for number in sorted(numbered)]
                for name, numbered in sorted(versions.items())
            }
        )

    @property
    def names(self) -> list[str]:
        """The names, sorted."""
        return list(self._versions)

    def versions(self, name: str) -> Sequence[StoredType]:
        """Return the versions of a type, oldest first; none where there is no such type."""
        return self._versions.get(name, ())

    def type_of(self, name: str, version: int | None = None) -> StoredType:
        """Return a version of a type, or its newest.

        Raises:
            NotFoundError: There is no such type.
            CommandError: There is no such version of it.
        """
        versions = self._versions.get(name)
        if not versions:
            raise no_such_type(name, self.names)
        if version is None:
            return versions[-1]
        for stored in versions:
            if stored.event_type.version == version:
                return stored
        newest = versions[-1].event_type.version
        message = f"type {name} has no version {version}: its newest is {newest}"
        raise CommandError(message)


class TypesOfRoot:
    """The types of a root as anybody reads them: read again once there are more. Any thread."""

    def __init__(self, root: Path) -> None:
        """Read below a root, which need not be there yet."""
        self._root = root
        # One value, so that no thread sees the mark of one moment with the types of another.
        self._read: tuple[object, StoredTypes] = (None, StoredTypes({}))

    def current(self) -> StoredTypes:
        """Return the types as they are.

        Raises:
            NotFoundError: There is no such root.
        """
        refuse_missing_root(self._root)
        try:
            progress = shard_progress(self._root, TYPES_STREAM)
        except InvalidRequestError:
            # Nothing was defined yet.
            return StoredTypes({})
        mark = {number: (each.committed, each.committed_at_ms) for number, each in progress.items()}
        before, types = self._read
        if before != mark:
            with StreamReader.open(self._root, TYPES_STREAM) as reader:
                types = StoredTypes.of(reader.scan())
            self._read = (mark, types)
        return types


def is_root(root: Path) -> bool:
    """Tell whether a directory holds streams."""
    try:
        root_id(root)
    except InvalidRequestError:
        return False
    return True


def refuse_missing_root(root: Path) -> None:
    """Refuse a root that is none.

    Raises:
        NotFoundError: It is none.
    """
    if not is_root(root):
        message = f"there is no store at {root} yet: DEFINE makes it"
        raise NotFoundError(message)


def no_such_type(name: str, names: Sequence[str]) -> NotFoundError:
    """Return the error that tells of a type that is not there, with those of nearly its name."""
    hint = did_you_mean([name], names) or "; LIST TYPES shows those there are"
    return NotFoundError(f"there is no event type {name}{hint}")

"""The fields of the event types of a root, of all versions of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from storage_core.sql.field_columns import engine_type
from storage_core.sql.type_unification import unified_type
from typed_events.query.operands import UUIDS
from typed_events.types.stored_types import StoredTypes, TypesOfRoot


@dataclass(frozen=True, slots=True)
class DefinedType:
    """An event type.

    Attributes:
        versions: The fields of each version, oldest first.
    """

    versions: "Mapping[int, tuple[pa.Field[Any], ...]]"

    @property
    def fields(self) -> "list[pa.Field[Any]]":
        """The fields of all versions, those of the newest first."""
        found: dict[str, list[pa.Field[Any]]] = {}
        for fields in reversed([*self.versions.values()]):
            for field in fields:
                found.setdefault(field.name, []).append(field)
        return [_of_all(name, of_field) for name, of_field in found.items()]


class DefinedTypes:
    """The event types of a root. Any thread."""

    def __init__(self, root: Path) -> None:
        """Read below a root, which need not be there yet."""
        self._types = TypesOfRoot(root)
        # One value, so that no thread sees the types of one moment with the fields of another.
        self._fields: tuple[StoredTypes | None, Mapping[str, DefinedType]] = (None, {})

    def current(self) -> Mapping[str, DefinedType]:
        """Return the types that there are now, by name.

        Raises:
            InvalidRequestError: There is no such root.
        """
        stored = self._types.current()
        before, types = self._fields
        if before is not stored:
            types = {name: _defined(stored, name) for name in stored.names}
            self._fields = (stored, types)
        return types


def _of_all(name: str, fields: "Sequence[pa.Field[Any]]") -> "pa.Field[Any]":
    """Return a field as all versions that have it, the newest first, are read."""
    # The oldest first, as field_columns.py adds them.
    unified = pa.field(name, unified_type(tuple(field.type for field in reversed(fields))))
    are_uuids = all(field.metadata == UUIDS for field in fields)
    return unified.with_metadata(UUIDS) if are_uuids else unified


def _defined(stored: StoredTypes, name: str) -> DefinedType:
    return DefinedType(
        {
            version.event_type.version: tuple(
                _typed(field, version.event_type.fields[field.name].kind)
                for field in version.event_type.schema.arrow_schema()
            )
            for version in stored.versions(name)
        }
    )


def _typed(field: "pa.Field[Any]", kind: str) -> "pa.Field[Any]":
    typed = pa.field(field.name, engine_type(field.type), field.nullable)
    return typed.with_metadata(UUIDS) if kind == "uuid" else typed

"""The fields of the event types of a root, of all versions of each, as columns of answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from storage_core.sql.field_columns import engine_type
from storage_core.sql.type_unification import unified_type
from typed_events.query.operands import UUIDS
from typed_events.types.stored_types import StoredTypes


@dataclass(frozen=True)
class TypeFields:
    """The fields of an event type.

    Attributes:
        versions: Those of each version, oldest first.
        ttl_s: How long a row of state lives; None for events.
    """

    versions: "Mapping[int, tuple[pa.Field[Any], ...]]"
    ttl_s: int | None = None

    @cached_property
    def of_all_versions(self) -> "tuple[pa.Field[Any], ...]":
        """The fields of all versions, those of the newest first."""
        by_name: dict[str, list[pa.Field[Any]]] = {}
        for fields in reversed([*self.versions.values()]):
            for field in fields:
                by_name.setdefault(field.name, []).append(field)
        return tuple(_of_all(name, of_field) for name, of_field in by_name.items())


class FieldsOfTypes:
    """The fields of types, made again only where the types are others. Any thread."""

    def __init__(self, current_types: Callable[[], StoredTypes]) -> None:
        """Have those of the types that a call returns."""
        self._current_types = current_types
        # One value, so that no thread sees the types of one moment with the fields of another.
        self._made: tuple[StoredTypes | None, Mapping[str, TypeFields]] = (None, {})

    def current(self) -> Mapping[str, TypeFields]:
        """Return the fields of the types that there are now, by name; raises as the call does."""
        stored = self._current_types()
        before, fields = self._made
        if before is not stored:
            fields = {name: _fields_of(stored, name) for name in stored.names}
            self._made = (stored, fields)
        return fields


def _of_all(name: str, fields: "Sequence[pa.Field[Any]]") -> "pa.Field[Any]":
    """Return a field as all versions that have it, the newest first, are read."""
    # The oldest first, as field_columns.py adds them.
    unified = pa.field(name, unified_type(tuple(field.type for field in reversed(fields))))
    are_uuids = all(field.metadata == UUIDS for field in fields)
    return unified.with_metadata({**UUIDS}) if are_uuids else unified


def _fields_of(stored: StoredTypes, name: str) -> TypeFields:
    return TypeFields(
        {
            version.event_type.version: tuple(
                _typed(field, version.event_type.fields[field.name].kind)
                for field in version.event_type.schema.arrow_schema()
            )
            for version in stored.versions(name)
        },
        stored.type_of(name).event_type.ttl_s,
    )


def _typed(field: "pa.Field[Any]", kind: str) -> "pa.Field[Any]":
    typed = pa.field(field.name, engine_type(field.type), field.nullable)
    return typed.with_metadata({**UUIDS}) if kind == "uuid" else typed

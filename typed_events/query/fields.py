"""The fields of the event types of a root, of all versions of each, as columns of answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from storage_core.sql.field_columns import engine_type
from storage_core.sql.type_unification import unified_type
from typed_events.types.stored_types import StoredTypes


@dataclass(frozen=True)
class TypeFields:
    """The fields of an event type.

    Attributes:
        versions: Those of each version, oldest first.
    """

    versions: "Mapping[int, tuple[pa.Field[Any], ...]]"

    @cached_property
    def of_all_versions(self) -> "tuple[pa.Field[Any], ...]":
        """The fields of all versions, those of the newest first."""
        types: dict[str, list[pa.DataType]] = {}
        for fields in reversed([*self.versions.values()]):
            for field in fields:
                types.setdefault(field.name, []).append(field.type)
        return tuple(
            # The oldest first, as field_columns.py adds them.
            pa.field(name, unified_type(tuple(reversed(of_field))))
            for name, of_field in types.items()
        )


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


def _fields_of(stored: StoredTypes, name: str) -> TypeFields:
    return TypeFields(
        {
            version.event_type.version: tuple(
                field.with_type(engine_type(field.type))
                for field in version.event_type.schema.arrow_schema()
            )
            for version in stored.versions(name)
        }
    )

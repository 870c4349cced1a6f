"""The fields of the event types of a root, of all versions of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from storage_core.sql.field_columns import engine_type
from storage_core.sql.type_unification import unified_type
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
        types: dict[str, list[pa.DataType]] = {}
        for fields in reversed([*self.versions.values()]):
            for field in fields:
                types.setdefault(field.name, []).append(field.type)
        return [
            # The oldest first, as field_columns.py adds them.
            pa.field(name, unified_type(tuple(reversed(of_field))))
            for name, of_field in types.items()
        ]


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


def _defined(stored: StoredTypes, name: str) -> DefinedType:
    return DefinedType(
        {
            version.event_type.version: tuple(
                field.with_type(engine_type(field.type))
                for field in version.event_type.schema.arrow_schema()
            )
            for version in stored.versions(name)
        }
    )

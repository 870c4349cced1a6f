"""Event types: what a type's fields are, what a new version may change, payloads as columns."""

from typed_events.types.event_type import EventType, FieldType, next_version
from typed_events.types.values import PayloadError, bodies_of, columns_of, fault_of

__all__ = [
    "EventType",
    "FieldType",
    "PayloadError",
    "bodies_of",
    "columns_of",
    "fault_of",
    "next_version",
]

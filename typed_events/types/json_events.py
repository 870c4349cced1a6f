"""Events as texts of JSON: the schema that such rows are stored by, and the judgement of one text.

A text is judged as a STORE with it as its payload is. Whoever judges many reads them as columns
first (storage_core/avro/json_bodies.py), which takes exactly those that are judged right here, and
asks here for the reasons of the others.
"""

import json

from storage_core import InvalidRequestError
from storage_core.avro import BODIES, JSON_BODIES, AvroSchema, object_of
from typed_events.errors import CommandError
from typed_events.types.event_type import EventType, ttl_text
from typed_events.types.stored_types import StoredType, StoredTypes
from typed_events.types.values import fault_of


def versions_of_values(types: StoredTypes, name: str) -> list[StoredType]:
    """Return the versions of a type that values of a topic may be events of, oldest first.

    Raises:
        NotFoundError: Nobody has defined it.
        CommandError: Its rows are state, which changes and expires as a topic's stream does not.
    """
    newest = types.type_of(name).event_type
    if newest.is_state:
        message = (
            f"event type {name} is of state with TTL {ttl_text(newest.ttl_s)}, and values of a "
            "topic are events: DEFINE a type without AS STATE for them"
        )
        raise CommandError(message)
    return [*types.versions(name)]


def json_schema_of(event_type: EventType) -> AvroSchema:
    """Return the schema of rows whose payloads are texts of JSON of a type."""
    record = {**json.loads(event_type.avro_text), BODIES: JSON_BODIES}
    return AvroSchema.parse(json.dumps(record, ensure_ascii=False, separators=(",", ":")))


def json_fault(event_type: EventType, text: bytes) -> str | None:
    """Return why a text is no event of a type, with the field; None if it is one."""
    try:
        payload = object_of(text)
    except InvalidRequestError as error:
        return error.message
    fault = fault_of(event_type, payload)
    return None if fault is None else f'field "{fault.field}": {fault.reason}'

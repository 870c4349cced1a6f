"""Schemas as a registry, or the store, has them: as those that rows are kept and read by.

Of Avro it is the schema itself. Of a JSON Schema it is that of an event type with its fields, whose
bodies are texts of JSON (typed_events/types/json_schema.py says which schemas have one). So the
store has it without the registry, and who reads rows reads those of either alike.
"""

from connectors.registry import RegisteredSchema, SchemaKind
from connectors.settings.stream_settings import ValueFormat
from storage_core import InvalidRequestError
from storage_core.avro import AvroSchema
from typed_events.types.json_events import json_schema_of
from typed_events.types.json_schema import type_of_json_schema


def kind_of_schemas(value_format: ValueFormat) -> SchemaKind:
    """Return the kind of the schemas that values of a format name."""
    return "AVRO" if value_format == "avro" else "JSON"


def schema_of_registry(registered: RegisteredSchema, kind: SchemaKind) -> AvroSchema:
    """Return the schema of rows whose values name a registered one.

    Raises:
        InvalidRequestError: It is none, or one that values are not read by.
    """
    if kind == "AVRO":
        return AvroSchema.parse(registered.text, registered.references)
    try:
        return json_schema_of(type_of_json_schema(registered.text))
    except InvalidRequestError as error:
        message = f"schema id {registered.id} is of no event type: {error.message}"
        raise InvalidRequestError(message) from error


def schema_of_store(text: str, kind: SchemaKind) -> AvroSchema | None:
    """Return the schema that rows have; None where it is none, or not of this kind."""
    try:
        schema = AvroSchema.stored(text)
    except InvalidRequestError:
        # Whoever stored it was no worker.
        return None
    return schema if schema.has_json_bodies == (kind == "JSON") else None

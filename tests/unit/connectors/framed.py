"""Avro values as a registry's serializer frames them, and what is known of their schemas."""

import io
import json
import struct
from typing import Any

from fastavro import parse_schema, schemaless_writer

from connectors.ingest.mapping import map_partitions
from connectors.ingest.values.avro_values import FramedValues, WriterSchema
from connectors.ingest.values.framing import SchemaName, read_frames
from connectors.settings.stream_settings import MappingRules
from storage_core.avro import AvroSchema
from tests.unit.connectors.records import fetched_of


def record_schema(*fields: tuple[str, Any], name: str = "Reading") -> str:
    """Return the text of a record schema with fields of these names and types."""
    return json.dumps(
        {
            "type": "record",
            "name": name,
            "fields": [{"name": field, "type": kind} for field, kind in fields],
        }
    )


def written(text: str, value: Any) -> bytes:
    """Return the body of a value."""
    body = io.BytesIO()
    schemaless_writer(body, parse_schema(json.loads(text), _write_hint=False), value)
    return body.getvalue()


def name_of(number) -> SchemaName:
    return b"\x00" + struct.pack(">I", number)


def framed(number, text, value):
    """Return a value behind its schema's id."""
    return name_of(number) + written(text, value)


def writers(**texts):
    """Return answers: `id_7=text` is a schema with the id 7."""
    schemas = {}
    for place, (name, text) in enumerate(texts.items()):
        number = int(name.removeprefix("id_"))
        schemas[name_of(number)] = WriterSchema(place, number, AvroSchema.parse(text))
    return schemas


def mapped(messages, answers, **rules):
    """Return what becomes of one partition's records whose schemas are known."""
    fetched = fetched_of(messages)
    frames = read_frames(fetched.values, fetched.headers)
    chosen = MappingRules(value_format="avro", **rules)
    ((_, records),) = map_partitions(fetched, fetched.runs, chosen, FramedValues(frames, answers))
    return records

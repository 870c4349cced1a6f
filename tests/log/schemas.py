"""Schemas for scenarios: entries as a worker would make them of what a registry says."""

from storage_core import SchemaEntry
from storage_core.avro import AvroSchema


def schema_entry(registry_id: int, text: str) -> SchemaEntry:
    """Return a schema under the id of a registry."""
    schema = AvroSchema.parse(text)
    return SchemaEntry(registry_id, schema.identity, schema.text)


LONG, STRING, BYTES = (
    schema_entry(number, text) for number, text in ((7, '"long"'), (8, '"string"'), (9, '"bytes"'))
)
# What a registry made anew may have under an old id.
LONG_ANEW = schema_entry(7, '"int"')

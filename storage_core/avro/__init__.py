"""What is in a payload: Avro schemas, bodies decoded into Arrow columns, values as bodies."""

from storage_core.avro.cursor import Limits
from storage_core.avro.decoder import Decoded, Fault, decode_batch
from storage_core.avro.encoder import encode_batch
from storage_core.avro.framing import body_starts, frame_of, verified_starts
from storage_core.avro.json_bodies import object_of
from storage_core.avro.json_columns import integer_or_none
from storage_core.avro.json_encoder import JsonEncoder
from storage_core.avro.names import column_beside
from storage_core.avro.schema import BODIES, JSON_BODIES, AvroSchema, newest_schema

__all__ = [
    "BODIES",
    "JSON_BODIES",
    "AvroSchema",
    "Decoded",
    "Fault",
    "JsonEncoder",
    "Limits",
    "body_starts",
    "column_beside",
    "decode_batch",
    "encode_batch",
    "frame_of",
    "integer_or_none",
    "newest_schema",
    "object_of",
    "verified_starts",
]

"""What is in a payload: Avro schemas, bodies decoded into Arrow columns, values as bodies."""

from storage_core.avro.cursor import Limits
from storage_core.avro.decoder import Decoded, Fault, decode_batch
from storage_core.avro.encoder import encode_batch
from storage_core.avro.framing import body_starts, frame_of, verified_starts
from storage_core.avro.json_encoder import JsonEncoder
from storage_core.avro.names import column_beside
from storage_core.avro.schema import AvroSchema, newest_schema

__all__ = [
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
    "newest_schema",
    "verified_starts",
]

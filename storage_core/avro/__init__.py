"""What is in a payload: Avro schemas, bodies decoded into Arrow columns, values as bodies."""

from storage_core.avro.cursor import Limits
from storage_core.avro.decoder import Decoded, Fault, decode_batch
from storage_core.avro.encoder import encode_batch
from storage_core.avro.framing import frame_of, starts_by, starts_of
from storage_core.avro.json_encoder import BodyEncoder
from storage_core.avro.names import column_beside
from storage_core.avro.schema import AvroSchema, newest_schema

__all__ = [
    "AvroSchema",
    "BodyEncoder",
    "Decoded",
    "Fault",
    "Limits",
    "column_beside",
    "decode_batch",
    "encode_batch",
    "frame_of",
    "newest_schema",
    "starts_by",
    "starts_of",
]

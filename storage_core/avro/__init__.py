"""What is in a payload: Avro schemas, bodies decoded into Arrow columns, values as bodies."""

from storage_core.avro.avro_schema import AvroSchema
from storage_core.avro.bodies import encode_batch
from storage_core.avro.cursor import Limits
from storage_core.avro.decoding import Decoded, Fault, decode_batch
from storage_core.avro.encoding import BodyEncoder
from storage_core.avro.framing import frame_of, starts_by, starts_of
from storage_core.avro.names import column_beside
from storage_core.avro.newest import newest_schema
from storage_core.avro.python_values import in_python

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
    "in_python",
    "newest_schema",
    "starts_by",
    "starts_of",
]

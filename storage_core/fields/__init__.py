"""What is in a payload: Avro schemas, and bodies decoded into Arrow columns."""

from storage_core.fields.avro_schema import AvroSchema
from storage_core.fields.cursor import Limits
from storage_core.fields.decoding import Decoded, Fault, decode_batch

__all__ = ["AvroSchema", "Decoded", "Fault", "Limits", "decode_batch"]

"""The message of a block that is one plain row: the bytes Arrow would write, without its machinery.

One durable record is the smallest commit, and the most common one of a quiet shard; after the
wait for a sync each first call into Arrow costs tens of microseconds. A message of one row
without nulls is a head that depends on the payload's size only, which Arrow makes once a size,
and a body of fixed layout, each buffer padded to eight bytes:

    secondary i32 | pad 4 | primary i64 | offsets 2 x i32 | payload | pad
"""

import struct
from functools import lru_cache
from typing import Final

import pyarrow as pa

from storage_core.ground.arrow import Array

_NUMBERS: Final = struct.Struct("<i4xqii")
_ALIGNMENT: Final = 8


def encode_plain_row(schema: pa.Schema, secondary: int, primary: int, payload: Array) -> bytes:
    """Return the message of one row.

    Args:
        schema: Secondary, primary, payload.
        secondary: The row's secondary.
        primary: The row's primary.
        payload: A binary array of one value that is not null.
    """
    value: bytes = payload[0].as_py()
    size = len(value)
    numbers = _NUMBERS.pack(secondary, primary, 0, size)
    return b"".join((_head(schema, size), numbers, value, bytes(-size % _ALIGNMENT)))


@lru_cache(maxsize=256)
def _head(schema: pa.Schema, payload_bytes: int) -> bytes:
    row = {"secondary": 0, "primary": 0, "payload": bytes(payload_bytes)}
    message = pa.RecordBatch.from_pylist([row], schema=schema).serialize().to_pybytes()
    return message[: -(_NUMBERS.size + payload_bytes + -payload_bytes % _ALIGNMENT)]

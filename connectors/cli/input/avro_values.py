"""Values of `shardlog produce --avro`: by the latest schema of their subject, framed by its id.

    0x00 | the registry's id, 4 bytes, big-endian | the body

To test dead letters, a share of the records can be corrupted: half get a text as their value, half
lose the last bytes of it.
"""

import json
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from connectors.cli.input.record_lines import Outgoing
from connectors.registry import RegisteredSchema
from storage_core import InvalidRequestError
from storage_core.avro import AvroSchema, JsonEncoder

_MAGIC: Final = b"\0"
_ID_BYTES: Final = 4
_NO_AVRO: Final = b"no schema wrote this"
_CUT_BYTES: Final = 3
_CHUNK_RECORDS: Final = 4096


def as_avro(outgoing: Iterator[Outgoing], schema: RegisteredSchema) -> Iterator[Outgoing]:
    """Yield records with their JSON values encoded by a schema; tombstones stay.

    Raises:
        InvalidRequestError: A value is not JSON, or does not fit; the message has its number.
    """
    encoder = JsonEncoder(AvroSchema.parse(schema.text, schema.references))
    framing = _MAGIC + schema.id.to_bytes(_ID_BYTES, "big")
    for number, record in enumerate(outgoing, 1):
        if record.value is None:
            yield record
            continue
        try:
            body = encoder.encode(json.loads(record.value))
        except (ValueError, RecursionError) as error:
            why = error.message if isinstance(error, InvalidRequestError) else f"no JSON: {error}"
            message = f"record {number}: {why}"
            raise InvalidRequestError(message) from error
        yield record._replace(value=framing + body)


def corrupt_some(outgoing: Iterator[Outgoing], share: float, seed: int) -> Iterator[Outgoing]:
    """Yield records of which a share is corrupted; the same seed corrupts the same."""
    chance = np.random.default_rng((seed, 1))
    corrupt: Callable[[bytes], bytes]
    drawn: list[float] = []
    for record in outgoing:
        if not drawn:
            drawn = chance.random(_CHUNK_RECORDS).tolist()
        draw = drawn.pop()
        if draw >= share or not record.value:
            yield record
            continue
        corrupt = _without_framing if draw < share / 2 else _cut
        yield record._replace(value=corrupt(record.value))


def _without_framing(_value: bytes) -> bytes:
    return _NO_AVRO


def _cut(value: bytes) -> bytes:
    return value[:-_CUT_BYTES]

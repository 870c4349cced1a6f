"""A record that cannot become a row, kept byte for byte with the reason.

    {"reason": "key of 6 bytes; an integer key has 4",
     "topic": ..., "partition": ..., "offset": ..., "timestamp": ..., "timestamp_type": ...,
     "key": base64, "value": base64, "headers": [[name, base64]]}

It is stored under the record's own offset, beside the rows and in the same batch.
"""

import base64
import json
from dataclasses import dataclass
from typing import Any, Final

from connectors.kafka_client import Headers
from connectors.settings.stream_settings import MappingRules

KEY_BYTES: Final = 4
NO_TIMESTAMP_TYPE: Final = 0
# Stands for headers that cannot be read; no record has an empty list of its own.
MISNAMED: Final[Headers] = []
_ANY_KEYS: Final = (
    'stream.key_mode = "none" carries keys of any length, of each new topic of the worker; those '
    "whose keys are ids need a worker of their own"
)
# Words of a reason, and what to set.
_ADVICE: Final = (
    (
        "an integer key has",
        _ANY_KEYS,
    ),
    ("null_key is", 'stream.null_key = "keep" stores records without a key'),
    ("payload_bytes_max is", "stream.payload_bytes_max bounds a value; `shardlog alter` raises it"),
    ("the primary comes from it", 'stream.primary = "offset" needs no timestamp'),
)


def reason_for(message: Any, headers: Headers | None, rules: MappingRules) -> str:  # noqa: ANN401 - a message of librdkafka
    """Say why a record cannot become a row."""
    key, value = message.key(), message.value()
    if value is not None and len(value) > rules.payload_bytes_max:
        return f"value of {len(value)} bytes; payload_bytes_max is {rules.payload_bytes_max}"
    if headers is MISNAMED:
        return "a header's name is not UTF-8; the headers cannot be kept, only their record"
    if rules.primary == "timestamp" and message.timestamp()[0] == NO_TIMESTAMP_TYPE:
        return "no timestamp, and the primary comes from it"
    if key is None:
        return "no key, and null_key is dead-letter"
    return f"key of {len(key)} bytes; an integer key has {KEY_BYTES}"


def advice_for(reason: str) -> str | None:
    """Return what to set so that records refused for this reason are stored, if anything is."""
    return next((advice for words, advice in _ADVICE if words in reason), None)


def encode_dead_letter(message: Any, headers: Headers | None, reason: str) -> bytes:  # noqa: ANN401 - a message of librdkafka
    """Return a record byte for byte, with why it was refused."""
    kind, timestamp = message.timestamp()
    return json.dumps(
        {
            "reason": reason,
            "topic": message.topic(),
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp": timestamp,
            "timestamp_type": kind - 1,
            "key": _text(message.key()),
            "value": _text(message.value()),
            "headers": [[name, _text(value)] for name, value in headers] if headers else None,
        }
    ).encode()


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that could not be stored, as Kafka had it."""

    reason: str
    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None


def decode_dead_letter(data: bytes) -> DeadLetter:
    """Return what `encode_dead_letter` was given."""
    fields: dict[str, Any] = json.loads(data)
    headers = fields["headers"]
    fields["key"], fields["value"] = _bytes(fields["key"]), _bytes(fields["value"])
    if headers is not None:
        fields["headers"] = [(name, _bytes(value)) for name, value in headers]
    return DeadLetter(**fields)


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)

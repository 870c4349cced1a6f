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

import pyarrow as pa

from connectors.kafka import Fetched, Headers, Partition
from connectors.settings.stream_settings import MappingRules
from storage_core import KEY_BYTES_MAX

KEY_BYTES: Final = 4
NO_TIMESTAMP_TYPE: Final = 0
_ANY_KEYS: Final = (
    'stream.key_mode = "dictionary" takes keys of any bytes and reads by them, "none" only carries '
    "them, of each new topic of the worker; those whose keys are ids need a worker of their own"
)
# Words of a reason, and what to set.
_ADVICE: Final = (
    (
        "an integer key has",
        _ANY_KEYS,
    ),
    (
        "a key that rows belong to has",
        'stream.key_mode = "none" carries keys of any length, without reads by key',
    ),
    ("null_key is", 'stream.null_key = "keep" stores records without a key'),
    ("payload_bytes_max is", "stream.payload_bytes_max bounds a value; `shardlog alter` raises it"),
    (
        "framing: value begins with 0x7b",
        'stream.value_format = "json" with stream.event_type takes it, of each new topic',
    ),
    (
        "framing: ",
        'stream.value_format = "raw" takes values of any bytes, of each new topic of the worker',
    ),
    ("the primary comes from it", 'stream.primary = "offset" needs no timestamp'),
)

# Words of a reason, and the one that stands for it where dead letters are counted.
_WORDS: Final = (
    ('{"reason": "value of ', "size"),
    ('{"reason": "a header', "headers"),
    ('{"reason": "no timestamp', "mapping"),
    ('{"reason": "no key', "key"),
    ('{"reason": "key of ', "key"),
    ('{"reason": "framing: ', "framing"),
    ('{"reason": "unknown schema: ', "unknown_schema"),
    ('{"reason": "body: ', "body"),
    ('{"reason": "mapping: ', "mapping"),
)
_OTHER_WORD: Final = "other"
# Each word that a reason may have.
REASON_WORDS: Final = tuple(dict.fromkeys([*(word for _, word in _WORDS), _OTHER_WORD]))
_REASON_BYTES_MAX: Final = 64


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
    headers: Headers | None


def dead_letter(
    partition: Partition, fetched: Fetched, row: int, rules: MappingRules, reason: str | None = None
) -> DeadLetter:
    """Return a record that cannot become a row, with the reason why.

    Args:
        partition: Whose it is.
        fetched: What it was fetched with.
        row: Where it lies in that.
        rules: How records become rows.
        reason: Why, if its value is; else what of the record is not as rules say.
    """
    key, value = _bytes_at(fetched.keys, row), _bytes_at(fetched.values, row)
    return DeadLetter(
        reason or _reason(fetched, row, key, value, rules),
        partition.topic,
        partition.number,
        int(fetched.offsets[row]),
        int(fetched.timestamps[row]),
        int(fetched.kinds[row]) - 1,
        key,
        value,
        _headers_at(fetched, row),
    )


def _reason(
    fetched: Fetched, row: int, key: bytes | None, value: bytes | None, rules: MappingRules
) -> str:
    """Say why a record cannot become a row."""
    if value is not None and len(value) > rules.payload_bytes_max:
        return f"value of {len(value)} bytes; payload_bytes_max is {rules.payload_bytes_max}"
    if fetched.misnamed is not None and fetched.misnamed[row]:
        return "a header's name is not UTF-8; the headers cannot be kept, only their record"
    if rules.primary == "timestamp" and fetched.kinds[row] == NO_TIMESTAMP_TYPE:
        return "no timestamp, and the primary comes from it"
    if key is None:
        return "no key, and null_key is dead-letter"
    if rules.key_mode == "dictionary":
        return f"key of {len(key)} bytes; a key that rows belong to has {KEY_BYTES_MAX} at most"
    return f"key of {len(key)} bytes; an integer key has {KEY_BYTES}"


def advice_for(reason: str) -> str | None:
    """Return what to set so that records refused for this reason are stored, if anything is."""
    return next((advice for words, advice in _ADVICE if words in reason), None)


def reason_word(data: bytes) -> str:
    """Return a stable word for why a record was refused, from the bytes of its dead letter.

    However large it is, only the reason at its head is looked at.
    """
    head = data[:_REASON_BYTES_MAX].decode("ascii", "replace")
    return next((word for words, word in _WORDS if words in head), _OTHER_WORD)


def encode_dead_letter(dead_letter: DeadLetter) -> bytes:
    """Return a record byte for byte, with why it was refused."""
    return json.dumps(
        {
            "reason": dead_letter.reason,
            "topic": dead_letter.topic,
            "partition": dead_letter.partition,
            "offset": dead_letter.offset,
            "timestamp": dead_letter.timestamp,
            "timestamp_type": dead_letter.timestamp_type,
            "key": _text(dead_letter.key),
            "value": _text(dead_letter.value),
            "headers": dead_letter.headers
            and [[name, _text(value)] for name, value in dead_letter.headers],
        }
    ).encode()


def decode_dead_letter(data: bytes) -> DeadLetter:
    """Return what `encode_dead_letter` was given.

    Raises:
        ValueError: The bytes are others; whoever appended them was no worker.
    """
    try:
        fields: dict[str, Any] = json.loads(data)
        headers = fields["headers"]
        fields["key"], fields["value"] = _bytes(fields["key"]), _bytes(fields["value"])
        if headers is not None:
            fields["headers"] = [(name, _bytes(value)) for name, value in headers]
        dead_letter = DeadLetter(**fields)
        texts = (
            dead_letter.topic,
            dead_letter.reason,
            *(name for name, _ in dead_letter.headers or ()),
        )
        # What is no text, or has no UTF-8, is nothing that a worker wrote.
        "".join(texts).encode()
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        message = f"no dead letter of a worker: {error}"
        raise ValueError(message) from error
    numbers = (
        dead_letter.partition,
        dead_letter.offset,
        dead_letter.timestamp,
        dead_letter.timestamp_type,
    )
    if any(type(one) is not int for one in numbers):
        message = "no dead letter of a worker: its fields are of other types"
        raise ValueError(message)
    return dead_letter


def _bytes_at(column: pa.BinaryArray, row: int) -> bytes | None:
    return column[row].as_py()


def _headers_at(fetched: Fetched, row: int) -> Headers | None:
    headers = None if fetched.headers is None else fetched.headers[row].as_py()
    return None if headers is None else [(each["key"], each["value"]) for each in headers]


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)

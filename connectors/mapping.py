"""From Kafka's records to a shard's rows, in columns: one pass a field, no loop over records.

    primary      the record's timestamp, or its offset
    secondary    the key as a 4-byte big-endian integer; -1 where there is none
    payload      the value's bytes untouched; null is a tombstone, empty stays empty
    key, headers, timestamp, timestamp_type
                 as Kafka has them; timestamp_type in Java's numbers (-1, 0, 1)

A record that cannot become a row is a dead letter: kept raw under its own offset with the
reason, while its neighbours are stored.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connectors.kafka_client import FIELDS, Messages
from storage_core import HEADERS_TYPE

KeyMode = Literal["integer", "none"]
PrimaryFrom = Literal["timestamp", "offset"]
NullKey = Literal["keep", "dead-letter"]

KEY_BYTES: Final = 4
NULL_KEY_ID: Final = -1
_NO_TIMESTAMP_TYPE: Final = 0

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MappingRules:
    """How a topic's records become rows.

    Attributes:
        primary: Where the primary comes from.
        key_mode: What a key means.
        null_key: What becomes of a record without a key in mode `integer`.
        payload_bytes_max: A larger value is a dead letter.
    """

    primary: PrimaryFrom = "timestamp"
    key_mode: KeyMode = "integer"
    null_key: NullKey = "keep"
    payload_bytes_max: int = 16 * 2**20


@dataclass(frozen=True, slots=True)
class MappedRecords:
    """Records of one partition as a shard takes them."""

    rows: pa.RecordBatch
    offsets: Offsets
    dead_letters: Mapping[int, bytes]


def map_records(messages: Messages, rules: MappingRules) -> MappedRecords:
    """Return records of one partition, offsets ascending, as rows and dead letters."""
    count = len(messages)
    offsets = np.fromiter(map(FIELDS.offset, messages), np.int64, count)
    values = list(map(FIELDS.value, messages))
    keys = list(map(FIELDS.key, messages))
    stamps = np.array(list(map(FIELDS.timestamp, messages)), dtype=np.int64).reshape(count, 2)
    secondaries, refused = _secondaries(keys, rules)
    if rules.primary == "timestamp":
        refused |= stamps[:, 0] == _NO_TIMESTAMP_TYPE
    payload = pa.array(values, pa.binary())
    refused |= _sizes(payload) > rules.payload_bytes_max
    timestamps = np.ascontiguousarray(stamps[:, 1])
    columns: dict[str, Any] = {
        "primary": pa.array(timestamps if rules.primary == "timestamp" else offsets),
        "secondary": pa.array(secondaries),
        "payload": payload,
        "key": pa.array(keys, pa.binary()),
        "timestamp": pa.array(timestamps),
        "timestamp_type": pa.array((stamps[:, 0] - 1).astype(np.int8)),
    }
    headers = list(map(FIELDS.headers, messages))
    if any(headers):
        columns["headers"] = pa.array(headers, HEADERS_TYPE)
    rows = pa.RecordBatch.from_pydict(columns)
    if not refused.any():
        return MappedRecords(rows, offsets, {})
    dead = {
        int(offsets[at]): encode_dead_letter(messages[at], _reason(messages[at], rules))
        for at in np.flatnonzero(refused).tolist()
    }
    kept = np.flatnonzero(~refused)
    return MappedRecords(rows.take(kept), offsets[kept], dead)


def _secondaries(
    keys: Sequence[bytes | None], rules: MappingRules
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """Return each key's id, and which keys are poison."""
    count = len(keys)
    refused = np.zeros(count, dtype=np.bool_)
    if rules.key_mode == "none":
        return np.full(count, NULL_KEY_ID, dtype=np.int32), refused
    try:
        joined = b"".join(keys)  # type: ignore[arg-type]  # a null key is the exception below
        if len(joined) == KEY_BYTES * count and set(map(len, keys)) <= {KEY_BYTES}:  # type: ignore[arg-type]  # no null is left
            return np.frombuffer(joined, ">i4").astype(np.int32), refused
    except TypeError:
        pass
    secondaries = np.full(count, NULL_KEY_ID, dtype=np.int32)
    for at, key in enumerate(keys):
        if key is None:
            refused[at] = rules.null_key == "dead-letter"
        elif len(key) == KEY_BYTES:
            secondaries[at] = int.from_bytes(key, "big", signed=True)
        else:
            refused[at] = True
    return secondaries, refused


def _sizes(payload: Any) -> npt.NDArray[np.int32]:  # noqa: ANN401 - an Arrow array of any length
    if not len(payload):
        return np.empty(0, dtype=np.int32)
    offsets = np.frombuffer(payload.buffers()[1], dtype=np.int32)
    return np.diff(offsets[: len(payload) + 1])


def _reason(message: Any, rules: MappingRules) -> str:  # noqa: ANN401 - a message of librdkafka
    key, value = message.key(), message.value()
    if value is not None and len(value) > rules.payload_bytes_max:
        return f"value of {len(value)} bytes; payload_bytes_max is {rules.payload_bytes_max}"
    if rules.primary == "timestamp" and message.timestamp()[0] == _NO_TIMESTAMP_TYPE:
        return "no timestamp, and the primary comes from it"
    if key is None:
        return "no key, and null_key is dead-letter"
    return f"key of {len(key)} bytes; an integer key has {KEY_BYTES}"


def encode_dead_letter(message: Any, reason: str) -> bytes:  # noqa: ANN401 - a message of librdkafka
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
            "headers": None
            if message.headers() is None
            else [[name, _text(value)] for name, value in message.headers()],
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

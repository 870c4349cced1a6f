"""How a topic's records become rows: the choices a stream is made with, as values."""

from dataclasses import dataclass
from typing import Final, Literal

KeyMode = Literal["integer", "none"]
PrimaryFrom = Literal["timestamp", "offset"]
NullKey = Literal["keep", "dead-letter"]

KEY_BYTES: Final = 4
# The id of records without a key.
NULL_KEY_ID: Final = -1
NO_TIMESTAMP_TYPE: Final = 0


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

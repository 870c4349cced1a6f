"""What the store keeps beside its rows, in one WriteBatch with them: attachments, by their keys.

    p                                            the largest primary of the shard, u64
    c context                                    how many events of the context were stored, u64
    i bucket window size context key             where the event of an idempotency key is

`bucket` is the begin of a window of idempotency, in µs, u64; `window` its length in seconds, u32;
`size` that of the context, u16. All numbers are big-endian, so that old buckets are a range. The
value is the event's address, u64, and the digest of its payload.
"""

import json
import struct
from collections.abc import Mapping
from datetime import timedelta
from hashlib import blake2b
from typing import Final

FAMILY: Final = "default"
KEY_LAST: Final = b"p"
_COUNT: Final = b"c"
_IDEMPOTENCY: Final = b"i"
_NUMBER: Final = struct.Struct(">Q")
_HEAD: Final = struct.Struct(">QIH")
_DIGEST_BYTES: Final = 16
_SECOND_US: Final = 10**6


def encode_number(number: int) -> bytes:
    """Return the value of a count or of a primary."""
    return _NUMBER.pack(number)


def decode_number(data: bytes | None) -> int:
    """Return what `encode_number` was given; 0 where nothing lies."""
    return 0 if data is None else int(_NUMBER.unpack(data)[0])


def count_key(context: bytes) -> bytes:
    """Return where the number of a context's events lies."""
    return _COUNT + context


def encode_counts(family: str, counts: Mapping[bytes, int]) -> list[tuple[str, bytes, bytes]]:
    """Return what lies beside the rows for the numbers of contexts' events."""
    pack = _NUMBER.pack
    return [(family, _COUNT + context, pack(count)) for context, count in counts.items()]


def encode_first(address: int, digest: bytes) -> bytes:
    """Return the value of an idempotency key."""
    return _NUMBER.pack(address) + digest


def decode_first(data: bytes) -> tuple[int, bytes]:
    """Return what `encode_first` was given."""
    return int(_NUMBER.unpack_from(data)[0]), data[_NUMBER.size :]


def digest_of(payload: Mapping[str, object] | None, row: str | None = None) -> bytes:
    """Return what tells a payload from another, in whatever order its fields are written.

    Args:
        payload: The fields; None of a deletion.
        row: Which row of state it is of.
    """
    digested: object = payload if not row and payload is not None else [payload, row]
    text = json.dumps(digested, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()


class IdempotencyKeys:
    """Where idempotency keys lie: in buckets of time, of which the last two are looked at."""

    def __init__(self, window: timedelta) -> None:
        """Remember keys for a window at least, twice as long at most."""
        self._window_s = max(1, int(window.total_seconds()))
        self._window_us = self._window_s * _SECOND_US

    def key(self, bucket: int, context: bytes, key: bytes) -> bytes:
        """Return where a key lies that is stored in a bucket."""
        begin = bucket * self._window_us
        return _IDEMPOTENCY + _HEAD.pack(begin, self._window_s, len(context)) + context + key

    def places(self, primary: int, context: bytes, key: bytes) -> tuple[bytes, bytes]:
        """Return where a key may lie, the newer first: by that it is stored now."""
        bucket = self.bucket(primary)
        return self.key(bucket, context, key), self.key(max(0, bucket - 1), context, key)

    def bucket(self, primary: int) -> int:
        """Return the bucket of a time."""
        return primary // self._window_us

    def old(self, primary: int) -> tuple[bytes, bytes]:
        """Return the range of keys that are forgotten by now."""
        begin = max(0, self.bucket(primary) - 1) * self._window_us
        return _IDEMPOTENCY, _IDEMPOTENCY + _NUMBER.pack(begin)

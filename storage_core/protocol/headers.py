"""The headers by which a server and a client say who they are, and what they speak.

Shardlog-Protocol      number of the protocol; in each answer, and in a question if it insists
Shardlog-Version       version of shardlog; in each answer
Shardlog-Root          id of the root; in each answer. In a question: refuse if it is another
Shardlog-Incarnation   of the stream, likewise
Shardlog-Lineages      which logs the client has known since it opened the stream:
                       <shards>.<digest>, the shards as in 0-2,7. One that was reset since, is
                       refused; shards that were added, are not
Shardlog-Reached       <shard>:<address>,…: how far the client knows logs to be committed. A server
                       that is behind that, as one that sees files later or has an older copy,
                       refuses as not available
Shardlog-Compression   none, lz4 or zstd: how buffers of rows may be compressed
Authorization          Bearer <token>
"""

import hmac
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final

from storage_core.errors import InvalidRequestError

PROTOCOL_NUMBER: Final = 1
PROTOCOL: Final = "Shardlog-Protocol"
VERSION: Final = "Shardlog-Version"
ROOT: Final = "Shardlog-Root"
INCARNATION: Final = "Shardlog-Incarnation"
LINEAGES: Final = "Shardlog-Lineages"
REACHED: Final = "Shardlog-Reached"
COMPRESSION: Final = "Shardlog-Compression"
COMPRESSIONS: Final = ("none", "lz4", "zstd")
AUTHORIZATION: Final = "Authorization"
MEDIA_JSON: Final = "application/json"
MEDIA_ROWS: Final = "application/vnd.apache.arrow.stream"

_DIGEST_BYTES: Final = 8
_DIGITS_MAX: Final = 19
_BEARER: Final = "Bearer "


def bearer(token: str) -> str:
    """Return the value of the header that carries a token."""
    return _BEARER + token


def encode_lineages(lineages: Mapping[int, str]) -> str:
    """Return what stands for the logs of these shards, their lineages in hex."""
    return f"{_encode_numbers(lineages)}.{_digest(lineages, lineages)}"


def matches_lineages(text: str, lineages: Mapping[int, str]) -> bool:
    """Tell whether `encode_lineages` was given some of these shards, or all of them."""
    numbers, _, digest = text.partition(".")
    shards = _decode_numbers(numbers, lineages)
    if shards is None:
        return False
    return hmac.compare_digest(digest.encode(), _digest(shards, lineages).encode())


def encode_reached(committed: Mapping[int, int]) -> str:
    """Return how far shards are known to be committed."""
    return ",".join(f"{shard}:{address}" for shard, address in sorted(committed.items()))


def decode_reached(text: str) -> dict[int, int]:
    """Return what `encode_reached` was given.

    Raises:
        InvalidRequestError: It was given nothing of the kind.
    """
    pairs = [part.split(":") for part in text.split(",")] if text else []
    if not all(len(pair) == 2 and all(map(_is_number, pair)) for pair in pairs):  # noqa: PLR2004 - a pair
        message = f"{REACHED} is not <shard>:<address>, with commas between"
        raise InvalidRequestError(message)
    return {int(shard): int(address) for shard, address in pairs}


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX


def _encode_numbers(shards: Iterable[int]) -> str:
    """Return numbers as ranges, lowest first: 0-2,7."""
    ranges: list[list[int]] = []
    for shard in sorted(shards):
        if ranges and ranges[-1][1] == shard - 1:
            ranges[-1][1] = shard
        else:
            ranges.append([shard, shard])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def _decode_numbers(text: str, among: Mapping[int, str]) -> list[int] | None:
    """Return what `_encode_numbers` was given; None where not all are among some."""
    numbers: list[int] = []
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        ends = first, last or first
        if not all(map(_is_number, ends)):
            return None
        numbers_of_part = range(int(ends[0]), int(ends[1]) + 1)
        if len(numbers) + len(numbers_of_part) > len(among):
            return None
        numbers += numbers_of_part
    return numbers if all(number in among for number in numbers) else None


def _digest(shards: Iterable[int], lineages: Mapping[int, str]) -> str:
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for shard in sorted(shards):
        digest.update(f"{shard}:{lineages[shard]}\n".encode())
    return digest.hexdigest()

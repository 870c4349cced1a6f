"""The headers by which a server and a client say who they are, and what they speak.

Shardlog-Protocol      number of the protocol; in each answer, and in a question if it insists
Shardlog-Version       version of shardlog; in each answer
Shardlog-Root          id of the root; in each answer. In a question: refuse if it is another
Shardlog-Incarnation   of the stream, likewise
Shardlog-Lineages      which logs the client has known since it opened the stream:
                       <count>.<digest> over the shards of the least numbers. One that was reset
                       since, is refused; shards that were added, are not
Shardlog-Compression   none, lz4 or zstd: how buffers of rows may be compressed
Authorization          Bearer <token>
"""

import hmac
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

PROTOCOL_NUMBER: Final = 1
PROTOCOL: Final = "Shardlog-Protocol"
VERSION: Final = "Shardlog-Version"
ROOT: Final = "Shardlog-Root"
INCARNATION: Final = "Shardlog-Incarnation"
LINEAGES: Final = "Shardlog-Lineages"
COMPRESSION: Final = "Shardlog-Compression"
COMPRESSIONS: Final = ("none", "lz4", "zstd")
AUTHORIZATION: Final = "Authorization"
MEDIA_JSON: Final = "application/json"
MEDIA_ROWS: Final = "application/vnd.apache.arrow.stream"

_DIGEST_BYTES: Final = 8
_BEARER: Final = "Bearer "


def bearer(token: str) -> str:
    """Return the value of the header that carries a token."""
    return _BEARER + token


def encode_lineages(lineages: Mapping[int, str]) -> str:
    """Return what stands for the logs of these shards, their lineages in hex."""
    return _digest_of_first(lineages, len(lineages))


def matches_lineages(text: str, lineages: Mapping[int, str]) -> bool:
    """Tell whether `encode_lineages` was given the first of these shards, or all of them."""
    count, _, _ = text.partition(".")
    if not (count.isascii() and count.isdecimal()) or len(count) > len(str(len(lineages))):
        return False
    if int(count) > len(lineages):
        return False
    return hmac.compare_digest(text.encode(), _digest_of_first(lineages, int(count)).encode())


def _digest_of_first(lineages: Mapping[int, str], count: int) -> str:
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for shard in sorted(lineages)[:count]:
        digest.update(f"{shard}:{lineages[shard]}\n".encode())
    return f"{count}.{digest.hexdigest()}"

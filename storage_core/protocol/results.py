"""What each call that answers in JSON returns, to a document and back: one table for both sides."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa

from storage_core.catalog.position import Position
from storage_core.errors import ForeignDataError, ShardlogError
from storage_core.protocol.calls import Call
from storage_core.protocol.documents import (
    decode_by_shard,
    decode_extents,
    decode_facts,
    decode_number,
    decode_numbers,
    decode_pairs,
    decode_pairs_by_shard,
    decode_parts,
    decode_schemas,
    decode_state,
    decode_stats,
    encode_by_shard,
    encode_extents,
    encode_facts,
    encode_parts,
    encode_schemas,
    encode_state,
)
from storage_core.protocol.snapshots import decode_snapshot, encode_snapshot

# What a decoder raises at a document that is none of ours.
_UNLIKE: Final = (
    *(ValueError, TypeError, LookupError, AttributeError, OverflowError),
    *(RecursionError, pa.ArrowException, ShardlogError),
)


@dataclass(frozen=True, slots=True)
class _Codec:
    """How what a call returns becomes a document, and back."""

    encode: Callable[[Any], Any] = lambda value: value
    decode: Callable[[Any], Any] = lambda document: document


_PLAIN: Final = _Codec()
_NUMBER: Final = _Codec(decode=decode_number)
_TRUTH: Final = _Codec(decode=lambda value: _of_type(value, bool))
_TEXTS: Final = _Codec(list, lambda values: [_of_type(value, str) for value in values])
_BY_SHARD: Final = _Codec(encode_by_shard, decode_by_shard)
_PAIRS_BY_SHARD: Final = _Codec(encode_by_shard, decode_pairs_by_shard)
_FACTS: Final = _Codec(encode_facts, decode_facts)
_SCHEMAS: Final = _Codec(encode_schemas, decode_schemas)
CODECS: Final[Mapping[str, _Codec]] = {
    "server": _PLAIN,
    "streams": _TEXTS,
    "facts": _FACTS,
    "refresh": _FACTS,
    "committed": _BY_SHARD,
    "position": _Codec(
        lambda position: json.loads(position.to_json()),
        lambda document: Position.from_json(json.dumps(document)),
    ),
    "wait": _TRUTH,
    "earliest": _Codec(decode=lambda value: None if value is None else decode_number(value)),
    "lost_ranges": _PAIRS_BY_SHARD,
    "gaps": _PAIRS_BY_SHARD,
    "unsealed": _BY_SHARD,
    "untrimmed": _BY_SHARD,
    "parts": _Codec(encode_parts, decode_parts),
    "snapshot": _Codec(encode_snapshot, decode_snapshot),
    "stats": _Codec(asdict, decode_stats),
    "state": _Codec(encode_state, decode_state),
    "source": _PLAIN,
    "schemas": _SCHEMAS,
    "shard_schemas": _SCHEMAS,
    "start": _NUMBER,
    "horizon": _Codec(list, decode_numbers),
    "missing": _Codec(list, decode_pairs),
    "owners": _Codec(encode_extents, decode_extents),
    "sizes": _BY_SHARD,
    # Those that write answer in documents of transactions (transactions/documents.py).
    "create": _PLAIN,
    "staging": _PLAIN,
    "decided": _PLAIN,
    "claim": _PLAIN,
    "stage": _PLAIN,
    "land": _PLAIN,
    "collect": _PLAIN,
    "discard": _PLAIN,
}


def encode_result(call: Call, value: object) -> bytes:
    """Return the body of an answer."""
    document = {"result": CODECS[call.name].encode(value)}
    return json.dumps(document, separators=(",", ":")).encode()


def decode_result(call: Call, body: bytes) -> Any:  # noqa: ANN401 - each call has its own
    """Return what `encode_result` was given.

    Raises:
        ForeignDataError: Somebody else has answered.
    """
    try:
        return CODECS[call.name].decode(json.loads(body)["result"])
    except _UNLIKE as error:
        message = f"what `{call.name}` was answered is not what a shardlog server returns: {error}"
        raise ForeignDataError(message) from error


def _of_type(value: Any, kind: type) -> Any:  # noqa: ANN401 - JSON
    if not isinstance(value, kind):
        message = f"{value!r} is no {kind.__name__}"
        raise TypeError(message)
    return value

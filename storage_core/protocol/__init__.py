"""The protocol between a server over shards and its clients: calls, answers, errors, identity.

It needs pyarrow and numpy alone. The server is in connectors/serve; whoever speaks to one stands on
the same tables, so that what a call takes and what it returns is written down once.
"""

from storage_core.protocol.calls import (
    CALLS,
    STREAM_PARAMETERS,
    AnswerKind,
    Call,
    Right,
    call_named,
    request_values,
)
from storage_core.protocol.documents import ShardExtent, StreamFacts
from storage_core.protocol.error_documents import (
    decode_error,
    encode_error,
    error_from_answer,
    status_of,
)
from storage_core.protocol.headers import (
    AUTHORIZATION,
    COMPRESSION,
    COMPRESSIONS,
    INCARNATION,
    LINEAGES,
    MEDIA_JSON,
    MEDIA_ROWS,
    PROTOCOL,
    PROTOCOL_NUMBER,
    REACHED,
    ROOT,
    VERSION,
    bearer,
    decode_reached,
    encode_lineages,
    encode_reached,
    matches_lineages,
)
from storage_core.protocol.parameters import (
    Parameter,
    decode_body,
    decode_query,
    encode_body,
    encode_query,
)
from storage_core.protocol.results import decode_result, encode_result
from storage_core.protocol.row_stream import Compression, RowStream, encode_rows

__all__ = [
    "AUTHORIZATION",
    "CALLS",
    "COMPRESSION",
    "COMPRESSIONS",
    "INCARNATION",
    "LINEAGES",
    "MEDIA_JSON",
    "MEDIA_ROWS",
    "PROTOCOL",
    "PROTOCOL_NUMBER",
    "REACHED",
    "ROOT",
    "STREAM_PARAMETERS",
    "VERSION",
    "AnswerKind",
    "Call",
    "Compression",
    "Parameter",
    "Right",
    "RowStream",
    "ShardExtent",
    "StreamFacts",
    "bearer",
    "call_named",
    "decode_body",
    "decode_error",
    "decode_query",
    "decode_reached",
    "decode_result",
    "encode_body",
    "encode_error",
    "encode_lineages",
    "encode_query",
    "encode_reached",
    "encode_result",
    "encode_rows",
    "error_from_answer",
    "matches_lineages",
    "request_values",
    "status_of",
]

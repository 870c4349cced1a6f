"""The one table of calls: what each takes and returns, and which right it needs.

    GET | POST /v1/<call>                     of the server
    GET | POST /v1/streams/<stream>/<call>    of a stream

Parameters come in the query of a GET, or in the JSON body of a POST (parameters.py). A call that
returns `json` answers {"result": …} (results.py), one that returns `rows` an Arrow stream with an
end of its own (row_stream.py); a refusal answers {"error": …} (error_documents.py). Calls of a
stream that read have the names of `StreamReader`'s; what these take and return, they do. Those that
write are for staged transactions: each may be repeated, and then changes nothing more. They take
POST alone, and `stage` its parameters in the query, since its body is an Arrow stream: plain
values, not compressed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, get_args
from urllib.parse import quote

from storage_core.errors import InvalidRequestError
from storage_core.format.keys import INT32_MAX, INT32_MIN, INT64_MAX
from storage_core.protocol.parameters import Parameter
from storage_core.read.request import LatestBy, Order, ReadRequest

AnswerKind = Literal["json", "rows"]
Right = Literal["read", "write"]
Scope = Literal["server", "stream"]

# Longer than that nobody waits at once: who waits asks again.
WAIT_S_MAX: Final = 30.0
_VERSION_MAX: Final = 2**16 - 1
_PART_NUMBER_MAX: Final = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Call:
    """One call.

    Attributes:
        name: Its name, the last of its path.
        about: What it returns, in a few words.
        answer: What kind of answer it has.
        parameters: What it takes.
        scope: Whether it is of a stream.
        right: What a token must allow.
        takes_rows: Whether its body is rows, and its parameters are in the query.
    """

    name: str
    about: str
    answer: AnswerKind = "json"
    parameters: tuple[Parameter, ...] = ()
    scope: Scope = "stream"
    right: Right = "read"
    takes_rows: bool = False

    @property
    def all_parameters(self) -> tuple[Parameter, ...]:
        """What it takes, with what each call takes that reads a stream."""
        is_read = self.scope == "stream" and self.right == "read"
        return (*self.parameters, *(STREAM_PARAMETERS if is_read else ()))

    def path(self, stream: str | None = None) -> str:
        """Return the path of the call, of a stream if it is of one."""
        if self.scope == "server":
            return f"/v1/{self.name}"
        return f"/v1/streams/{quote(stream or '', safe='')}/{self.name}"


# What each call of a stream takes beside its own: a lineage, or what it begins with.
STREAM_PARAMETERS: Final = (Parameter("archived", "text"),)

_SHARD: Final = Parameter("shard", "integer", is_required=True, least=0, most=INT32_MAX)
_SHARD_OR_ALL: Final = Parameter("shard", "integer", least=0, most=INT32_MAX)
_IDS: Final = Parameter("ids", "integers", least=INT32_MIN, most=INT32_MAX)
_KEYS: Final = Parameter("keys", "keys")
_START: Final = Parameter("start", "integer")
_END: Final = Parameter("end", "integer")
_FROM: Final = Parameter("from_", "integer")
_LIMIT: Final = Parameter("limit", "integer", least=0)
_VERSIONS: Final = Parameter("versions", "integers", least=0, most=_VERSION_MAX)
_COLUMNS: Final = Parameter("columns", "texts")
_LATEST_BY: Final = Parameter("latest_by", "text", choices=get_args(LatestBy))
_TOMBSTONES: Final = Parameter("tombstones", "truth")
_REGISTRY_ID: Final = Parameter("registry_id", "integer", least=INT32_MIN, most=INT32_MAX)


def _address(name: str, *, is_required: bool = False) -> Parameter:
    return Parameter(name, "integer", is_required=is_required, least=0, most=INT64_MAX)


_OF_REQUEST: Final = (
    *(_SHARD, _address("start_address"), _address("end_address"), _START, _END, _IDS, _VERSIONS),
    *(_COLUMNS, Parameter("order", "text", choices=get_args(Order)), _LIMIT, _KEYS, _LATEST_BY),
    *(_TOMBSTONES, _address("expired_until")),
)

_OF_SERVER: Final = (
    Call("server", "who the server is: version, root, process", scope="server"),
    Call("streams", "the names of the streams", scope="server"),
)
_ROWS: Final = (
    Call(
        "read",
        "rows by (secondary, primary, shard, address)",
        "rows",
        (_IDS, _START, _END, _LIMIT, _KEYS, _VERSIONS, _LATEST_BY, _TOMBSTONES, _COLUMNS),
    ),
    Call("scan", "rows by arrival", "rows", (_IDS, _START, _END, _KEYS, _VERSIONS, _COLUMNS)),
    Call(
        "tail",
        "a shard's rows by address, with their state",
        "rows",
        (_SHARD, _address("start_address"), _address("end_address"), _IDS, _COLUMNS, _KEYS),
    ),
    Call("records", "rows id by id, as `for_each` has them", "rows", (_IDS, _START, _END, _KEYS)),
    Call("latest", "the newest row of each id", "rows", (_IDS, _KEYS)),
    Call(
        "available",
        "first + width, as the stream's result, and the rows to there",
        "rows",
        (_IDS, _FROM, Parameter("width", "integer", least=0), _LIMIT, _KEYS),
    ),
    Call("scan_shard", "what one `ReadRequest` asks of its shard", "rows", _OF_REQUEST),
    Call(
        "dead_letters",
        "a shard's dead letters: address, dead_letter",
        "rows",
        (_SHARD, _address("start"), _address("end")),
    ),
    Call(
        "part_bytes",
        "bytes of a part's file, for SQL; with the result `gone` there is no such file",
        "rows",
        (
            _SHARD,
            Parameter("number", "integer", is_required=True, least=0, most=_PART_NUMBER_MAX),
            _address("start", is_required=True),
            _address("end", is_required=True),
        ),
    ),
)
_FACTS: Final = (
    Call("facts", "options, origin, incarnation, lineages and births, read anew"),
    Call("refresh", "each shard's committed, with shards and options that came since"),
    Call("committed", "each shard's committed"),
    Call("position", "where the stream stands"),
    Call(
        "wait",
        "whether the address is committed",
        parameters=(
            _SHARD,
            _address("address", is_required=True),
            Parameter("timeout", "seconds", is_required=True, least=0, most=WAIT_S_MAX),
        ),
    ),
    Call("earliest", "the least primary from `from_` on", parameters=(_IDS, _FROM, _KEYS)),
    Call("lost_ranges", "each shard's lost ranges"),
    Call("gaps", "each shard's gaps"),
    Call("unsealed", "each shard's committed addresses that are in no part"),
    Call("untrimmed", "each shard's addresses that are in parts and blocks"),
    Call("parts", "the parts of the shards, with their paths on the server"),
    Call("snapshot", "the parts at one moment, with what hides rows and their columns, for SQL"),
    Call("stats", "what one shard has counted, or all", parameters=(_SHARD_OR_ALL,)),
    Call("state", "what one shard reports of itself", parameters=(_SHARD,)),
    Call("source", "where the source of a shard's rows stands", parameters=(_SHARD,)),
    Call("schemas", "the schemas of the rows", parameters=(_REGISTRY_ID,)),
    Call("shard_schemas", "those of a shard, as they came", parameters=(_SHARD, _REGISTRY_ID)),
    Call("start", "the first address a shard still has or will have", parameters=(_SHARD,)),
    Call("horizon", "where a shard starts, and its generation", parameters=(_SHARD,)),
    Call(
        "missing",
        "what of a range cannot be read any more",
        parameters=(
            _SHARD,
            _address("start", is_required=True),
            _address("end", is_required=True),
            _address("expired_until"),
        ),
    ),
    Call("owners", "what of each shard lies here, and which process holds it"),
    Call("sizes", "each shard's bytes on the server's disk"),
)

_OF_TRANSACTION: Final = (
    Parameter("series", "text", is_required=True),
    Parameter("number", "integer", least=0),
)
_WRITES: Final = (
    Call(
        "create",
        "makes the stream; `options` is a text with a JSON object",
        parameters=(Parameter("options", "text", is_required=True),),
        right="write",
    ),
    Call("staging", "incarnation, options and origin, before rows are staged", right="write"),
    Call(
        "decided",
        "whether a transaction is decided, what it held, and how far its series is",
        parameters=_OF_TRANSACTION,
        right="write",
    ),
    Call(
        "claim",
        "whose a name is, the owner's unless it was taken",
        parameters=(
            Parameter("name", "text", is_required=True),
            Parameter("owner", "text", is_required=True),
            Parameter("takes_over", "truth"),
        ),
        right="write",
    ),
    Call(
        "stage",
        "stages the rows of the body, durably: what each shard has in which file",
        parameters=_OF_TRANSACTION,
        right="write",
        takes_rows=True,
    ),
    Call(
        "collect",
        "notes staged parts under one name, for `land` with more than a request takes",
        parameters=(*_OF_TRANSACTION, Parameter("parts", "texts", is_required=True)),
        right="write",
    ),
    Call(
        "land",
        "makes what is staged the transaction, durable and visible: is_done, and rows late by size",
        parameters=(
            *_OF_TRANSACTION,
            Parameter("parts", "texts"),
            Parameter("contents", "text"),
            Parameter("wait", "seconds", is_required=True, least=0, most=WAIT_S_MAX),
            Parameter("purpose", "text"),
            Parameter("keeps", "truth"),
        ),
        right="write",
    ),
    Call(
        "discard",
        "removes attempts that are not in the transaction",
        parameters=(*_OF_TRANSACTION, Parameter("attempts", "texts", is_required=True)),
        right="write",
    ),
)

CALLS: Final[Mapping[str, Call]] = {
    call.name: call for call in (*_OF_SERVER, *_ROWS, *_FACTS, *_WRITES)
}


def call_named(name: str, *, of_stream: bool) -> Call:
    """Return a call of the server, or of a stream.

    Raises:
        InvalidRequestError: There is none.
    """
    call = CALLS.get(name)
    if call is None or (call.scope == "stream") != of_stream:
        scope = "stream" if of_stream else "server"
        names = ", ".join(sorted(one.name for one in CALLS.values() if one.scope == scope))
        message = f"there is no call {name[:80]!r} of a {scope}; there are {names}"
        raise InvalidRequestError(message)
    return call


def request_values(request: ReadRequest) -> dict[str, Any]:
    """Return a request as the parameters of `scan_shard`; `bytes_max` is the server's to say."""
    # What has its default is left out.
    defaults = ReadRequest(0)
    names = (one.name for one in fields(ReadRequest) if one.name not in ("shard", "bytes_max"))
    values = {name: getattr(request, name) for name in names}
    changed = {name: value for name, value in values.items() if value != getattr(defaults, name)}
    return {"shard": request.shard, **changed}

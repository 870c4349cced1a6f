"""Where the shards of a stream come from, if they are the partitions of something outside.

A stream with an origin has one shard a partition: a shard's number is the partition's, an
address is the place in the partition. Shards are added as partitions appear, each born at the
address where its copy begins; rows go to the shard that the caller names, and any shard may
hold any id. A stream without an origin routes by secondary over shards made with it.

A partition may have a second shard beside its own, for rows that its own can take no more. These
are numbered from RETRY_SHARDS_FROM on; they are no partitions, and take nothing of what those get.

The log never asks the origin anything; whoever feeds the stream compares it with what is there.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Literal, TypeGuard, get_args

from storage_core.catalog.options import check_choice
from storage_core.errors import InvalidRequestError

OriginKind = Literal["kafka"]
OriginKeyMode = Literal["integer", "dictionary", "none"]
ValueFormat = Literal["raw", "avro", "json"]

# A partition's retry shard is the one so much above it.
RETRY_SHARDS_FROM: Final = 1_000_000
KIND_PLAIN: Final = "stream"
# What a primary or a secondary begins with that is a field of the value.
FIELD: Final = "field:"
_PRIMARIES: Final = ("timestamp", "offset")
_SECONDARIES: Final = ("key",)
_FIELD_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}\Z")
_TOPIC_ID_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class StreamOrigin:
    """What a stream is a copy of, and how its records became rows; fixed when it is made.

    Attributes:
        kind: What the shards are partitions of.
        topic: The topic's name.
        topic_id: The topic's id; a topic made anew under the name has another.
        key_mode: `integer`: the record's key is the secondary; `dictionary`: rows belong to keys
            of any bytes; `none`: keys are only carried.
        primary: What the primary is: the record's `timestamp`, its `offset`, or a field of its
            value, as `field:name`.
        value_format: `avro`: values are framed and have schemas; `json`: texts of JSON that have
            the schemas of event types, or framed ones that have those of a registry; `raw`: bytes.
        secondary: What rows belong to, as `key_mode` says: the record's `key`, or a field of its
            value; with `dictionary` that field's bytes are the row's key then.
        event_type: The type that `json` values are events of; None where they name schemas.
    """

    kind: OriginKind
    topic: str
    topic_id: str
    key_mode: OriginKeyMode
    primary: str
    value_format: ValueFormat = "raw"
    secondary: str = "key"
    event_type: str | None = None

    def __post_init__(self) -> None:
        """Refuse what has no meaning, naming the field."""
        check_choice("kind", self.kind, get_args(OriginKind))
        check_choice("key_mode", self.key_mode, get_args(OriginKeyMode))
        check_choice("value_format", self.value_format, get_args(ValueFormat))
        self._check_source("primary", self.primary, _PRIMARIES)
        self._check_source("secondary", self.secondary, _SECONDARIES)
        if self.event_type is not None and not (
            self.value_format == "json" and is_stream_name(self.event_type)
        ):
            message = f"event_type: {self.event_type!r} is no type of values in {self.value_format}"
            raise InvalidRequestError(message)
        topic: object = self.topic
        if not is_stream_name(topic):
            message = f"topic: {topic!r} is not a topic's name"
            raise InvalidRequestError(message)
        topic_id: object = self.topic_id
        if not isinstance(topic_id, str) or not 0 < len(topic_id) <= _TOPIC_ID_MAX:
            message = f"topic_id: {topic_id!r} is not a text of 1 to {_TOPIC_ID_MAX} letters"
            raise InvalidRequestError(message)

    @property
    def has_ids(self) -> bool:
        """Whether rows belong to integer ids: their records' keys, or a field of the values."""
        return self.key_mode == "integer" or (
            self.key_mode == "none" and field_of(self.secondary) is not None
        )

    def _check_source(self, name: str, source: object, others: tuple[str, ...]) -> None:
        if field_of(source) is None:
            check_choice(name, source, others)
        elif self.value_format == "raw":
            message = f"{name}: {source!r} is a field, and values in format raw have none"
            raise InvalidRequestError(message)


def field_of(source: object) -> str | None:
    """Return the name of the field that a primary or a secondary is, None if it is none."""
    if not isinstance(source, str) or not source.startswith(FIELD):
        return None
    name = source.removeprefix(FIELD)
    return name if _FIELD_NAME.match(name) else None


_FIELDS: Final = tuple(one.name for one in fields(StreamOrigin))
_EVENT_TYPE: Final = "event_type"


def is_stream_name(name: object) -> TypeGuard[str]:
    """Tell whether a stream, or a topic of Kafka's, can have this name; the rule is Kafka's."""
    return isinstance(name, str) and bool(_NAME.match(name)) and name not in (".", "..")


def encode_origin(origin: StreamOrigin | None) -> dict[str, object]:
    """Return the fields of stream.json that tell of an origin, or that there is none."""
    if origin is None:
        return {name: None for name in _FIELDS if name != _EVENT_TYPE} | {"kind": KIND_PLAIN}
    document = asdict(origin)
    if origin.event_type is None:
        # Only streams of events have it.
        del document[_EVENT_TYPE]
    return document


def decode_origin(document: Mapping[str, Any]) -> StreamOrigin | None:
    """Return what `encode_origin` was given.

    Raises:
        InvalidRequestError: The document tells of a kind or mode that is not known here.
    """
    if document.get("kind") == KIND_PLAIN:
        return None
    return StreamOrigin(*map(document.get, _FIELDS))  # type: ignore[arg-type]  # __post_init__ checks the values

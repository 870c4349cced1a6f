"""The section `[stream]`: how a topic's stream is created and how its records become rows.

A stream keeps the settings it was created with, so that settings meant for a new topic do not harm
existing streams; idle_settings.py lists those of the file that do not apply to one.
"""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from storage_core import StreamOptions, StreamOrigin

KeyMode = Literal["integer", "dictionary", "none"]
ValueFormat = Literal["raw", "avro", "json"]
NullKey = Literal["keep", "dead-letter"]
TimeUnit = Literal["s", "ms", "us", "ns", "sequence"]
Count = Annotated[int, Field(ge=1)]

_PAYLOAD_BYTES_MAX: Final = 16 * 2**20
_RETENTION_HOURS_MAX: Final = 24 * 365 * 1000
_MINUTES_MAX: Final = 60 * _RETENTION_HOURS_MAX
_MINUTE: Final = timedelta(minutes=1)
_DEFAULTS: Final = StreamOptions()
PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_FIELD: Final = "field:"
# In `lake`, stands for the topic whose table it is.
TOPIC: Final = "{topic}"
_PROBE: Final = "t"
_BRACES: Final = frozenset("{}")
_TYPE_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,199}\Z")
_FIELD_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def field_of(source: str) -> str | None:
    """Return the name of the value's field that a primary or a secondary is, None if it is none."""
    return source.removeprefix(_FIELD) if source.startswith(_FIELD) else None


def names_schemas(value_format: ValueFormat, event_type: str | None) -> bool:
    """Tell whether each value names the schema of a registry that it is written by."""
    return value_format == "avro" or (value_format == "json" and event_type is None)


def _check_primary(source: str) -> str:
    return _check_source(source, ("timestamp", "offset"))


def _check_secondary(source: str) -> str:
    return _check_source(source, ("key",))


def _check_source(source: str, others: tuple[str, ...]) -> str:
    field = field_of(source)
    if source not in others and (field is None or not _FIELD_NAME.match(field)):
        message = f'{source!r} is neither {", ".join(others)} nor a field, as "field:name"'
        raise ValueError(message)
    return source


def _check_event_type(name: str) -> str:
    if not _TYPE_NAME.match(name):
        message = (
            f"{name!r} cannot be the name of a type: it has letters, digits and _, begins with a "
            "letter, and is at most 200 long"
        )
        raise ValueError(message)
    return name


class Section(BaseModel):
    """A section of settings; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class StreamSettings(Section):
    """How a topic's stream is made, and how its records become rows.

    Attributes:
        value_format: `avro`: values are framed by a schema registry's serializer, and a record
            whose value is not what its schema says is a dead letter; `json`: values are texts of
            JSON, and one that STORE would not take is a dead letter; `raw`: any bytes.
        event_type: The type that JSON values are events of, as DEFINE made it.
        primary: `timestamp` (milliseconds), `offset` (a sequence), or `field:name`: a field of the
            values, a time or a number.
        secondary: `key`, or `field:name`: a field of the values; an integer, or with key_mode
            `dictionary` a text or bytes, which stand in place of the record's key then.
        unit: What a primary from a field counts; None means ms. Times are converted to it, and
            numbers are taken as they are.
        key_mode: `integer`: keys are 4-byte big-endian ids; `dictionary`: records belong to keys of
            any bytes; `none`: keys are only carried.
        null_key: In mode `integer`, `keep` a record without a key under id -1, in mode `dictionary`
            under no key; or make it a `dead-letter`.
        jitter_ms: How far behind its id's largest timestamp a record is still normal.
        ahead_max_ms: How far ahead of the clock a timestamp may be; None means one day.
        retention_hours: How long records are kept, judged by timestamp; None keeps all.
        payload_bytes_max: A larger value is a dead letter.
        seal_rows: How many rows of a shard wait before they become parts.
        seal_after_minutes: How long the oldest of them waits at most.
        keep_hot_hours: How long blocks stay beside their parts; None for good.
        keep_replaced_minutes: How long files of parts stay that were merged with others.
        never_cold: Whether nothing of it becomes parts, as is right for what only lives short.
        lake: Where parts are published as a Delta table; `{topic}` stands for the topic. None for
            nowhere.
        lake_lag_seconds: How long a row waits at most until it is published.
        lake_history_hours: How long files stay in the lake that the table has no more.
        keep_local_hours: How long files of published parts stay on this machine; None for good.
    """

    value_format: ValueFormat = "raw"
    event_type: Annotated[str, AfterValidator(_check_event_type)] | None = None
    primary: Annotated[str, AfterValidator(_check_primary)] = "timestamp"
    secondary: Annotated[str, AfterValidator(_check_secondary)] = "key"
    unit: TimeUnit | None = None
    key_mode: KeyMode = "integer"
    null_key: NullKey = "keep"
    jitter_ms: Annotated[int, Field(ge=0)] = 0
    ahead_max_ms: Annotated[int, Field(ge=0)] | None = None
    retention_hours: Annotated[float, Field(gt=0, le=_RETENTION_HOURS_MAX)] | None = None
    payload_bytes_max: Count = _PAYLOAD_BYTES_MAX
    seal_rows: Count = _DEFAULTS.seal_rows
    seal_after_minutes: Annotated[float, Field(gt=0, le=_MINUTES_MAX)] = (
        _DEFAULTS.seal_after / _MINUTE
    )
    keep_hot_hours: Annotated[float, Field(gt=0, le=_RETENTION_HOURS_MAX)] | None = None
    keep_replaced_minutes: Annotated[float, Field(ge=0, le=_MINUTES_MAX)] = (
        _DEFAULTS.keep_replaced / _MINUTE
    )
    never_cold: bool = False
    lake: str | None = None
    lake_lag_seconds: Annotated[float, Field(gt=0, le=60 * _MINUTES_MAX)] = (
        _DEFAULTS.lake_lag.total_seconds()
    )
    lake_history_hours: Annotated[float, Field(ge=1, le=_RETENTION_HOURS_MAX)] = (
        _DEFAULTS.lake_history.total_seconds() / 3600
    )
    keep_local_hours: Annotated[float, Field(ge=0, le=_RETENTION_HOURS_MAX)] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        of_fields = [name for name in ("primary", "secondary") if field_of(getattr(self, name))]
        if of_fields and self.value_format == "raw":
            message = f'{of_fields[0]}: only values in a format have fields; value_format = "avro"'
            raise ValueError(message)
        if self.value_format != "json" and self.event_type is not None:
            message = 'event_type: is the type of JSON values; set value_format = "json"'
            raise ValueError(message)
        if self.unit is not None and field_of(self.primary) is None:
            message = "unit: is for a primary from a field; others have one"
            raise ValueError(message)
        if field_of(self.secondary) and self.key_mode == "none":
            message = (
                'secondary: with key_mode = "none" rows belong to no id; a field needs "integer", '
                'or "dictionary" for texts and bytes'
            )
            raise ValueError(message)
        if self.jitter_ms and self.stream_unit == "s" and self.jitter_ms % 1000:
            message = "jitter_ms: is not a whole second, the stream's unit"
            raise ValueError(message)
        place = self.stream_options(_PROBE).lake
        if place is not None and not _BRACES.isdisjoint(place):
            message = f"lake: {self.lake!r} has braces; {TOPIC} alone stands for something, a topic"
            raise ValueError(message)
        return self

    @property
    def stream_unit(self) -> TimeUnit:
        """What the stream's primaries count."""
        if field_of(self.primary) is not None:
            return self.unit or "ms"
        return "ms" if self.primary == "timestamp" else "sequence"

    @property
    def origin_key_mode(self) -> KeyMode:
        """What a record's key means to the stream; where a field is the id, it is only carried."""
        if field_of(self.secondary) and self.key_mode == "integer":
            return "none"
        return self.key_mode

    @property
    def lake_is_of_each_topic(self) -> bool:
        """Whether no two topics have one table."""
        return self.lake is None or TOPIC in self.lake

    def lake_of(self, topic: str) -> str | None:
        """Return where the table of a topic is."""
        return None if self.lake is None else self.lake.replace(TOPIC, topic)

    def stream_options(self, topic: str) -> StreamOptions:
        """Return the options that the stream of a topic is made with."""
        unit = self.stream_unit
        return StreamOptions(
            unit=unit,
            jitter=_in_unit(self.jitter_ms, unit),
            ahead_max=None
            if unit == "sequence" or self.ahead_max_ms is None
            else _in_unit(self.ahead_max_ms, unit),
            retention=_span(self.retention_hours),
            payload_bytes_max=self.payload_bytes_max,
            seal_rows=self.seal_rows,
            seal_after=self.seal_after_minutes * _MINUTE,
            keep_hot=_span(self.keep_hot_hours),
            keep_replaced=self.keep_replaced_minutes * _MINUTE,
            never_cold=self.never_cold,
            lake=self.lake_of(topic),
            lake_lag=timedelta(seconds=self.lake_lag_seconds),
            lake_history=timedelta(hours=self.lake_history_hours),
            keep_local=_span(self.keep_local_hours),
            key_mode="dictionary" if self.key_mode == "dictionary" else "none",
        )


@dataclass(frozen=True, slots=True)
class MappingRules:
    """How a topic's records become rows.

    Attributes:
        primary: Where the primary comes from.
        key_mode: What a key means.
        null_key: What becomes of a record without a key, where keys are not only carried.
        payload_bytes_max: A larger value is a dead letter.
        value_format: Whether values have a schema.
        secondary: Where what rows belong to comes from.
        unit: What primaries count.
        event_type: The type that JSON values are events of; None where they name schemas.
    """

    primary: str = "timestamp"
    key_mode: KeyMode = "integer"
    null_key: NullKey = "keep"
    payload_bytes_max: int = _PAYLOAD_BYTES_MAX
    value_format: ValueFormat = "raw"
    secondary: str = "key"
    unit: TimeUnit = "ms"
    event_type: str | None = None

    @property
    def names_schemas(self) -> bool:
        """Whether each value names the schema of a registry that it is written by."""
        return names_schemas(self.value_format, self.event_type)

    @property
    def primary_field(self) -> str | None:
        """The field of the value that is the primary, if one is."""
        return field_of(self.primary)

    @property
    def secondary_field(self) -> str | None:
        """The field of the value that rows belong to, if they belong to one."""
        return field_of(self.secondary)


def rules_of(
    settings: StreamSettings, options: StreamOptions, origin: StreamOrigin
) -> MappingRules:
    """Return how the records of a stream's topic become rows.

    Only what becomes of records without a key is not kept with the stream.
    """
    return MappingRules(
        origin.primary,
        origin.key_mode,
        settings.null_key,
        options.payload_bytes_max,
        origin.value_format,
        origin.secondary,
        options.unit,
        origin.event_type,
    )


def _in_unit(milliseconds: int, unit: TimeUnit) -> int:
    return milliseconds * PER_SECOND.get(unit, 1000) // 1000


def _span(hours: float | None) -> timedelta | None:
    return None if hours is None else timedelta(hours=hours)

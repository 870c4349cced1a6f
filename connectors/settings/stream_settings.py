"""How a topic's stream is made and its records become rows, by the file and by the stream itself.

A stream keeps what it was made with, so that settings meant for a new topic do no harm to those
that are there. Whoever changes a line and starts the worker again would otherwise believe that it
holds; `idle_settings` says which do not.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from storage_core import StreamOptions, StreamOrigin

KeyMode = Literal["integer", "dictionary", "none"]
PrimaryFrom = Literal["timestamp", "offset"]
NullKey = Literal["keep", "dead-letter"]
Count = Annotated[int, Field(ge=1)]

_FIXED: Final = "it is fixed: to have it otherwise, `shardlog drop` the stream and take it again"
_PAYLOAD_BYTES_MAX: Final = 16 * 2**20
_RETENTION_HOURS_MAX: Final = 24 * 365 * 1000


class Section(BaseModel):
    """Settings that stand together; a key that is none of them is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class StreamSettings(Section):
    """How a topic's stream is made, and how its records become rows.

    Attributes:
        primary: `timestamp` (milliseconds) or `offset` (a sequence).
        key_mode: `integer`: keys are 4-byte big-endian ids; `dictionary`: records belong to keys of
            any bytes; `none`: keys are only carried.
        null_key: In mode `integer`, `keep` a record without a key under id -1, in mode `dictionary`
            under no key; or make it a `dead-letter`.
        jitter_ms: How far behind its id's largest timestamp a record is still normal.
        ahead_max_ms: How far ahead of the clock a timestamp may be; None means one day.
        retention_hours: How long records are kept, judged by timestamp; None keeps all.
        payload_bytes_max: A larger value is a dead letter.
    """

    primary: PrimaryFrom = "timestamp"
    key_mode: KeyMode = "integer"
    null_key: NullKey = "keep"
    jitter_ms: Annotated[int, Field(ge=0)] = 0
    ahead_max_ms: Annotated[int, Field(ge=0)] | None = None
    retention_hours: Annotated[float, Field(gt=0, le=_RETENTION_HOURS_MAX)] | None = None
    payload_bytes_max: Count = _PAYLOAD_BYTES_MAX

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.stream_options()
        return self

    def stream_options(self) -> StreamOptions:
        """Return the options a stream is made with."""
        is_time = self.primary == "timestamp"
        hours = self.retention_hours
        return StreamOptions(
            unit="ms" if is_time else "sequence",
            jitter=self.jitter_ms,
            ahead_max=self.ahead_max_ms if is_time else None,
            retention=None if hours is None else timedelta(hours=hours),
            payload_bytes_max=self.payload_bytes_max,
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
    """

    primary: PrimaryFrom = "timestamp"
    key_mode: KeyMode = "integer"
    null_key: NullKey = "keep"
    payload_bytes_max: int = _PAYLOAD_BYTES_MAX


@dataclass(frozen=True, slots=True)
class IdleSetting:
    """A setting that does not count.

    Attributes:
        name: Its name in the file.
        wanted: What the file says, or its default.
        in_force: What the stream was made with, or altered to.
        advice: How the stream gets what is wanted.
    """

    name: str
    wanted: float | str | None
    in_force: float | str | None
    advice: str


def rules_of(
    settings: StreamSettings, options: StreamOptions, origin: StreamOrigin
) -> MappingRules:
    """Return how the records of a stream's topic become rows.

    Only what becomes of records without a key is not kept with the stream.
    """
    return MappingRules(
        origin.primary, origin.key_mode, settings.null_key, options.payload_bytes_max
    )


def idle_settings(
    settings: StreamSettings, options: StreamOptions, origin: StreamOrigin
) -> Iterator[IdleSetting]:
    """Yield the settings that do not count for a stream with these options and this origin.

    What is fixed is compared with defaults too; what may be altered only if the file names it:
    where it does not, the stream is meant to say.
    """
    fixed: dict[str, float | str] = {
        "primary": origin.primary,
        "key_mode": origin.key_mode,
        "jitter_ms": options.jitter,
    }
    for name, made_with in fixed.items():
        wanted = getattr(settings, name)
        if wanted != made_with:
            yield IdleSetting(name, wanted, made_with, _FIXED)
    alterable = {
        "retention_hours": _hours(options.retention),
        "payload_bytes_max": options.payload_bytes_max,
    }
    if options.unit == "ms":
        alterable["ahead_max_ms"] = options.ahead_max
    for name, in_force in alterable.items():
        wanted = getattr(settings, name)
        if name in settings.model_fields_set and wanted != in_force:
            value = "none" if wanted is None else str(wanted).removesuffix(".0")
            advice = f"`shardlog alter ROOT STREAM {name}={value}` changes it"
            yield IdleSetting(name, wanted, in_force, advice)


def _hours(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds() / 3600

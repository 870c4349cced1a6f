"""The worker's settings: one TOML file, environment over file, command line over both.

    root = "/var/lib/shardlog"
    topics = ["telemetry"]              # or: topic_pattern = "^telemetry[.].*"
    [kafka]                             # librdkafka's own names, passed through
    "bootstrap.servers" = "localhost:9092"
    "group.id" = "shardlog"
    [stream]                            # of streams that are not there yet
    primary = "timestamp"
    retention_hours = 168

Environment: SHARDLOG_ROOT, SHARDLOG_STREAM__JITTER_MS, SHARDLOG_KAFKA__GROUP_ID and so on; a
section as JSON, such as SHARDLOG_KAFKA, adds to what stands below it. KAFKA_BOOTSTRAP stands for
kafka."bootstrap.servers". An unknown key is an error.
"""

import os
import tomllib
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from connectors.settings.fault_settings import FaultSettings
from connectors.settings.mapping_rules import KeyMode, NullKey, PrimaryFrom
from connectors.settings.setting_checks import (
    BOOTSTRAP,
    GROUP,
    check_kafka,
    check_list_of_topics,
    check_pattern,
    check_topics,
    start_ms,
)
from connectors.settings.setting_text import parsed_setting
from connectors.settings.setting_variables import settings_of
from storage_core import InvalidRequestError, StreamOptions

# Sections whose keys come together from file, environment and command line.
_ON_FAULT: Final = "on_fault"
_ADDED_TO: Final = ("kafka", "stream", _ON_FAULT)
# Internal topics, and librdkafka's setting for what a pattern leaves out.
_INTERNAL: Final = "^__"
_LEFT_OUT: Final = "topic.blacklist"
_ENVIRONMENT_BOOTSTRAP: Final = "KAFKA_BOOTSTRAP"
_GROUP_DEFAULT: Final = "shardlog"
_RETENTION_HOURS_MAX: Final = 24 * 365 * 1000
_PARTITION_MAX: Final = 2**31 - 1
# What is said of kinds of faults for which pydantic has words of its own.
_SAID: Final = {"extra_forbidden": "unknown key", "tuple_type": "write a list, such as [0, 1]"}

Count = Annotated[int, Field(ge=1)]
PartitionNumber = Annotated[int, Field(ge=0, le=_PARTITION_MAX)]
_Topics = TypeVar("_Topics", bound=Collection[str])


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StreamSettings(_Settings):
    """How a topic's stream is made, and how its records become rows.

    Attributes:
        primary: `timestamp` (milliseconds) or `offset` (a sequence).
        key_mode: `integer`: keys are 4-byte big-endian ids; `none`: keys are only carried.
        null_key: In mode `integer`, `keep` a record without a key under id -1, or make it a
            `dead-letter`.
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
    payload_bytes_max: Count = 16 * 2**20

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
        )


class WorkerOptions(_Settings):
    """What one worker does.

    Attributes:
        root: The directory that holds the streams.
        topics: Topics by name.
        topic_pattern: Topics by a regular expression that begins with ^; instead of names. Topics
            that begin with two underscores are Kafka's own or a tool's, and are taken by a pattern
            only if it begins with ^__.
        mode: `group`: the group shares out the partitions; `static`: those of `partitions`.
        partitions: In mode `static`, the partitions of each topic.
        start: Where a shard begins that is not there yet: `earliest`, `latest`, or a time
            (ISO with zone, or milliseconds). Partitions and
            topics that appear later begin at their first record.
        on_overtaken: When Kafka's retention has passed records that were not stored: `stop`
            there, a fault that names them, or `skip`: record the gap and go on.
        on_fault: What becomes of a fault of one partition or topic, by kind: it is `set-aside`
            and the others go on, or it has the worker `stop`.
        dead_letters_only_max: How many dead letters a stream may get that has stored nothing,
            before the worker stops over it; 0 for any number.
        adopt: Take over a copy of a root whose shards went on elsewhere.
        linger_ms: How long records gather before they are made durable.
        round_records_max: Records at which they no longer wait.
        round_bytes_max: Bytes at which they no longer wait; twice that may gather.
        lock_wait_s: How long a new owner waits for a shard another process holds.
        broker_wait_s: How long to wait for a broker at the start.
        stop_timeout_s: How long a clean stop may take.
        kafka: Settings of librdkafka, by its names.
        stream: How streams are made that are not there yet.
    """

    root: Path
    topics: tuple[str, ...] = ()
    topic_pattern: str | None = None
    mode: Literal["group", "static"] = "group"
    partitions: dict[str, tuple[PartitionNumber, ...]] = {}
    start: str | int = "earliest"
    on_overtaken: Literal["stop", "skip"] = "stop"
    dead_letters_only_max: Annotated[int, Field(ge=0)] = 1000
    on_fault: FaultSettings = FaultSettings()
    adopt: bool = False
    linger_ms: Annotated[int, Field(ge=0, le=60_000)] = 20
    round_records_max: Annotated[int, Field(ge=1, le=1_000_000)] = 30_000
    round_bytes_max: Annotated[int, Field(ge=1, le=2**30)] = 32 * 2**20
    lock_wait_s: Annotated[float, Field(ge=0, le=3600)] = 60.0
    broker_wait_s: Annotated[float, Field(gt=0, le=3600)] = 15.0
    stop_timeout_s: Annotated[float, Field(gt=0, le=3600)] = 20.0
    kafka: dict[str, str | int | float | bool] = {}
    stream: StreamSettings = StreamSettings()

    @field_validator("root", mode="before")
    @classmethod
    def _check_root(cls, given: object) -> object:
        if given == "":
            message = "is empty; name a directory"
            raise ValueError(message)
        return given

    @field_validator("topics", mode="before")
    @classmethod
    def _check_list(cls, given: object) -> object:
        check_list_of_topics(given)
        return given

    @field_validator("topic_pattern")
    @classmethod
    def _check_pattern(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            check_pattern(pattern)
        return pattern

    @field_validator("topics", "partitions")
    @classmethod
    def _check_topics(cls, topics: _Topics) -> _Topics:
        check_topics(topics)
        return topics

    @field_validator("start", mode="before")
    @classmethod
    def _check_start(cls, start: object) -> object:
        start_ms(start)
        return start

    @field_validator("kafka", mode="before")
    @classmethod
    def _check_kafka(cls, given: object) -> object:
        if isinstance(given, Mapping):
            check_kafka(given)
        return given

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.mode == "static":
            if not self.partitions or self.topics or self.topic_pattern:
                message = "mode static takes `partitions`, and neither topics nor topic_pattern"
                raise ValueError(message)
        elif self.partitions:
            message = "`partitions` is for mode static"
            raise ValueError(message)
        elif bool(self.topics) == bool(self.topic_pattern):
            message = "name `topics`, or give a `topic_pattern`"
            raise ValueError(message)
        for topic, numbers in self.partitions.items():
            if not numbers:
                message = f"partitions.{topic}: is empty; name partitions, or leave the topic out"
                raise ValueError(message)
        if BOOTSTRAP not in self.kafka:
            message = f'kafka: "{BOOTSTRAP}" is missing (or set {_ENVIRONMENT_BOOTSTRAP})'
            raise ValueError(message)
        return self

    @property
    def kafka_settings(self) -> dict[str, object]:
        """The settings of the consumer."""
        given: dict[str, object] = {GROUP: _GROUP_DEFAULT, **self.kafka}
        if self.topic_pattern is None or self.topic_pattern.startswith(_INTERNAL):
            return given
        left_out = [_INTERNAL, *filter(None, [str(given.get(_LEFT_OUT, ""))])]
        return {**given, _LEFT_OUT: ",".join(left_out)}

    @property
    def subscription(self) -> tuple[str, ...]:
        """What the group subscribes to."""
        return self.topics if self.topic_pattern is None else (self.topic_pattern,)

    def start_ms(self) -> int | None:
        """Return the start as a time in milliseconds, None when it is not a time."""
        return start_ms(self.start)


def load_options(
    path: Path | None,
    overrides: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> WorkerOptions:
    """Return the settings of file, environment and command line together.

    Args:
        path: The TOML file, if there is one.
        overrides: `key=value` from the command line; dots lead into sections, except in the
            names below `kafka.`, which have dots of their own. `topics` may be names with commas
            between.
        environment: Variables of the process.

    Raises:
        InvalidRequestError: Something is unknown, missing or of the wrong kind, by name.
    """
    given: dict[str, Any] = {} if path is None else _read(path)
    variables = os.environ if environment is None else environment
    if _ENVIRONMENT_BOOTSTRAP in variables:
        _put(given, ["kafka", BOOTSTRAP], variables[_ENVIRONMENT_BOOTSTRAP])
    for variable, keys, text in settings_of(
        variables, _known_keys(), sections=("kafka", "partitions")
    ):
        _put(given, keys, parsed_setting(keys, text, variable))
    for override in overrides:
        name, equals, text = override.partition("=")
        if not equals:
            message = f"{override!r} is not of the form key=value"
            raise InvalidRequestError(message)
        section, dot, rest = name.partition(".")
        keys = [section, rest] if dot else [section]
        _put(given, keys, parsed_setting(keys, text, f"--set {name}"))
    try:
        return WorkerOptions.model_validate(given)
    except ValidationError as error:
        raise InvalidRequestError(_one_line(error), path=path) from error


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError as error:
        message = "there is no such configuration file"
        raise InvalidRequestError(message, path=path) from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        message = f"the configuration cannot be read: {error}"
        raise InvalidRequestError(message, path=path) from error


def _put(given: dict[str, Any], keys: Sequence[str], value: object) -> None:
    if keys[0] == _ON_FAULT and isinstance(given.get(_ON_FAULT), str):
        # One word stands for all kinds; what comes may be of one of them.
        given[_ON_FAULT] = dict.fromkeys(FaultSettings.model_fields, given[_ON_FAULT])
    for key in keys[:-1]:
        inner = given.setdefault(key, {})
        if not isinstance(inner, dict):
            message = f"{key}: is not a section"
            raise InvalidRequestError(message)
        given = inner
    known = given.get(keys[-1])
    if keys[-1] in _ADDED_TO and isinstance(known, dict) and isinstance(value, dict):
        given[keys[-1]] = {**known, **value}
    else:
        given[keys[-1]] = value


def _known_keys() -> list[str]:
    sections: dict[str, type[BaseModel]] = {"stream": StreamSettings, "on_fault": FaultSettings}
    inner = [f"{key}.{name}" for key, section in sections.items() for name in section.model_fields]
    return [*WorkerOptions.model_fields, *inner]


def _one_line(error: ValidationError) -> str:
    """Return all complaints in one line, each with the key it is about."""
    complaints = []
    for item in error.errors(include_url=False, include_input=False):
        where = ".".join(str(part) for part in item["loc"])
        what = _SAID.get(item["type"], item["msg"].removeprefix("Value error, "))
        complaints.append(f"{where}: {what}" if where else what)
    return "; ".join(complaints)

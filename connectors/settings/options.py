"""What one worker does: its settings as values, each checked by itself and with the others.

What they are read from, and how, stands in loading.py.
"""

import re
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from connectors.kafka import FetchWay, printable_consumer_settings
from connectors.settings.checks import (
    BOOTSTRAP,
    GROUP,
    check_kafka,
    check_list_of_topics,
    check_pattern,
    check_root,
    check_start,
    check_topics,
    start_ms,
)
from connectors.settings.dead_letter_settings import DeadLetterSettings
from connectors.settings.lake_settings import LakeSettings
from connectors.settings.operations_settings import (
    LogSettings,
    MetricsSettings,
    split_address,
)
from connectors.settings.schema_settings import SchemaSettings
from connectors.settings.serve_settings import PageSettings, WorkerServeSettings
from connectors.settings.stream_settings import Section, StreamSettings, names_schemas
from storage_core import RETRY_SHARDS_FROM

ENVIRONMENT_BOOTSTRAP: Final = "KAFKA_BOOTSTRAP"

# Internal topics, and librdkafka's setting for what a pattern leaves out.
_INTERNAL: Final = "^__"
_LEFT_OUT: Final = "topic.blacklist"
_GROUP_DEFAULT: Final = "shardlog"

FaultKind = Literal["refused", "unavailable", "foreign", "out_of_range", "damage", "write_failed"]
OnFault = Literal["quarantine", "stop"]
PartitionNumber = Annotated[int, Field(ge=0, lt=RETRY_SHARDS_FROM)]


class FaultSettings(Section):
    """What a fault of one partition or topic does: one word for all kinds, or one for each.

    Kinds follow the classes of errors, so that each has one exit code.

    Attributes:
        refused: Settings, names or permissions do not allow to ingest a topic.
        unavailable: Another process holds a shard, or it cannot be opened, for longer than
            `lock_wait_s`.
        foreign: The topic was recreated, its log was truncated, or its data is in another root.
        out_of_range: Kafka's retention has deleted records that were not stored.
        damage: A shard, or a record batch in Kafka, cannot be read.
        write_failed: Writes to a shard's disk keep failing.
    """

    refused: OnFault = "quarantine"
    unavailable: OnFault = "quarantine"
    foreign: OnFault = "quarantine"
    out_of_range: OnFault = "quarantine"
    damage: OnFault = "quarantine"
    write_failed: OnFault = "quarantine"

    @model_validator(mode="before")
    @classmethod
    def _of_all(cls, policy: object) -> object:
        if isinstance(policy, str):
            return dict.fromkeys(cls.model_fields, policy)
        return policy

    def stops(self, kind: FaultKind) -> bool:
        """Tell whether a fault of this kind ends the worker."""
        policy: OnFault = getattr(self, kind)
        return policy == "stop"


class WorkerOptions(Section):
    """What one worker does.

    Attributes:
        root: The directory that holds the streams.
        topics: Topics by name.
        topic_pattern: Topics by a regular expression that begins with ^; instead of names. Topics
            that begin with two underscores are internal; only a pattern that begins with ^__
            matches them.
        mode: `group`: the consumer group assigns partitions; `static`: those of `partitions`.
        partitions: In mode `static`, the partitions of each topic.
        start: Where a new shard begins: `earliest`, `latest`, or a time (ISO, UTC without a zone,
            or milliseconds). Partitions and topics that appear later begin at their first record.
        on_out_of_range: When Kafka's retention has deleted records that were not stored: `stop`
            there, a fault that names them, or `skip`: record the gap and go on.
        on_fault: What a fault of one partition or topic does, by kind: `quarantine` it while the
            others go on, or `stop` the worker.
        dead_letters_only_max: After how many dead letters a topic of which nothing was stored is
            a fault; 0 for never.
        dead_letters: What becomes of records that cannot be parsed.
        adopt: Take over a copy of a root whose shards went on elsewhere.
        linger_ms: How long records wait for a commit round.
        round_records_max: A round begins at once with this many records.
        round_bytes_max: Or this many bytes; twice as much may wait while a round runs.
        lock_wait_s: How long a new owner waits for a shard another process holds.
        broker_wait_s: How long to wait for a broker at the start, and for its list of topics.
        stop_timeout_s: How long each step of a clean stop may take.
        expire_every_s: How often streams expire rows; 0 for never.
        maintain_every_s: How often shards are sealed, compacted and trimmed; 0 for never.
        fetch: How records come from librdkafka: by the compiled library (`native`), in `python`, or
            (`auto`) by the library where it can be used.
        kafka: Settings of librdkafka, by its names.
        stream: How new streams are created.
        value_schemas: In the file `schema`: the registry of Avro values.
        metrics: Where metrics and health are served.
        serve: Where the streams are served.
        page: Whether that server has a page.
        lake: How the store is reached where streams are published.
        log: Where log lines go, and which are written.
    """

    root: Annotated[Path, BeforeValidator(check_root)]
    topics: Annotated[
        tuple[str, ...], BeforeValidator(check_list_of_topics), AfterValidator(check_topics)
    ] = ()
    topic_pattern: Annotated[str, AfterValidator(check_pattern)] | None = None
    mode: Literal["group", "static"] = "group"
    partitions: Annotated[dict[str, tuple[PartitionNumber, ...]], AfterValidator(check_topics)] = (
        Field(default_factory=dict)
    )
    start: Annotated[str | int, BeforeValidator(check_start)] = "earliest"
    on_out_of_range: Literal["stop", "skip"] = "stop"
    dead_letters_only_max: Annotated[int, Field(ge=0)] = 1000
    dead_letters: DeadLetterSettings = DeadLetterSettings()
    on_fault: FaultSettings = FaultSettings()
    adopt: bool = False
    linger_ms: Annotated[int, Field(ge=0, le=60_000)] = 20
    round_records_max: Annotated[int, Field(ge=1, le=1_000_000)] = 60_000
    round_bytes_max: Annotated[int, Field(ge=1, le=2**30)] = 8 * 2**20
    lock_wait_s: Annotated[float, Field(ge=0, le=3600)] = 60.0
    broker_wait_s: Annotated[float, Field(gt=0, le=3600)] = 15.0
    stop_timeout_s: Annotated[float, Field(gt=0, le=3600)] = 20.0
    expire_every_s: Annotated[float, Field(ge=0, le=86_400)] = 60.0
    maintain_every_s: Annotated[float, Field(ge=0, le=86_400)] = 10.0
    fetch: FetchWay = "auto"
    kafka: Annotated[dict[str, str | int | float | bool], BeforeValidator(check_kafka)] = Field(
        default_factory=dict
    )
    stream: StreamSettings = StreamSettings()
    value_schemas: Annotated[SchemaSettings, Field(alias="schema")] = SchemaSettings()
    metrics: MetricsSettings = MetricsSettings()
    serve: WorkerServeSettings = WorkerServeSettings()
    page: PageSettings = PageSettings()
    lake: LakeSettings = LakeSettings()
    log: LogSettings = LogSettings()

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
        self.dead_letters.refuse_circle((*self.topics, *self.partitions), self.topic_pattern)
        self._check_schemas()
        self._check_lake()
        own = self.metrics.listen
        if own and own == self.serve.listen and split_address(own)[1]:
            message = f"metrics.listen and serve.listen are both {own}; each needs its own port"
            raise ValueError(message)
        if BOOTSTRAP not in self.kafka:
            message = f'kafka: "{BOOTSTRAP}" is missing (or set {ENVIRONMENT_BOOTSTRAP})'
            raise ValueError(message)
        return self

    def _check_schemas(self) -> None:
        """Refuse values that name schemas where no registry has them."""
        value_format, event_type = self.stream.value_format, self.stream.event_type
        if not names_schemas(value_format, event_type) or self.value_schemas.registry:
            return
        message = (
            f'stream.value_format: "{value_format}" asks a schema registry; name it, as '
            '[schema.registry] url = "http://localhost:8081"'
        )
        if value_format == "json":
            message += ', or the type that values are events of, as stream.event_type = "order"'
        raise ValueError(message)

    def _check_lake(self) -> None:
        """Refuse one table for several topics."""
        is_one_topic = len(self.topics or self.partitions) == 1
        if not self.stream.lake_is_of_each_topic and not is_one_topic:
            message = (
                "stream.lake: each topic has a table of its own; write {topic} in the address, as "
                "s3://bucket/{topic}"
            )
            raise ValueError(message)

    @property
    def kafka_settings(self) -> dict[str, object]:
        """The settings of the consumer."""
        settings: dict[str, object] = {GROUP: _GROUP_DEFAULT, **self.kafka}
        if self.topic_pattern is None:
            return settings
        internal = None if self.topic_pattern.startswith(_INTERNAL) else _INTERNAL
        theirs = str(settings.get(_LEFT_OUT, ""))
        left_out = [*filter(None, (internal, self.dead_letters.own_topics, theirs))]
        return {**settings, _LEFT_OUT: ",".join(left_out)} if left_out else settings

    @property
    def subscription(self) -> tuple[str, ...]:
        """What the group subscribes to."""
        return self.topics if self.topic_pattern is None else (self.topic_pattern,)

    def consumes(self, topic: str) -> bool:
        """Tell whether a topic is one of those that are consumed, whether it is there or not."""
        if self.topic_pattern is not None:
            return re.search(self.topic_pattern, topic) is not None
        return topic in self.topics or topic in self.partitions

    def start_ms(self) -> int | None:
        """Return the start as a time in milliseconds, None when it is not a time."""
        return start_ms(self.start)

    def printable(self) -> dict[str, Any]:
        """Return what is in force, defaults too, as JSON has it, without secrets.

        Of librdkafka's settings those that shardlog sets are there, and those that were given.
        """
        kafka = printable_consumer_settings(self.kafka_settings)
        settings = {**self.model_dump(mode="json", by_alias=True), "kafka": kafka}
        lake = self.lake.printable()
        return {**settings, "schema": self.value_schemas.printable(), "lake": lake}

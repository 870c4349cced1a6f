"""How a partition's shard is opened, and where it goes on.

Opening asks, in this order: is the topic the one its stream was made from; does the shard's data
lie here, or in the stream's lake (lake_shards.py); where does it go on; does Kafka still have what
comes next. No shard is made before the first two are answered. Who holds what was opened,
assignment.py says.
"""

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from connectors.group.home_mark import HomeMark, decode_home_mark
from connectors.group.partition_shards import take_partition_shards
from connectors.group.retry_shards import finish_retry, refuse_beyond, retry_shard_of
from connectors.group.rewinds import Rewind, Rewinds
from connectors.ingest.assignment.cluster_answers import ClusterAnswers
from connectors.ingest.assignment.partition_writer import PartitionWriter
from connectors.ingest.assignment.shard_births import ShardBirths
from connectors.ingest.assignment.start_offset import (
    check_group_offset,
    check_watermarks,
    out_of_range,
)
from connectors.ingest.assignment.topic_identity import TopicIdentities, topic_recreated
from connectors.ingest.lake.lake_shards import LakeShards
from connectors.ingest.start_checks import not_of_a_topic
from connectors.ingest.values.json_values import EventValues
from connectors.kafka import Consumer, Partition
from connectors.settings.idle_settings import idle_settings
from connectors.settings.options import WorkerOptions
from connectors.settings.stream_settings import names_schemas, rules_of
from storage_core import (
    Clock,
    InvalidRequestError,
    ShardlogError,
    Stream,
    StreamDescription,
    StreamOptions,
    StreamOrigin,
    archived_lineages,
    describe_stream,
    dropped_streams,
    root_id,
)

# A copy has the ids of its root: which of the two it is cannot be known here.
_OF_ITSELF: Final = (
    "this root was restored, or is a copy of one that went on; what it lacks is fetched again, and "
    "a second root needs a group.id of its own"
)
_OF_ANOTHER: Final = (
    "another root stored what lies between, and had not published it; it is fetched again"
)


class ShardOpening:
    """Opens the shards of partitions. Belongs to the worker's thread, between rounds."""

    def __init__(  # noqa: PLR0913 - what the opening of a shard concerns
        self,
        options: WorkerOptions,
        consumer: Consumer,
        identities: TopicIdentities,
        clock: Clock,
        log: Any,  # noqa: ANN401 - a structlog logger has no better type
        events: EventValues,
        lake_shards: LakeShards,
    ) -> None:
        self._options = options
        self._events = events
        self._consumer = consumer
        self._identities = identities
        self._answers = ClusterAnswers(consumer, clock)
        self._lake_shards = lake_shards
        self._rewinds = Rewinds(options.root)
        self._clock = clock
        self._log = log
        self._births = ShardBirths(options, consumer, identities, self._answers, lake_shards, log)
        self._topics_told: set[str] = set()
        # With start=latest, the topics it is said of; None for all.
        self.first_topics: Collection[str] | None = None

    def ask(self, partitions: Collection[Partition], *, is_anew: bool = False) -> None:
        """Ask the cluster at once of partitions that are opened next, as ClusterAnswers does."""
        self._answers.ask(partitions, is_anew=is_anew)
        if is_anew:
            self._lake_shards.come(partitions)

    def forget(self, partitions: Collection[Partition]) -> None:
        """Take note that others have partitions from now on."""
        self._lake_shards.go(partitions)

    def open(self, partition: Partition) -> PartitionWriter:
        """Open a partition's shard and find out where it goes on.

        Raises:
            UnavailableError: The shard is held by another process, the broker or the lake's store
                is silent, or the shard is beginning from the lake; trying again may help.
            ForeignDataError: The topic, or the data, is not ours.
            LostRangeError: Retention has passed records that were not stored.
            InvalidRequestError: Its number is one that no shard of a partition has.
        """
        refuse_beyond(partition)
        topic_id = self._identities.id_of(partition.topic)
        described, origin = self._stream_of(partition, topic_id)
        self._settle_lake(partition, described)
        self._make_shard(partition)
        stream = take_partition_shards(self._options.root, partition)
        try:
            if retry_shard_of(partition.number) in stream.committed():
                # Before they are forwarded, or dropped.
                finish_retry(stream, partition.number)
            return self._writer(partition, stream, origin)
        except BaseException:
            with suppress(ShardlogError):
                stream.close()
            raise

    def _stream_of(
        self, partition: Partition, topic_id: str
    ) -> tuple[StreamDescription, StreamOrigin]:
        """Return a topic's stream, and what it is a copy of.

        It is made if it is not there and the data is ours.
        """
        topic = partition.topic
        wanted = self._options.stream
        try:
            stream = describe_stream(self._options.root, topic)
        except InvalidRequestError:
            if wanted.lake is None:
                self._check_home(partition, None, 0)
            # Else a stream would be there that nothing can be stored in.
            self._check_type(topic, wanted.event_type)
            wanted_origin = StreamOrigin(
                "kafka",
                topic,
                topic_id,
                wanted.origin_key_mode,
                wanted.primary,
                wanted.value_format,
                wanted.secondary,
                wanted.event_type,
            )
            stream = self._made_stream(topic, wanted_origin)
        origin = stream.origin
        if origin is None:
            raise not_of_a_topic(topic)
        if origin.topic_id != topic_id:
            raise topic_recreated(topic, origin.topic_id, topic_id)
        is_naming = names_schemas(origin.value_format, origin.event_type)
        if is_naming and not self._options.value_schemas.registry:
            message = (
                "its values name schemas of a registry, and no registry is named: set "
                '[schema.registry] url = "http://..."'
            )
            raise InvalidRequestError(message, stream=topic)
        self._check_type(topic, origin.event_type)
        self._tell_idle_settings(topic, stream.options, origin)
        return stream, origin

    def _check_type(self, topic: str, event_type: str | None) -> None:
        """Refuse values of an event type that nobody has defined."""
        if event_type is None:
            return
        try:
            self._events.check(event_type)
        except InvalidRequestError as error:
            message = f"its values are events of type {event_type}: {error.message}"
            raise InvalidRequestError(message, stream=topic) from error

    def _made_stream(self, topic: str, origin: StreamOrigin) -> StreamDescription:
        root, made = self._options.root, self._options.stream.stream_options(topic)
        try:
            Stream.create(root, topic, made, origin=origin).close()
        except InvalidRequestError as refused:
            try:
                # Another worker may have made it at this moment.
                return describe_stream(root, topic)
            except InvalidRequestError:
                raise refused from None
        return describe_stream(root, topic)

    def _tell_idle_settings(self, topic: str, options: StreamOptions, origin: StreamOrigin) -> None:
        """Tell once of settings that do not count, since the stream was made with others."""
        if topic in self._topics_told:
            return
        self._topics_told.add(topic)
        for idle in idle_settings(self._options.stream, options, origin):
            self._log.warning(
                "setting ignored",
                topic=topic,
                setting=f"stream.{idle.name}",
                wanted=idle.wanted,
                in_force=idle.in_force,
                advice=idle.advice,
            )

    def _make_shard(self, partition: Partition) -> None:
        """Make the shard, if it is not there."""
        stream = describe_stream(self._options.root, partition.topic)
        if partition.number in stream.shards:
            return
        if stream.options.lake is None:
            self._check_home(partition, None, 0)
        gone = self._gone(partition.topic)
        starts = self._births.starts(partition, stream, gone, self.first_topics)
        Stream.add_shards(self._options.root, partition.topic, starts)

    def _settle_lake(self, partition: Partition, stream: StreamDescription) -> None:
        """Have the shard begin from the stream's lake, if it is to."""
        if stream.options.lake is not None:
            others = () if stream.shards else self._births.numbers(partition.topic)
            self._lake_shards.settle(partition, stream, self._answers.side, others)

    def _writer(
        self, partition: Partition, stream: Stream, origin: StreamOrigin
    ) -> PartitionWriter:
        number = partition.number
        home = HomeMark(root_id(self._options.root), stream.lineage(number))
        shard_next = stream.committed()[number]
        self._rewinds.settle(partition, shard_next)
        has_lake = stream.options.lake is not None
        self._check_home(partition, home, shard_next, has_lake=has_lake)
        watermarks = self._answers.watermarks(partition, shard_next)
        gap = check_watermarks(shard_next, watermarks, partition, has_lake=has_lake)
        source = stream.source(number) or {}
        if gap is not None:
            if self._options.on_out_of_range == "stop":
                raise out_of_range(gap, partition)
            self._log.warning(
                "records skipped", topic=partition.topic, shard=number, start=gap[0], end=gap[1]
            )
            stream.skip(number, gap[1], source={**source, "next": gap[1]})
            shard_next = gap[1]
        epoch = source.get("epoch")
        return PartitionWriter(
            partition,
            stream,
            origin.topic_id,
            home,
            shard_next,
            epoch if isinstance(epoch, int) else None,
            rules_of(self._options.stream, stream.options, origin),
        )

    def _check_home(
        self,
        partition: Partition,
        home: HomeMark | None,
        shard_next: int,
        *,
        has_lake: bool = False,
    ) -> None:
        """Refuse a partition whose data lies elsewhere.

        Of a stream with a lake, all that was published is here, and the rest is fetched again.
        """
        committed = self._answers.group_place(partition, shard_next)
        if committed is None:
            return
        gone = self._gone(partition.topic) if committed.offset > shard_next else frozenset()
        mark = decode_home_mark(committed.metadata)
        adopt = self._options.adopt
        verdict = check_group_offset(
            partition, shard_next, committed, home, adopt=adopt, dropped=gone, has_lake=has_lake
        )
        if mark is not None and mark.lineage in gone:
            # A reset or a drop, as the operator wanted it.
            return
        if verdict == "go on" and home is not None and committed.offset > shard_next:
            now_ms = self._clock.now_ns() // 10**6
            incarnation = describe_stream(self._options.root, partition.topic).incarnation
            self._rewinds.write(Rewind(*partition, now_ms, committed.offset, incarnation))
            is_another = mark is not None and mark.lineage != home.lineage
            self._log.warning(
                "group offset is ahead of the shard",
                topic=partition.topic,
                shard=partition.number,
                group_offset=committed.offset,
                shard_next=shard_next,
                reason=_OF_ANOTHER if is_another else _OF_ITSELF,
            )
        # Before the shard is there nothing can be said of where it will stand.
        if verdict == "ignored" and home is not None:
            self._log.warning(
                "group offset was moved by others, ignored",
                topic=partition.topic,
                shard=partition.number,
                group_offset=committed.offset,
                shard_next=shard_next,
            )

    def _gone(self, topic: str) -> frozenset[str]:
        """Return the lineages of logs that were dropped from this root, or archived in it."""
        root = self._options.root
        dropped = (one for drop in dropped_streams(root, topic) for one in drop.lineages)
        archived: frozenset[str] = frozenset()
        with suppress(InvalidRequestError):
            archived = archived_lineages(root, topic)
        return archived.union(dropped)


def stream_mark(root: Path, topic: str) -> object:
    """Return what a topic's stream can be told from one made anew by, None if there is none."""
    try:
        return describe_stream(root, topic).incarnation
    except ShardlogError:
        return None

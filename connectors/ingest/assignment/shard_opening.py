"""How a partition's shard is opened, and where it goes on.

Opening asks, in this order: is the topic the one its stream was made from; does the shard's data
lie here; where does it go on; does Kafka still have what comes next. Nothing is made on disk
before the first two are answered. Who holds what was opened, assignment.py says.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from connectors.group.home_mark import HomeMark, decode_home_mark
from connectors.group.partition_shards import take_partition_shards
from connectors.group.retry_shards import finish_retry, refuse_beyond, retry_shard_of
from connectors.group.rewinds import Rewind, Rewinds
from connectors.ingest.assignment.cluster_answers import ClusterAnswers
from connectors.ingest.assignment.partition_writer import PartitionWriter
from connectors.ingest.assignment.start_offset import (
    check_group_offset,
    check_watermarks,
    out_of_range,
)
from connectors.ingest.assignment.topic_identity import TopicIdentities, topic_recreated
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
    ) -> None:
        self._options = options
        self._events = events
        self._consumer = consumer
        self._identities = identities
        self._answers = ClusterAnswers(consumer, clock)
        self._rewinds = Rewinds(options.root)
        self._clock = clock
        self._log = log
        self._topics_told: set[str] = set()
        # With start=latest, the topics it is said of; None for all.
        self.first_topics: Collection[str] | None = None

    def ask(self, partitions: Collection[Partition], *, is_anew: bool = False) -> None:
        """Ask the cluster at once of partitions that are opened next, as ClusterAnswers does."""
        self._answers.ask(partitions, is_anew=is_anew)

    def open(self, partition: Partition) -> PartitionWriter:
        """Open a partition's shard and find out where it goes on.

        Raises:
            UnavailableError: The shard is held by another process, or the broker is silent;
                trying again may help.
            ForeignDataError: The topic, or the data, is not ours.
            LostRangeError: Retention has passed records that were not stored.
            InvalidRequestError: Its number is one that no shard of a partition has.
        """
        refuse_beyond(partition)
        topic_id = self._identities.id_of(partition.topic)
        born, origin = self._stream_of(partition, topic_id)
        if partition.number not in born:
            self._check_home(partition, None, 0)
            starts = self._births(partition, is_new=not born)
            Stream.add_shards(self._options.root, partition.topic, starts)
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
    ) -> tuple[Collection[int], StreamOrigin]:
        """Return the shards of a topic's stream, and what it is a copy of.

        It is made if it is not there and the data is ours.
        """
        topic = partition.topic
        wanted = self._options.stream
        try:
            stream = describe_stream(self._options.root, topic)
        except InvalidRequestError:
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
        return stream.shards, origin

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

    def _births(self, partition: Partition, *, is_new: bool) -> dict[int, int]:
        """Return where shards begin that are not there yet.

        With the first shard of a stream all partitions there are begin where `start` says; one
        that is added later begins at its first record, and so does a topic that appears later.
        """
        if not is_new:
            edges = self._answers.first_watermarks(partition)
            return {partition.number: self._first(partition, *edges)}
        topic = partition.topic
        if self._options.mode == "static":
            numbers: Iterable[int] = self._options.partitions[topic]
        else:
            numbers = range(self._identities.partitions_of(topic))
        partitions = [Partition(topic, number) for number in numbers]
        self.ask(partitions)
        return {each.number: self._birth(each) for each in partitions}

    def _birth(self, partition: Partition) -> int:
        low, end = self._answers.first_watermarks(partition)
        start_ms = self._options.start_ms()
        if start_ms is not None:
            offset = self._consumer.offset_at(partition, start_ms)
            return end if offset is None else max(low, offset)
        is_new = self.first_topics is not None and partition.topic not in self.first_topics
        if self._options.start == "earliest" or is_new:
            return self._first(partition, low, end)
        return end

    def _first(self, partition: Partition, low: int, end: int) -> int:
        """Return the first offset that Kafka holds, and tell where that is not the very first."""
        if low:
            # Who just produced records that retention took at once would look for them in vain.
            self._log.info(
                "log start offset is not 0",
                topic=partition.topic,
                shard=partition.number,
                offset=low,
                end=end,
                reason="Kafka's retention, or a deletion, took what was below"
                + (", all there was" if low == end else ""),
            )
        return low

    def _writer(
        self, partition: Partition, stream: Stream, origin: StreamOrigin
    ) -> PartitionWriter:
        number = partition.number
        home = HomeMark(root_id(self._options.root), stream.lineage(number))
        shard_next = stream.committed()[number]
        self._rewinds.settle(partition, shard_next)
        self._check_home(partition, home, shard_next)
        watermarks = self._answers.watermarks(partition, shard_next)
        gap = check_watermarks(shard_next, watermarks, partition)
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

    def _check_home(self, partition: Partition, home: HomeMark | None, shard_next: int) -> None:
        """Refuse a partition whose data lies elsewhere."""
        committed = self._answers.group_place(partition, shard_next)
        if committed is None:
            return
        gone = self._gone(partition.topic) if committed.offset > shard_next else frozenset()
        mark = decode_home_mark(committed.metadata)
        adopt = self._options.adopt
        verdict = check_group_offset(
            partition, shard_next, committed, home, adopt=adopt, dropped=gone
        )
        if mark is not None and mark.lineage in gone:
            # A reset or a drop, as the operator wanted it.
            return
        if verdict == "go on" and home is not None and committed.offset > shard_next:
            now_ms = self._clock.now_ns() // 10**6
            incarnation = describe_stream(self._options.root, partition.topic).incarnation
            self._rewinds.write(Rewind(*partition, now_ms, committed.offset, incarnation))
            # A copy has the ids of its root: which of the two it is cannot be known here.
            self._log.warning(
                "group offset is ahead of the shard",
                topic=partition.topic,
                shard=partition.number,
                group_offset=committed.offset,
                shard_next=shard_next,
                reason="this root was restored, or is a copy of one that went on; what it lacks is "
                "fetched again, and a second root needs a group.id of its own",
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

"""A consumer whose owner gives each partition its start position."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from threading import Thread
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaException, TopicPartition

from connectors.kafka.fetched import FetchResults
from connectors.kafka.native_fetch import open_client
from connectors.kafka.python_fetch import fetch_results_of
from connectors.kafka.settings import (
    BROKER_NAMES,
    REQUEST_TIMEOUT_S,
    FetchWay,
    consumer_settings,
)
from connectors.kafka.terms import Partition, Place
from connectors.kafka.translate import is_lost_ownership, translated, unless_lost
from storage_core import ShardlogError

# NOTE: as times they are questions of Kafka's protocol; confluent-kafka (2.16) has no other one of
# many partitions that a consumer can ask.
_EDGES: Final = (OFFSET_BEGINNING, OFFSET_END)


def check_settings(settings: Mapping[str, object], fetch: FetchWay = "auto") -> str:
    """Refuse settings that a consumer would not start with; no broker is contacted.

    Returns:
        The way it would fetch records, as `Consumer.fetches_by` has it.

    Raises:
        InvalidRequestError: A setting is unknown, unfit, or not the caller's to choose.
    """
    without_brokers = {name: settings[name] for name in settings if name not in BROKER_NAMES}
    consumer = Consumer(without_brokers, fetch)
    consumer.close()
    return consumer.fetches_by


class Consumer:
    """A consumer whose owner gives each partition its start position. One thread."""

    def __init__(self, settings: Mapping[str, object], fetch: FetchWay = "auto") -> None:
        """Connect in the background.

        Raises:
            InvalidRequestError: A setting is unknown, or is not the caller's to choose; or records
                cannot be fetched this way.
        """
        own_settings = {**consumer_settings(settings), "on_commit": self._note_group}
        self._client, self._native, self.fetches_by = open_client(own_settings, fetch)
        self.is_native = self._native is not None
        self._topics: set[str] = set()
        self._failure: Exception | None = None
        self._is_in_callback = False
        self._group_answer: dict[Partition, int] | None = None

    def subscribe(
        self,
        topics: Sequence[str],
        on_assign: Callable[[list[Partition]], None],
        on_revoke: Callable[[list[Partition]], None],
        on_lost: Callable[[list[Partition]], None],
    ) -> None:
        """Join the group for topics, or for patterns that begin with ^.

        The callbacks run inside `fetch` and `close`; each gets the partitions that change.
        The first that fails is told when librdkafka is left again: `fetch` raises what it
        raised, `close` leaves that to `raise_failed_callback`.
        """

        def guarded(
            callback: Callable[[list[Partition]], None],
        ) -> Callable[[Any, list[TopicPartition]], None]:
            def call(_consumer: Any, places: list[TopicPartition]) -> None:  # noqa: ANN401 - ourselves
                self._is_in_callback = True
                try:
                    callback([_partition(place) for place in places])
                except Exception as error:  # noqa: BLE001 - raised again outside of librdkafka
                    self._failure = self._failure or error
                finally:
                    self._is_in_callback = False

            return call

        with translated("subscribing"):
            self._client.subscribe(
                list(topics),
                on_assign=guarded(on_assign),
                on_revoke=guarded(on_revoke),
                on_lost=guarded(on_lost),
            )

    def begin(self, starts: Mapping[Partition, Place]) -> None:
        """Assign partitions at these positions, in addition to those assigned."""
        with translated("taking partitions"):
            if self._native is not None:
                self._native.hold(starts)
            self._client.incremental_assign([_place(*item) for item in starts.items()])
            self._topics.update(part.topic for part in starts)
            # A pause by the application outlives the assignment it was made in.
            self._client.resume([TopicPartition(*part) for part in starts])

    def unassign(self, partitions: Collection[Partition]) -> None:
        """Unassign partitions."""
        if self._native is not None:
            self._native.give_back(partitions)
        with translated("giving partitions back"), unless_lost():
            self._client.incremental_unassign([TopicPartition(*part) for part in partitions])

    def fetch(self, records_max: int, wait_s: float) -> FetchResults:
        """Return up to `records_max` records, waiting up to `wait_s` for the last of them.

        Raises:
            ShardlogError: The consumer cannot go on; or what a callback raised.
        """
        native = self._native
        if native is not None:
            native.forward()
        with translated("consuming"):
            # The compiled library waits by itself, and where no callback is served.
            messages = self._client.consume(records_max, 0 if native is not None else wait_s)
        self.raise_failed_callback()
        (topic,) = self._topics if len(self._topics) == 1 else (None,)
        results = fetch_results_of(messages, topic)
        if native is None or len(messages) == records_max:
            return results
        return results + native.take(records_max - len(messages), 0 if results else wait_s)

    def raise_failed_callback(self) -> None:
        """Raise what a callback raised, once."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def positions(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the next offset of each partition; control records passed count.

        A partition without a record since it was assigned or sought has none.
        """
        requested = [TopicPartition(*part) for part in partitions]
        with translated("asking for positions"):
            positions = self._client.position(requested)
        return {_partition(place): place.offset for place in positions if place.offset >= 0}

    def watermarks(self, partition: Partition) -> tuple[int, int]:
        """Ask the broker for the first offset and the end of a partition."""
        with translated(f"asking for the offsets of {partition.topic}/{partition.number}"):
            low, high = self._client.get_watermark_offsets(
                TopicPartition(*partition), timeout=REQUEST_TIMEOUT_S
            )
        return low, high

    def watermarks_of(
        self, partitions: Collection[Partition], wait_s: float
    ) -> dict[Partition, tuple[int, int]]:
        """Ask for the first offsets and the ends of many partitions, in two questions.

        A partition of which the cluster says nothing has none.

        Raises:
            BrokerUnavailableError: There is no answer.
        """
        lows, ends = (self._offsets_at(partitions, edge, wait_s) for edge in _EDGES)
        return {part: (low, ends[part]) for part, low in lows.items() if part in ends}

    def _offsets_at(
        self, partitions: Iterable[Partition], time: int, wait_s: float
    ) -> dict[Partition, int]:
        requested = [TopicPartition(*part, time) for part in partitions]
        with translated("asking for offsets"):
            answers = self._client.offsets_for_times(requested, timeout=wait_s)
        return {_partition(at): at.offset for at in answers if not at.error and at.offset >= 0}

    def cached_ends(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the end of each partition from the client's cache, without a request.

        A partition from which no answer has come has none.
        """
        with translated("looking up ends"):
            watermarks = {
                part: self._client.get_watermark_offsets(TopicPartition(*part), cached=True)
                for part in partitions
            }
        return {part: ends[1] for part, ends in watermarks.items() if ends and ends[1] >= 0}

    def offset_at(self, partition: Partition, timestamp_ms: int) -> int | None:
        """Return the first offset at or after a time; None when there is none."""
        requested = TopicPartition(partition.topic, partition.number, timestamp_ms)
        with translated("asking for an offset by time"):
            (answer,) = self._client.offsets_for_times([requested], timeout=REQUEST_TIMEOUT_S)
        return answer.offset if answer.offset >= 0 else None

    def group_places(
        self, partitions: Iterable[Partition], wait_s: float = REQUEST_TIMEOUT_S
    ) -> dict[Partition, Place]:
        """Return the group's committed offsets, where there are any."""
        requested = [TopicPartition(*part) for part in partitions]
        with translated("asking for the group's offsets"):
            committed = self._client.committed(requested, timeout=wait_s)
        return {
            _partition(place): Place(place.offset, metadata=place.metadata or "")
            for place in committed
            if place.offset >= 0
        }

    def commit_group(
        self,
        places: Mapping[Partition, Place],
        *,
        is_last: bool = False,
        wait_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        """Commit the group's offsets, for those who watch lag; `take_group_answer` has the answer.

        The last commit waits for the answer, up to `wait_s`; but not inside a callback, where none
        can come. What is committed there reaches the group before the partitions do go.

        NOTE: confluent-kafka (2.16) lets no other thread call the client while a callback runs.
        """
        offsets = [_place(*item) for item in places.items()]
        if is_last and not self._is_in_callback:
            self._note_group(None, self._answered(offsets, wait_s))
            return
        try:
            self._client.commit(offsets=offsets, asynchronous=True)
        except KafkaException:
            # A failure is not the caller's concern: who is not answered tells it again.
            self._note_group(None, [])

    def _answered(self, offsets: list[TopicPartition], wait_s: float) -> list[TopicPartition]:
        """Return what the group answers in time; nothing where it does not.

        NOTE: librdkafka (2.16) waits for ever where the broker dies with the question.
        """
        answers: list[list[TopicPartition]] = []

        def tell() -> None:
            # A consumer that is closed meanwhile is a RuntimeError.
            with suppress(KafkaException, RuntimeError):
                answers.append(self._client.commit(offsets=offsets, asynchronous=False))

        telling = Thread(target=tell, name="shardlog-tell", daemon=True)
        telling.start()
        telling.join(wait_s)
        return answers[0] if answers else []

    def take_group_answer(self) -> dict[Partition, int] | None:
        """Return the offsets that the group has committed; None without an answer yet."""
        answer, self._group_answer = self._group_answer, None
        return answer

    def _note_group(self, error: object, places: list[TopicPartition]) -> None:
        """Take note of an answer; called inside `fetch`, too."""
        taken = (
            {}
            if error is not None
            else {_partition(at): at.offset for at in places if not at.error}
        )
        self._group_answer = {**(self._group_answer or {}), **taken}

    def group_metadata(self) -> Any:  # noqa: ANN401 - librdkafka's own, for its producers
        """Return what a transaction commits this group's offsets by."""
        with translated("asking for the group"):
            return self._client.consumer_group_metadata()

    def seek(self, partition: Partition, place: Place) -> None:
        """Go on from another position; prefetched records are dropped.

        An epoch in the place is compared with the log's, which assigning does not do.
        """
        with translated("seeking"):
            try:
                self._client.seek(_place(partition, place))
            except KafkaException as error:
                if not is_lost_ownership(error):
                    raise
                # Fetching has ended, as after an offset out of range; or it is ours no more.
                held = {_partition(at) for at in self._client.assignment()}
                if partition in held:
                    self._client.incremental_unassign([TopicPartition(*partition)])
                    if self._native is not None:
                        self._native.hold([partition])
                    self._client.incremental_assign([_place(partition, place)])

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Stop fetching partitions that stay assigned."""
        with translated("pausing"), unless_lost():
            self._client.pause([TopicPartition(*part) for part in partitions])

    def resume(self, partitions: Iterable[Partition]) -> None:
        """Fetch paused partitions again."""
        with translated("resuming"), unless_lost():
            self._client.resume([TopicPartition(*part) for part in partitions])

    def close(self, wait_s: float = REQUEST_TIMEOUT_S) -> bool:
        """Leave the group; `on_revoke` is called for assigned partitions, on another thread.

        NOTE: nothing bounds librdkafka in this (2.16): when the broker dies as it is asked, it may
        wait for minutes, and a signal is not heard meanwhile. After `wait_s` it is left to itself.

        Returns:
            Whether it has left. If not, callbacks may still run: end the process.
        """
        if self._native is not None:
            self._native.detach()
            # What the group still gives and takes is librdkafka's alone; nothing is fetched.
            self._native = None
        failures: list[ShardlogError] = []

        def leave() -> None:
            try:
                with translated("leaving the group"):
                    self._client.close()
            except ShardlogError as error:
                failures.append(error)

        leaving = Thread(target=leave, name="shardlog-leave", daemon=True)
        leaving.start()
        leaving.join(wait_s)
        if failures:
            raise failures[0]
        return not leaving.is_alive()


def _place(partition: Partition, place: Place) -> TopicPartition:
    optional: dict[str, Any] = {}
    if place.epoch is not None:
        optional["leader_epoch"] = place.epoch
    if place.metadata:
        optional["metadata"] = place.metadata
    return TopicPartition(partition.topic, partition.number, place.offset, **optional)


def _partition(place: TopicPartition) -> Partition:
    return Partition(place.topic, place.partition)

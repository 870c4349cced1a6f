"""Publishes the dead letters of open shards, and clears those that Kafka has acknowledged.

`forward` is one pass over one shard. It runs on a thread of its own, beside fetching and rounds:
it touches the shard's stream, which any thread may, and a producer that is its own.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from connectors.dlq.origin import with_origin
from connectors.dlq.record import decode_dead_letter, reason_word
from connectors.kafka import Admin, Partition, Producer
from connectors.settings.dead_letter_settings import DeadLetterSettings
from storage_core import ClientFailedError, ShardlogError, Stream

_BATCH_RECORDS: Final = 500
_BATCH_BYTES: Final = 8 * 2**20
_FLUSH_STEP_S: Final = 0.2
# Longer than the Kafka client keeps a record before it calls it failed.
_FLUSH_STEPS_MAX: Final = 600
_PARTITIONS: Final = 1
# A dead letter has its record's timestamp: a topic's retention would delete an old one at once.
_TOPIC: Final = {"retention.ms": "-1"}
_BATCHES_MAX: Final = 100
_BROKERS: Final = "bootstrap.servers"
# What is too large the topic says, not the client; and it says so of a batch, so that a record
# which is must stand in one by itself. 16 KiB is the batch of Kafka's own producer.
_OWN_SETTINGS: Final = {"message.max.bytes": 1_000_000_000, "batch.size": 16_384}
_NO_ANSWER: Final = "no answer in time"

DeadLetters = list[tuple[int, bytes]]


@dataclass(frozen=True, slots=True)
class Forwarded:
    """Outcome of one pass over a shard.

    Attributes:
        topic: Where they were sent.
        cleared: How many were acknowledged, and cleared from the store.
        left: How many were refused, and stay.
        reason: Why, of the first of them.
    """

    topic: str
    cleared: int = 0
    left: int = 0
    reason: str | None = None


@dataclass(slots=True)
class _Pass:
    """How far a pass has come in a shard, and the first dead letter that stayed on the way."""

    stream: Stream
    start: int = 0
    first_left: int | None = None


class Forwarder:
    """Publishes dead letters. One thread at a time; `end` from any."""

    def __init__(self, settings: DeadLetterSettings, kafka: dict[str, object]) -> None:
        """Connect to nobody yet.

        Args:
            settings: Where to.
            kafka: Settings of librdkafka, by its names, as the worker's consumer has them.
        """
        self._settings = settings
        self._kafka = kafka
        self._group = str(kafka.get("group.id", ""))
        self._producer: Producer | None = None
        self._existing_topics: set[str] = set()
        self._passes: dict[Partition, _Pass] = {}
        self._is_ending = False

    def end(self) -> None:
        """Have a pass under way end soon; what it has not cleared is forwarded again."""
        self._is_ending = True

    def keep(self, partitions: set[Partition]) -> None:
        """Forget how far partitions came that are no longer ours."""
        for gone in self._passes.keys() - partitions:
            del self._passes[gone]

    def forward(self, partition: Partition, stream: Stream, topic_id: str) -> Forwarded:
        """Publish a shard's committed dead letters, a bounded number of them.

        1. Read: the next dead letters below committed, from where the pass before ended.
        2. Send: each as Kafka had it, with its origin in headers behind its own.
        3. Wait: until each is acknowledged or refused, in bounded time.
        4. Clear: take those that were acknowledged out of the store, durably.

        A failure in 1 to 3 leaves the dead letters where they are. Between 3 and 4 they are in the
        topic and in the store: they are sent again, and told apart by their origin. Where a whole
        batch is refused the pass ends; the next one begins behind it, so that dead letters which
        the topic will never take block no others, and comes back to them at the end.

        Raises:
            ShardlogError: The shard, or Kafka, cannot be asked.
        """
        topic = self._settings.topic_for(partition.topic)
        progress = self._pass_of(partition, stream)
        cleared = left = 0
        reason: str | None = None
        for _ in range(_BATCHES_MAX):
            dead_letters = next_dead_letters(stream, partition.number, progress.start)  # 1
            if not dead_letters:
                progress.start, progress.first_left = _start_again(progress)
                break
            refused = self._publish(topic, dead_letters, topic_id)  # 2, 3
            done = [address for address, _ in dead_letters if address not in refused]
            if done:
                cleared += stream.clear_dead_letters(partition.number, done)  # 4
            progress.start = dead_letters[-1][0] + 1
            if refused:
                left += len(refused)
                reason = reason or next(iter(refused.values()))
                progress.first_left = (
                    min(refused) if progress.first_left is None else progress.first_left
                )
            if not done:
                # The topic may have gone.
                self._existing_topics.discard(topic)
            if not done or self._is_ending:
                break
        return Forwarded(topic, cleared, left, reason)

    def _pass_of(self, partition: Partition, stream: Stream) -> _Pass:
        progress = self._passes.get(partition)
        if progress is None or progress.stream is not stream:
            # Opened anew, it may have dead letters anywhere.
            progress = self._passes[partition] = _Pass(stream)
        return progress

    def _publish(self, topic: str, dead_letters: DeadLetters, topic_id: str) -> dict[int, str]:
        """Send dead letters and wait for the answers; return which were not acknowledged, and why.

        Raises:
            ShardlogError: Kafka cannot be asked.
        """
        producer = self._producer_for(topic)
        open_ = {address: _NO_ANSWER for address, _ in dead_letters}
        try:
            for address, raw in dead_letters:
                self._send(producer, topic, address, raw, topic_id, open_)
            for _ in range(_FLUSH_STEPS_MAX):
                if not producer.flush(_FLUSH_STEP_S) or self._is_ending:
                    return dict(open_)
        except ClientFailedError:
            # The next pass takes another.
            self._producer = None
            raise
        # What is on its way might be acknowledged once nobody waits for it.
        self._producer = None
        return dict(open_)

    def _send(  # noqa: PLR0913 - what a dead letter is sent with
        self,
        producer: Producer,
        topic: str,
        address: int,
        raw: bytes,
        topic_id: str,
        open_: dict[int, str],
    ) -> None:
        """Hand a dead letter over; once it is acknowledged it is open no more."""
        try:
            dead_letter = decode_dead_letter(raw)
        except ValueError:
            open_[address] = "it was not written by a worker, and nobody knows its record"
            return
        headers = with_origin(dead_letter, reason_word(raw), topic_id, self._group)
        on_answer = _answer_for(address, open_)
        try:
            producer.send(
                topic,
                dead_letter.key,
                dead_letter.value,
                dead_letter.timestamp,
                headers,
                on_delivery=on_answer,
            )
        except ClientFailedError:
            raise
        except ShardlogError as error:
            open_[address] = str(error)

    def _producer_for(self, topic: str) -> Producer:
        if self._producer is None:
            self._producer = Producer(str(self._kafka[_BROKERS]), {**_OWN_SETTINGS, **self._kafka})
        if topic not in self._existing_topics:
            admin = Admin(self._kafka)
            if topic not in admin.partitions():
                admin.create_topic(topic, _PARTITIONS, _TOPIC, replicas=None)
            self._existing_topics.add(topic)
        return self._producer


def next_dead_letters(stream: Stream, shard: int, start: int) -> DeadLetters:
    """Return committed dead letters from an address on: at least one if there is one, not many."""
    return list(_until_full(islice(stream.dead_letters(shard, start), _BATCH_RECORDS)))


def count_waiting(stream: Stream, shard: int) -> int:
    """Return how many dead letters a shard keeps, without looking at them."""
    return stream.stats(shard).dead_letters_waiting


def _until_full(dead_letters: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    size = 0
    for address, raw in dead_letters:
        size += len(raw)
        yield address, raw
        if size >= _BATCH_BYTES:
            return


def _start_again(progress: _Pass) -> tuple[int, None]:
    """Return where the next pass begins: with the first that was refused, or at the end."""
    return (progress.start if progress.first_left is None else progress.first_left), None


def _answer_for(address: int, open_: dict[int, str]) -> Callable[[str | None], Any]:
    def on_answer(failure: str | None) -> None:
        if failure is None:
            open_.pop(address, None)
        else:
            open_[address] = failure

    return on_answer

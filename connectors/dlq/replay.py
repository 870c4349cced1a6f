"""Sends forwarded records back to the topics they come from, each once.

Exactly once, by Kafka's own means: what is produced and how far the dead-letter topic was gone
through, kept as the offsets of a group, are committed in one transaction. A replay that is killed
leaves the group where its last transaction did, and the next one first fences it.

Forwarding is at least once, so a record may be in the topic twice. Its origin tells: those of what
lies below the group's offsets are read first, headers only are kept. So a replay costs a pass over
the topic, and nothing else has to be remembered.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from connectors.dlq.origin import Origin, split_origin
from connectors.kafka import (
    Admin,
    Consumer,
    Fetched,
    Headers,
    Partition,
    Place,
    TransactionalProducer,
)
from storage_core import BrokerUnavailableError, InvalidRequestError, SystemClock

REPLAY_HEADER: Final = "shardlog.replay.origin"
_FETCH_RECORDS: Final = 500
_FETCH_WAIT_S: Final = 0.2
_SILENT_S_MAX: Final = 60.0

_Seen = set[tuple[str, str, int, int]]


@dataclass(slots=True)
class ReplayReport:
    """What became of the records of a dead-letter topic.

    Attributes:
        replayed: How many were sent back.
        doubled: How many were there twice, and sent back once.
        foreign: How many have no origin; whoever wrote them was no worker.
    """

    replayed: int = 0
    doubled: int = 0
    foreign: int = 0


@dataclass(frozen=True, slots=True)
class _DeadLetter:
    partition: Partition
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    origin: Origin | None


class Replay:
    """One replay of a dead-letter topic. One thread; a second of the same group ends the first."""

    def __init__(
        self,
        settings: Mapping[str, object],
        topic: str,
        *,
        is_dry_run: bool,
        silent_s_max: float = _SILENT_S_MAX,
    ) -> None:
        """Fence other replays, and find out how far they came.

        Args:
            settings: Settings of librdkafka, `group.id` among them: who has replayed.
            topic: The dead-letter topic.
            is_dry_run: Only tell what would be sent.
            silent_s_max: How long Kafka may bring nothing of what is in the topic.

        Raises:
            InvalidRequestError: There is no such topic.
            ShardlogError: The cluster does not answer, or does not let us.
        """
        self._topic = topic
        self._servers = settings.get("bootstrap.servers")
        self._silent_s_max = silent_s_max
        self._clock = SystemClock()
        self._partition_counts = Admin(settings).partitions()
        if topic not in self._partition_counts:
            message = f"there is no topic {topic!r} to replay"
            raise InvalidRequestError(message)
        name = f"{settings['group.id']}~{topic}"
        # IMPORTANT: before the offsets are asked for; then nobody moves them any more.
        self._producer = None if is_dry_run else TransactionalProducer(settings, name)
        self._consumer = Consumer(settings)
        self._partitions = [
            Partition(topic, number) for number in range(self._partition_counts[topic])
        ]
        marks = {at: self._consumer.watermarks(at) for at in self._partitions}
        places = self._consumer.group_places(self._partitions)
        self._ends = {at: end for at, (_, end) in marks.items()}
        self._lows = {at: low for at, (low, _) in marks.items()}
        self._done = {
            partition: max(places[partition].offset, low) if partition in places else low
            for partition, low in self._lows.items()
        }
        for partition, done in self._done.items():
            if done > self._ends[partition]:
                message = (
                    f"group {name!r} has replayed {topic}/{partition.number} to {done}, and "
                    f"it ends at {self._ends[partition]}: it was recreated; name another group"
                )
                raise InvalidRequestError(message)
        self._seen: _Seen = set()
        self.report = ReplayReport()

    @property
    def waiting(self) -> int:
        """How many offsets of the topic have not been gone through."""
        return sum(max(end - self._done[at], 0) for at, end in self._ends.items())

    def run(self, limit: int | None, show: Callable[[int], None]) -> ReplayReport:
        """Send back what was not, up to a number of records; `show` is told how many.

        1. Read: the next records of the topic, up to the end it had at the start.
        2. Begin a transaction.
        3. Send: each whose origin was not replayed, to its partition there, as it was, with its
           origin as one more header.
        4. Commit: the group's offsets behind them, in the transaction.

        A failure, or death, from 2 to 4 leaves nothing of it: the group's offsets, and who reads
        committed records, see all of a transaction or none.

        Raises:
            ShardlogError: It cannot go on; what was committed is.
        """
        # IMPORTANT: all of them first; a dead letter and its twin may lie in different partitions.
        for dead_letters in self._batches(self._lows, self._done):
            origins = (one.origin for one in dead_letters)
            self._seen.update(_identity(origin) for origin in origins if origin is not None)
        for fresh in self._batches(self._done, self._ends):  # 1
            room = None if limit is None else limit - self.report.replayed
            self._send_back(fresh if room is None else self._cut(fresh, room))
            show(self.report.replayed)
            if limit is not None and self.report.replayed >= limit:
                break
        return self.report

    def close(self) -> None:
        """Let go of the topic."""
        self._consumer.close()

    def _send_back(self, dead_letters: list[_DeadLetter]) -> None:
        to_send, foreign = self._chosen(dead_letters)
        homeless = next(filter(self._is_homeless, to_send), None)
        if homeless is not None:
            # What comes before it goes; whoever takes it out takes all before it out as well.
            dead_letters = dead_letters[: dead_letters.index(homeless)]
            to_send, foreign = self._chosen(dead_letters)
        if self._producer is not None and dead_letters:
            with self._producer.transaction(self._consumer) as offsets:  # 2
                for dead_letter in to_send:
                    self._produce(dead_letter)  # 3
                offsets.update({each.partition: each.offset + 1 for each in dead_letters})  # 4
        self._seen.update(_identity(each.origin) for each in to_send if each.origin is not None)
        self.report.replayed += len(to_send)
        self.report.doubled += len(dead_letters) - len(to_send) - foreign
        self.report.foreign += foreign
        if homeless is not None:
            raise _refusal(homeless)

    def _chosen(self, dead_letters: list[_DeadLetter]) -> tuple[list[_DeadLetter], int]:
        """Return those that were not replayed, and how many have no origin."""
        chosen, seen, foreign = [], set(self._seen), 0
        for dead_letter in dead_letters:
            if dead_letter.origin is None:
                foreign += 1
            elif _identity(dead_letter.origin) not in seen:
                seen.add(_identity(dead_letter.origin))
                chosen.append(dead_letter)
        return chosen, foreign

    def _cut(self, dead_letters: list[_DeadLetter], room: int) -> list[_DeadLetter]:
        """Return so many of the first that no more than `room` of them are sent."""
        chosen, _ = self._chosen(dead_letters)
        if len(chosen) <= room:
            return dead_letters
        return dead_letters[: dead_letters.index(chosen[room])]

    def _is_homeless(self, dead_letter: _DeadLetter) -> bool:
        origin = dead_letter.origin
        return origin is not None and origin.partition >= self._partition_counts.get(
            origin.topic, 0
        )

    def _produce(self, dead_letter: _DeadLetter) -> None:
        origin = dead_letter.origin
        assert self._producer is not None, "a dry run sends nothing"
        assert origin is not None, "only what has an origin is chosen"
        where = f"{origin.topic}/{origin.partition}/{origin.offset}".encode()
        self._producer.send(
            Partition(origin.topic, origin.partition),
            dead_letter.key,
            dead_letter.value,
            origin.timestamp,
            [*dead_letter.headers, (REPLAY_HEADER, where)],
        )

    def _batches(
        self, starts: Mapping[Partition, int], ends: Mapping[Partition, int]
    ) -> Iterator[list[_DeadLetter]]:
        """Yield the records of the topic between two offsets of each partition."""
        requested = {at: Place(start) for at, start in starts.items() if start < ends[at]}
        if not requested:
            return
        left = set(requested)
        self._consumer.begin(requested)
        reached: dict[Partition, int] = {}
        heard_s = self._clock.monotonic_s()
        while left:
            for fetched, fault in self._consumer.fetch(_FETCH_RECORDS, _FETCH_WAIT_S):
                if fault is not None:
                    message = f"the dead-letter topic cannot be read: {fault.text}"
                    raise InvalidRequestError(message)
                all_fetched = _dead_letters(fetched)
                dead_letters = [one for one in all_fetched if one.offset < ends[one.partition]]
                if dead_letters:
                    yield dead_letters
            # Control records are passed too.
            before, reached = reached, self._consumer.positions(left)
            left = {at for at in left if reached.get(at, 0) < ends[at]}
            now_s = self._clock.monotonic_s()
            if reached != before:
                heard_s = now_s
            elif now_s - heard_s >= self._silent_s_max:
                raise self._silence(now_s - heard_s)
        self._consumer.unassign(requested)

    def _silence(self, silent_s: float) -> BrokerUnavailableError:
        message = (
            f"{self._topic}: Kafka at {self._servers} brought nothing for {silent_s:.0f} s; "
            "what was committed is sent, replay again for the rest"
        )
        return BrokerUnavailableError(message)


def _dead_letters(fetched: Fetched) -> Iterator[_DeadLetter]:
    for partition, (start, end) in fetched.runs.items():
        for row in range(start, end):
            pairs = None if fetched.headers is None else fetched.headers[row].as_py()
            headers = None if pairs is None else [(one["key"], one["value"]) for one in pairs]
            own, origin = split_origin(headers) or (headers or [], None)
            key, value = fetched.keys[row].as_py(), fetched.values[row].as_py()
            yield _DeadLetter(partition, int(fetched.offsets[row]), key, value, own, origin)


def _refusal(dead_letter: _DeadLetter) -> InvalidRequestError:
    origin = dead_letter.origin
    assert origin is not None, "only what has an origin is missed there"
    message = (
        f"record {dead_letter.offset} of {dead_letter.partition.topic}/"
        f"{dead_letter.partition.number} comes from "
        f"{origin.topic}/{origin.partition}, which is not there: make the topic again, or take it "
        "out of the dead-letter topic; neither it nor anything behind it was sent"
    )
    return InvalidRequestError(message)


def _identity(origin: Origin) -> tuple[str, str, int, int]:
    return origin.topic, origin.topic_id, origin.partition, origin.offset

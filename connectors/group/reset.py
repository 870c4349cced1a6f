"""Reset: a partition goes on from another offset, forward or backward.

The store is the truth, so it is the shard that is set. Forward, the offsets between are skipped: a
gap, recorded and counted. Backward, the shard's log is archived and a new one begins, since no log
may hold a record twice. The group's offset in Kafka is a copy; it is set where the group allows.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from connectors.group.home_mark import HomeMark
from connectors.group.reset_target import Target, clamped
from connectors.group.retry_shards import partition_of, refuse_beyond, retry_shard_of
from connectors.kafka import OffsetAdmin, Partition, Place
from storage_core import (
    ArchivedShard,
    CorruptionError,
    Environment,
    ForeignDataError,
    InvalidRequestError,
    ShardLockedError,
    ShardlogError,
    Stream,
    StreamReader,
    describe_stream,
    root_id,
    shard_owners,
    shard_progress,
)

# A refusal names so many partitions, and counts the others.
_NAMED_MAX: Final = 10
_ENVIRONMENT: Final = Environment(purpose="a reset")

Effect = Literal["nothing", "gap", "archive", "new shard"]


@dataclass(frozen=True, slots=True)
class Reset:
    """What a reset does to one partition.

    Attributes:
        partition: The partition.
        current: Where its shard stands; None where it has no shard yet.
        target: Where it goes on.
        rows: How many rows the log has stored, if it is archived; None where it cannot be read.
        clamped: What is said where another offset was wanted; may be empty.
    """

    partition: Partition
    current: int | None
    target: int
    rows: int | None = 0
    clamped: str = ""

    @property
    def effect(self) -> Effect:
        """What it means for the shard."""
        if self.current is None:
            return "new shard"
        if self.target == self.current:
            return "nothing"
        return "gap" if self.target > self.current else "archive"

    def text(self) -> str:
        """Return what it means, for people."""
        rows = "" if self.rows is None else f" and its {self.rows} rows"
        texts = {
            "new shard": "the shard begins here",
            "nothing": "stays as it is",
            "gap": f"gap of {self.target - (self.current or 0)} offsets",
            "archive": f"archives the log{rows}; a new log begins at {self.target}",
        }
        return "; ".join(filter(None, (texts[self.effect], self.clamped)))


@dataclass(frozen=True, slots=True)
class ResetOutcome:
    """What became of the reset of one partition.

    Attributes:
        reset: What was planned.
        error: Why it was not done, None where it was.
        archived: The log that was archived, if one was.
        group_refusal: Why Kafka did not take the group's offset, if it was to be set.
    """

    reset: Reset
    error: ShardlogError | None = None
    archived: ArchivedShard | None = None
    group_refusal: ShardlogError | None = None


def planned_resets(
    root: Path, stream: str, target: Target, offsets: OffsetAdmin, numbers: Iterable[int] = ()
) -> list[Reset]:
    """Return what a reset would do to partitions; nothing is changed.

    Args:
        root: The root's path.
        stream: The stream.
        target: Where they go.
        offsets: What knows the offsets of the topic.
        numbers: Which partitions; none for all that have a shard.

    Raises:
        InvalidRequestError: There is no such stream or partition, it is no topic's copy, or its
            lake would undo the reset.
        CorruptionError: How far a chosen partition is stored cannot be read.
        BrokerUnavailableError: Kafka does not answer.
    """
    described = describe_stream(root, stream)
    origin = described.origin
    if origin is None:
        message = "the stream is no copy of a topic; there is nothing to take again"
        raise InvalidRequestError(message, stream=stream)
    stands = {number: shard.committed for number, shard in shard_progress(root, stream).items()}
    owned = {number for number in stands if partition_of(number) is None}
    partitions = [Partition(origin.topic, number) for number in sorted({*numbers} or owned)]
    for partition in partitions:
        refuse_beyond(partition)
    _refuse_missing(stream, partitions, offsets.partition_count(origin.topic))
    current = _places(
        stream, {at.number: stands[at.number] for at in partitions if at.number in stands}
    )
    lows, ends = offsets.edges(partitions, "earliest"), offsets.edges(partitions, "latest")
    wanted = _wanted(partitions, target, current, lows, ends, offsets)
    resets: list[Reset] = []
    for partition in partitions:
        offset, remark = clamped(wanted[partition], lows[partition], ends[partition])
        resets.append(Reset(partition, current.get(partition.number), offset, clamped=remark))
    archived = [one.partition.number for one in resets if one.effect == "archive"]
    if archived and described.options.lake is not None:
        # The table goes on to name the log that has published it, and the next worker begins there.
        message = (
            f"a new log would begin from the lake, {described.options.lake}, where that ends; name "
            "the stream another one first: shardlog alter ROOT STREAM lake=…"
        )
        raise InvalidRequestError(message, stream=stream, shard=archived[0])
    rows = _rows(root, stream, archived)
    return [replace(one, rows=rows.get(one.partition.number, 0)) for one in resets]


def refuse_held(root: Path, stream: str, resets: Sequence[Reset]) -> None:
    """Refuse to reset shards that processes hold, before anything is changed.

    Raises:
        ShardLockedError: A process holds some; the message names them all, up to ten.
    """
    owners = shard_owners(root, stream)
    held: dict[str, list[int]] = {}
    for reset in resets:
        owner = owners.get(reset.partition.number)
        if owner is not None and reset.effect != "nothing":
            held.setdefault(str(owner), []).append(reset.partition.number)
    numbers = [number for of_owner in held.values() for number in of_owner]
    if not numbers:
        return
    if len(numbers) == 1:
        raise _held(root, stream, numbers[0], f"{next(iter(held))} holds the shard")
    named = set(numbers[:_NAMED_MAX])
    holders = [
        f"{owner} holds partitions {', '.join(str(one) for one in of_owner if one in named)}"
        for owner, of_owner in held.items()
        if named & set(of_owner)
    ]
    more = f" and {len(numbers) - _NAMED_MAX} more" if len(numbers) > _NAMED_MAX else ""
    message = (
        f"{'; '.join(holders)}{more}: run `shardlog group pause {root} {stream}`, with "
        f"--partition N for one of them, reset, then `shardlog group resume {root} {stream}`"
    )
    raise ShardLockedError(message, stream=stream)


def run_reset(
    root: Path, stream: str, reset: Reset, set_group: Callable[[Partition, Place], None] | None
) -> ResetOutcome:
    """Reset one partition, as was planned; whole or not begun wherever it is killed.

    1. Forward: the shard is opened, and its tail moved to the target with a gap, in one commit.
       Backward: the log is archived and a new one begins at the target (`Stream.archive_shards`).
       With it goes the log of its retried dead letters, whose records may come again as well.
       Where it stands there already nothing is done, so that it may be repeated.
    2. The group's offset is set, if the group takes it; if not, the worker that opens the shard
       sets it, and until then it is the copy of what was.

    Args:
        root: The root's path.
        stream: The stream.
        reset: What was planned.
        set_group: Sets the group's offset; None to leave it.
    """
    try:
        archived = _reset_shard(root, stream, reset)
    except ShardLockedError as error:
        return ResetOutcome(reset, _held(root, stream, reset.partition.number, error.message))
    except ShardlogError as error:
        return ResetOutcome(reset, error)
    outcome = ResetOutcome(reset, archived=archived)
    if set_group is None:
        return outcome
    try:
        lineage = describe_stream(root, stream).lineages[reset.partition.number]
        mark = HomeMark(root_id(root), lineage)
        set_group(reset.partition, Place(reset.target, metadata=mark.encode()))
    except ShardlogError as error:
        return replace(outcome, group_refusal=error)
    return outcome


def check_same_topic(
    stream: str, expected: str, topic_ids: Mapping[str, str | InvalidRequestError], topic: str
) -> None:
    """Refuse a reset by offsets of another topic than the stream was made from.

    Raises:
        ForeignDataError: The topic was deleted, or deleted and re-created.
        InvalidRequestError: It may not be described.
    """
    topic_id = topic_ids.get(topic)
    if isinstance(topic_id, InvalidRequestError):
        raise topic_id
    if topic_id != expected:
        state = "is not there" if topic_id is None else "was deleted and re-created"
        message = f"the topic {state}; drop the stream to take it anew"
        raise ForeignDataError(message, stream=stream)


def _reset_shard(root: Path, stream: str, reset: Reset) -> ArchivedShard | None:
    number, target = reset.partition.number, reset.target
    if reset.current is None:
        Stream.add_shards(root, stream, {number: target})
        birth = describe_stream(root, stream).births[number]
        if birth != target:
            message = f"its shard was made meanwhile, and begins at {birth}; reset it again"
            raise InvalidRequestError(message, stream=stream, shard=number)
        return None
    if reset.effect == "nothing":
        return None
    if target > reset.current:
        with Stream.open(root, stream, [number], environment=_ENVIRONMENT) as shard:
            # Rows that a killed worker had stored, and not published, are there by now.
            if shard.committed()[number] <= target:
                source = {**(shard.source(number) or {}), "next": target}
                # Of the last record below it, which the target's log may not know.
                source.pop("epoch", None)
                shard.skip(number, target, source=source)
                return None
    logs = Stream.archive_shards(
        root,
        stream,
        {number: target},
        # Made by the first retry, perhaps at this moment: its records come again too.
        beside={retry_shard_of(number): 0},
        environment=_ENVIRONMENT,
    )
    return next(log for log in logs if log.shard == number)


def _places(stream: str, stands: Mapping[int, int | None]) -> dict[int, int]:
    """Return where shards stand.

    Raises:
        CorruptionError: One cannot say it.
    """
    places = {number: next_ for number, next_ in stands.items() if next_ is not None}
    for number in sorted(stands.keys() - places.keys()):
        message = (
            "how far it is stored cannot be read; `shardlog verify` says why, and opening the "
            "shard for writing may repair it"
        )
        raise CorruptionError(message, stream=stream, shard=number)
    return places


def _rows(root: Path, stream: str, numbers: Collection[int]) -> dict[int, int | None]:
    """Return how many rows shards have stored; None of those of a stream that cannot be read."""
    if not numbers:
        return {}
    # That one of its shards is damaged is no reason to keep the others, or it, as they are.
    with suppress(CorruptionError), StreamReader.open(root, stream) as reader:
        reader.refresh()
        return {number: reader.stats(number).records for number in numbers}
    return dict.fromkeys(numbers)


def _wanted(  # noqa: PLR0913 - all that a target may mean
    partitions: Sequence[Partition],
    target: Target,
    current: Mapping[int, int],
    lows: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    offsets: OffsetAdmin,
) -> dict[Partition, int]:
    """Return the offset that each partition is to go to, whether its log has it or not."""
    if target.kind == "earliest":
        return dict(lows)
    if target.kind == "latest":
        return dict(ends)
    if target.kind == "offset":
        return dict.fromkeys(partitions, target.value)
    if target.kind == "time":
        times = offsets.at_time(partitions, target.value)
        # Where nothing is as new, Kafka's tool takes the end.
        return {at: ends[at] if times[at] is None else int(times[at] or 0) for at in partitions}
    for partition in partitions:
        if partition.number not in current:
            message = f"partition {partition.number} has no shard to shift from; name an offset"
            raise InvalidRequestError(message, stream=partition.topic)
    return {partition: current[partition.number] + target.value for partition in partitions}


def _refuse_missing(stream: str, partitions: Iterable[Partition], count: int) -> None:
    for partition in partitions:
        if partition.number >= count:
            message = f"there is no partition {partition.number}; the topic has {count}"
            raise InvalidRequestError(message, stream=stream)


def _held(root: Path, stream: str, number: int, reason: str) -> ShardLockedError:
    arguments = f"{root} {stream} --partition {number}"
    message = (
        f"{reason}: run `shardlog group pause {arguments}`, reset, then "
        f"`shardlog group resume {arguments}`"
    )
    return ShardLockedError(message, stream=stream, shard=number)

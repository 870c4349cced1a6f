"""Opens the shards of one partition together, for writing: its own, and its retry shard.

Both belong together: what a retry has stored in the one, and not cleared of the other yet, is
settled by whoever opens the partition. A retry shard is made by who holds the partition's own
shard, and never goes; so what is listed once that is held is all there is, and stays it.
"""

from pathlib import Path

from connectors.group.pauses import Pauses
from connectors.group.retry_shards import retry_shard_of, shards_of
from connectors.kafka import Partition
from storage_core import Environment, Stream, UnavailableError, describe_stream


def open_partition_shards(
    root: Path, name: str, number: int, environment: Environment | None = None
) -> Stream:
    """Open a partition's shards, those that came while others were opened among them.

    Args:
        root: The root.
        name: The stream.
        number: The partition.
        environment: What they are opened for.

    Raises:
        InvalidRequestError: There is no such stream or partition.
        ShardLockedError: A process has one of them; nothing is open.
    """
    stream = Stream.open(root, name, _listed(root, name, number), environment=environment)
    try:
        listed = _listed(root, name, number)
        if set(listed) == set(stream.committed()):
            return stream
    except BaseException:
        stream.close()
        raise
    # A retry has made the other one between both.
    stream.close()
    return Stream.open(root, name, listed, environment=environment)


class PausedShardError(UnavailableError):
    """The partition was paused while its shard was being opened."""


def take_partition_shards(root: Path, partition: Partition) -> Stream:
    """Open a partition's shards as a worker does, which an operator may pause at this moment.

    IMPORTANT: whoever pauses writes the pause, then looks who has the shard. So it is locked first,
    and then looked for a pause: one of both sees the other, and where the pause is said to be in
    force nobody opens the store behind it.

    Raises:
        InvalidRequestError: There is no such stream or partition.
        PausedShardError: It is paused; nothing was opened.
        ShardLockedError: A process has one of them; nothing is open.
    """
    pauses = Pauses(root)

    def refuse_paused() -> None:
        if pauses.are_any_of(partition):
            message = "it was paused while its shard was being opened"
            raise PausedShardError(message, stream=partition.topic, shard=partition.number)

    environment = Environment(once_locked=refuse_paused)
    return open_partition_shards(root, *partition, environment)


def add_retry_shard(root: Path, name: str, number: int) -> None:
    """Make a partition's retry shard if it has none.

    Raises:
        ShardLockedError: A process has the partition's own shard; nothing was made.
    """
    if retry_shard_of(number) in describe_stream(root, name).shards:
        return
    # IMPORTANT: with the partition's lock; nothing is made where we may not go on, and nobody who
    # has the partition misses it.
    with Stream.open(root, name, shards=[number]):
        Stream.add_shards(root, name, {retry_shard_of(number): 0})


def _listed(root: Path, name: str, number: int) -> list[int]:
    # The partition's own is refused by name where it is not there.
    return shards_of(number, {number, *describe_stream(root, name).shards})

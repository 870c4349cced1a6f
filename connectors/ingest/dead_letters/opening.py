"""Opens the shards of one partition for a command that works on its dead letters."""

from pathlib import Path

from connectors.group.partition_shards import add_retry_shard, open_partition_shards
from connectors.group.retry_shards import partition_of
from connectors.ingest.dead_letters.selection import Selection
from storage_core import (
    InvalidRequestError,
    ShardLockedError,
    Stream,
    StreamReader,
)


def partitions_with_dead_letters(root: Path, name: str, selection: Selection) -> list[int]:
    """Return the chosen partitions of a stream that have chosen dead letters.

    Raises:
        InvalidRequestError: There is no such stream or partition, or it is of no topic.
    """
    with StreamReader.open(root, name) as reader:
        if reader.origin is None:
            message = "it was not made from a topic; nothing is known of what its dead letters are"
            raise InvalidRequestError(message, stream=name)
        shards = sorted(reader.refresh())
        present = [shard for shard in shards if partition_of(shard) is None]
        missing = sorted(selection.partitions - set(present))
        if missing:
            message = f"there is no partition {missing[0]}; there are {present}"
            raise InvalidRequestError(message, stream=name)
        return [
            number
            for number in present
            if next(selection.dead_letters(reader, number), None) is not None
        ]


def open_partition(root: Path, name: str, number: int, *, with_retry_shard: bool) -> Stream:
    """Open a partition's shards for writing.

    Args:
        root: The root.
        name: The stream.
        number: The partition.
        with_retry_shard: Make its retry shard if it has none.

    Raises:
        ShardLockedError: A process has one of them; nothing was made.
    """
    try:
        if with_retry_shard:
            add_retry_shard(root, name, number)
        return open_partition_shards(root, name, number)
    except ShardLockedError as error:
        message = (
            f"{error.message}; add --pause, or free it with `shardlog group pause {root} {name} "
            f"--partition {number}`, and `shardlog group resume` afterwards"
        )
        raise ShardLockedError(message, stream=name, shard=number) from error

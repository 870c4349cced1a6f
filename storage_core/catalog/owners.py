"""Which process holds a shard open for writing, as any other process can tell."""

from pathlib import Path

from storage_core.catalog.stream_file import describe_stream, shard_directory
from storage_core.engine.writer_lock import ShardOwner, current_owner

__all__ = ["ShardOwner", "shard_owners"]


def shard_owners(root: Path, stream: str) -> dict[int, ShardOwner | None]:
    """Return who holds each shard of a stream; None for a shard that nobody holds.

    It opens no shard and holds up nobody: a lock is tried only where a file says that it is held.

    Raises:
        InvalidRequestError: There is no such stream.
    """
    description = describe_stream(root, stream)
    return {
        number: current_owner(shard_directory(root / stream, number))
        for number in sorted(description.shards)
    }

"""How far each shard is committed, since when, and which process holds it open for writing.

Any process can tell, and opens no store for it: of each shard it reads the marker and the owner.
"""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from storage_core.catalog.stream_file import describe_stream, shard_directory
from storage_core.engine.commit_marker import MARKER_FILE, MarkerReader
from storage_core.engine.writer_lock import ShardOwner, current_owner
from storage_core.errors import ShardlogError
from storage_core.platform.clock import Clock, SystemClock

__all__ = ["ShardOwner", "ShardProgress", "shard_owners", "shard_progress"]


@dataclass(frozen=True, slots=True)
class ShardProgress:
    """How far a shard has come.

    Attributes:
        committed: The exclusive end of what is durable; None where its marker cannot be read.
        committed_at_ms: When it was committed last, by the time of the marker's file.
        owner: The process that holds it; None while nobody does.
    """

    committed: int | None = None
    committed_at_ms: int | None = None
    owner: ShardOwner | None = None


def shard_owners(root: Path, stream: str) -> dict[int, ShardOwner | None]:
    """Return who holds each shard of a stream; None for a shard that nobody holds.

    It holds up nobody: a lock is tried only where a file says that it is held.

    Raises:
        InvalidRequestError: There is no such stream.
    """
    return {
        number: current_owner(directory) for number, directory in _directories(root, stream).items()
    }


def shard_progress(root: Path, stream: str) -> dict[int, ShardProgress]:
    """Return how far each shard of a stream has come, whatever state its store is in.

    Raises:
        InvalidRequestError: There is no such stream.
    """
    clock = SystemClock()
    return {
        number: _progress(directory, clock)
        for number, directory in _directories(root, stream).items()
    }


def _progress(directory: Path, clock: Clock) -> ShardProgress:
    committed = committed_at_ms = None
    # Damage of a marker is for those who open the shard to tell.
    with suppress(OSError, ShardlogError):
        committed_at_ms = (directory / MARKER_FILE).stat().st_mtime_ns // 10**6
        reader = MarkerReader(directory / MARKER_FILE, clock)
        try:
            committed = reader.read().committed
        finally:
            reader.close()
    return ShardProgress(committed, committed_at_ms, current_owner(directory))


def _directories(root: Path, stream: str) -> dict[int, Path]:
    shards = describe_stream(root, stream).shards
    return {number: shard_directory(root / stream, number) for number in shards}

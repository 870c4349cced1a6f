"""The shards of a stream, of which some cannot be read: what is wrong with one keeps no other back.

A log may be damaged, be another stream's or lie on a disk that fails. Whoever looks after the table
of all shards goes on with the others, and tells what was wrong with each. One thread.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TypeVar

from storage_core.catalog.opening_by_files import opened_by_files
from storage_core.catalog.stream_file import StreamFiles, read_stream, refuse_missing
from storage_core.engine.open_files import open_files
from storage_core.engine.stores import refuse_if_not_installed
from storage_core.errors import (
    CorruptionError,
    ForeignDataError,
    ShardlogError,
    UnavailableError,
)
from storage_core.lake.publishing.followed import follower_of
from storage_core.lake.table import LakeTable
from storage_core.open_shards import OpenShards
from storage_core.platform.clock import Clock, SystemClock
from storage_core.platform.durable_file import reading_errors
from storage_core.read.follow.follower import ShardFollower
from storage_core.read.shard_reader import FollowedShard
from storage_core.read.snapshot import ShardSnapshot
from storage_core.reader import StreamReader

_T = TypeVar("_T")
_OF_ONE_SHARD = (CorruptionError, ForeignDataError, UnavailableError)


@dataclass(slots=True)
class ReadableShards:
    """A stream's reader, and its shards, whether they can be read or not.

    Attributes:
        reader: It has the shards that could be opened.
        shards: The shards that are wanted, sorted.
        faults: Why a shard cannot be read, as far as one has asked it.
    """

    reader: StreamReader
    shards: tuple[int, ...]
    faults: dict[int, ShardlogError] = field(default_factory=dict)

    @property
    def files(self) -> StreamFiles:
        """The stream's files."""
        return self.reader.rows.shards.files

    def ask(self, shard: int, question: Callable[[ShardSnapshot], _T]) -> _T | None:
        """Return what a snapshot of a shard answers; None, and a fault, where it cannot be read.

        One that could not be read is not asked again.

        Raises:
            InvalidRequestError: This process has no right to read there.
        """
        return self.read(shard, lambda: follower_of(self.reader, shard).ask(question))

    def read(self, shard: int, do: Callable[[], _T]) -> _T | None:
        """Do as `ask` does with something that reads the log of a shard."""
        if shard in self.faults:
            return None
        try:
            return do()
        except _OF_ONE_SHARD as error:
            if error.shard != shard:
                # The store's, which is the same for all.
                raise
            self.faults[shard] = error.placed(self.files.meta.name, shard)
            return None

    def way_out(self, shard: int, table: LakeTable | None, command_root: str) -> str | None:
        """Return the command that gives a shard a new log from the table; None where it has none.

        Args:
            shard: The shard.
            table: The table, if there is one.
            command_root: The root, as it is to be typed.
        """
        if table is None or table.published(shard) is None or self.reader.origin is None:
            return None
        if not table.target.is_lake_of(self.reader.options.lake):
            return None
        return f"shardlog lake begin {command_root} {self.files.meta.name} --shard {shard}"


@contextmanager
def readable_shards(
    root: str | PathLike[str], name: str, wanted: Collection[int] | None = None
) -> Iterator[ReadableShards]:
    """Open the shards of a stream that can be opened, for reading; nothing is locked or changed.

    Args:
        root: The directory that holds the streams.
        name: The stream.
        wanted: The shards; None for all of them.

    Raises:
        InvalidRequestError: There is no such root or stream.
        CorruptionError: A file of the stream itself is damaged.
        UnavailableError: The disk refuses.
    """
    refuse_if_not_installed()
    clock, place = SystemClock(), Path(root).absolute()
    read = partial(read_stream, place, name, is_whole=False)
    files = read()
    shards = tuple(
        shard for shard in sorted(files.settings.lineages) if wanted is None or shard in wanted
    )
    open_files().require_for_reader(len(shards), f"{len(shards)} markers to read", name)
    followers: dict[int, FollowedShard] = {}
    faults: dict[int, ShardlogError] = {}
    with ExitStack() as opened:
        for shard in shards:
            try:
                follower, files = opened_by_files(read, partial(_followed, shard, clock))
            except _OF_ONE_SHARD as error:
                faults[shard] = error.placed(name, shard)
                continue
            opened.callback(follower.close)
            followers[shard] = follower
        reader = StreamReader(OpenShards(files, followers, "reader"), clock)
        opened.callback(reader.close)
        yield ReadableShards(reader, shards, faults)


def _followed(shard: int, clock: Clock, files: StreamFiles) -> tuple[ShardFollower, StreamFiles]:
    with reading_errors(files.directory, "opening for reading"):
        refuse_missing(files, shard)
        return ShardFollower(files, shard, clock), files

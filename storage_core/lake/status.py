"""How far the shards of a stream are published, and how long the oldest row has waited."""

from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Final

from storage_core.lake.publish import target_of
from storage_core.lake.publishing.followed import follower_of
from storage_core.lake.publishing.lost_table import open_table
from storage_core.lake.publishing.ownership import log_of
from storage_core.lake.publishing.report import LakeStatus, ShardLakeStatus, UnreadShard
from storage_core.lake.readable_shards import readable_shards
from storage_core.lake.table import LakeTable
from storage_core.lake.target import LakeTarget
from storage_core.platform.clock import Clock, SystemClock
from storage_core.read.snapshot import ShardSnapshot
from storage_core.reader import StreamReader

_NS_A_MS: Final = 1_000_000


def lake_status(
    root: str | PathLike[str],
    name: str,
    target: LakeTarget | None = None,
    *,
    clock: Clock | None = None,
) -> LakeStatus:
    """Return how far a stream is published; a shard that cannot be read keeps no other back.

    Args:
        root: The directory that holds the streams.
        name: The stream.
        target: Where its table is; if None where the stream's option `lake` says.
        clock: Time, for tests.

    Raises:
        InvalidRequestError: There is no such stream, or it has no lake.
        ForeignDataError: What lies there is another stream's table, or none of shardlog.
        UnavailableError: The store does not answer.
    """
    now_ms = (clock or SystemClock()).now_ns() // _NS_A_MS
    shards: dict[int, ShardLakeStatus] = {}
    unread: dict[int, UnreadShard] = {}
    with readable_shards(root, name) as opened:
        place = target or target_of(opened.reader)
        table = open_table(opened.reader, place)
        for shard in opened.shards:
            published = None if table is None else table.published(shard)
            status = opened.read(shard, partial(_status, opened.reader, shard, table, now_ms))
            if status is None:
                way_out = opened.way_out(shard, table, str(root))
                unread[shard] = UnreadShard(published, opened.faults[shard], way_out)
            else:
                shards[shard] = status
    sizes = {} if table is None else table.files()
    version = None if table is None else table.version
    return LakeStatus(place.uri, version, len(sizes), sum(sizes.values()), shards, unread)


def _status(
    reader: StreamReader, shard: int, table: LakeTable | None, now_ms: int
) -> ShardLakeStatus:
    published = None if table is None else table.published(shard)
    owner = None if table is None else table.owner(shard)
    seen = log_of(reader, shard, table).seen(owner)
    return replace(shard_status(reader, shard, published, now_ms), owner=seen)


def shard_status(
    reader: StreamReader, shard: int, published: int | None, now_ms: int
) -> ShardLakeStatus:
    """Return how far a shard is published; nothing is asked of the table.

    Args:
        reader: The stream, opened by the path of its root.
        shard: The shard's number.
        published: Its published address in the table; None where the table has none of it.
        now_ms: The time, by the clock of the log.
    """
    born = reader.born(shard)

    def status(view: ShardSnapshot) -> ShardLakeStatus:
        begin = max(view.state.start, born if published is None else published)
        first = None
        if begin < view.committed:
            first = next(view.zones(begin, view.committed), None)
        return ShardLakeStatus(
            published,
            max(view.state.sealed, born),
            view.committed,
            max(0, view.committed - begin),
            0 if first is None else max(0, now_ms - first.committed_at_ms),
        )

    return follower_of(reader, shard).ask(status)

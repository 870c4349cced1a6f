"""What one task reads: ranges of shards' offsets, and which stream exactly they are of.

Ranges are cut and packed from (begin, end) and options alone, never from where the stream stands:
a batch that is replayed has the same tasks with the same rows. Where an end moves (bounds.Move)
the tasks are cut from what there is when they are planned, and the last of a shard reads on.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from pyspark.sql.datasource import InputPartition

from streaming_jobs.common.stream_location import RootLocation, StreamLocation
from streaming_jobs.source.driver.bounds import Edge, Move
from streaming_jobs.source.driver.stream_snapshot import ShardName, StreamSnapshot
from streaming_jobs.source.options import SourceOptions, Splitting

OffsetRange = tuple[ShardName, int, int]
Edges = Mapping[ShardName, tuple[Edge, Edge]]

# A task costs Spark some 30 ms of a slot, as much as it takes to hand over this many.
_PACKED_RECORDS: Final = 10_000
# … and to read a few rows of each of so many shards that are open.
_PACKED_RANGES: Final = 64


@dataclass(frozen=True, slots=True)
class ShardRange:
    """The offsets [begin, end) of one shard, as far as its ends do not move.

    What had expired behind a row by the generation `expired_until` is no part of it.
    Where an end moves, the driver saw the shard committed up to `least`, and a task sees no less.
    """

    place: StreamLocation
    shard: int
    lineage: str
    begin: int
    end: int
    moves: tuple[Move | None, Move | None] = (None, None)
    expired_until: int = 0
    least: int = 0


@dataclass(frozen=True, slots=True)
class AddedShards:
    """What was not there when tasks were planned: shards of streams, and streams that match.

    Attributes:
        options: What the frame was asked for.
        root: Where it is read.
        planned: The streams that were, each with the shards that other tasks read; none for one
            that gets no others.
    """

    options: SourceOptions
    root: RootLocation
    planned: Mapping[StreamLocation, frozenset[int] | None]


@dataclass(frozen=True, slots=True)
class SourceTask(InputPartition):
    """Ranges that one task reads, one after the other, and perhaps all of later shards."""

    ranges: tuple[ShardRange, ...]
    added: AddedShards | None = None


def split_ranges(
    ranges: Mapping[ShardName, tuple[int, int]], splitting: Splitting
) -> list[OffsetRange]:
    """Return ranges as (shard, begin, end), cut as options ask, by stream, shard and offset.

    Without options a shard is one range. Enough are cut that none holds more offsets than
    `records_max`; and where that leaves fewer than `partitions_min`, large ones are cut in
    proportion to their size.
    """
    whole = [(n, begin, end) for n, (begin, end) in sorted(ranges.items()) if begin < end]
    most = splitting.records_max
    if most is not None:
        whole = [part for offsets in whole for part in _cut(offsets, -(-_size(offsets) // most))]
    least = splitting.partitions_min
    if least is None or len(whole) >= least:
        return whole
    total = sum(map(_size, whole))
    return [
        part
        for offsets in whole
        for part in _cut(offsets, max(1, round(_size(offsets) / total * least)))
    ]


def pack_ranges(ranges: Iterable[OffsetRange], splitting: Splitting) -> list[list[OffsetRange]]:
    """Return ranges by task: small neighbours share one, unless a number of tasks was asked for."""
    most = min(_PACKED_RECORDS, splitting.records_max or _PACKED_RECORDS)
    if splitting.partitions_min is not None:
        most = 0
    packed: list[list[OffsetRange]] = []
    room = 0
    for offsets in ranges:
        size = _size(offsets)
        if size > room or not packed or len(packed[-1]) == _PACKED_RANGES:
            packed.append([])
            room = most
        packed[-1].append(offsets)
        room -= size
    return packed


def tasks_of(
    snapshots: Mapping[str, StreamSnapshot],
    edges: Edges,
    splitting: Splitting,
    added: AddedShards | None = None,
) -> list[InputPartition]:
    """Return what lies between edges as tasks."""
    ranges = {shard: (begin.offset, end.offset) for shard, (begin, end) in edges.items()}
    growing = {shard for shard, (_, end) in edges.items() if end.move is not None}
    cut = split_ranges(ranges, splitting)
    # A shard that holds nothing yet may do so when it is read.
    bare = [(shard, *ranges[shard]) for shard in growing - {shard for shard, _, _ in cut}]
    cut = sorted([*cut, *bare])
    last = {shard: (begin, end) for shard, begin, end in cut}
    tasks = []
    for packed in pack_ranges(cut, splitting):
        ranges_of_task = []
        for shard, begin, end in packed:
            first, final = edges[shard]
            moves = (first.move, final.move if (begin, end) == last[shard] else None)
            stream, number = shard
            snapshot, until = snapshots[stream], first.expired_until
            lineage = snapshot.lineages[number]
            shard_range = ShardRange(snapshot.place, number, lineage, begin, end, moves, until)
            ranges_of_task.append(
                replace(shard_range, least=snapshot.ends[number]) if any(moves) else shard_range
            )
        tasks.append(SourceTask(tuple(ranges_of_task)))
    if added is not None:
        tail = tasks.pop() if tasks else SourceTask(())
        tasks.append(replace(tail, added=added))
    return [*tasks]


def _size(offsets: OffsetRange) -> int:
    _, begin, end = offsets
    return end - begin


def _cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    shard, begin, _ = whole
    size = _size(whole)
    edges = [begin + size * index // parts for index in range(parts + 1)]
    return [(shard, a, b) for a, b in pairwise(edges) if a < b]

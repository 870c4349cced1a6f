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

from streaming_jobs.common.stream_place import RootPlace, StreamPlace
from streaming_jobs.source.driver.bounds import Edge, Move
from streaming_jobs.source.driver.snapshot_reads import ShardName, StreamLook
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

    place: StreamPlace
    shard: int
    lineage: str
    begin: int
    end: int
    moves: tuple[Move | None, Move | None] = (None, None)
    expired_until: int = 0
    least: int = 0


@dataclass(frozen=True, slots=True)
class Added:
    """What was not there when tasks were planned: shards of streams, and streams that match.

    Attributes:
        options: What the frame was asked for.
        root: Where it is read.
        known: The streams that were, each with the shards that other tasks read; none for one
            that gets no others.
    """

    options: SourceOptions
    root: RootPlace
    known: Mapping[StreamPlace, frozenset[int] | None]


@dataclass(frozen=True, slots=True)
class SourceTask(InputPartition):
    """Ranges that one task reads, one after the other, and perhaps all of later shards."""

    ranges: tuple[ShardRange, ...]
    added: Added | None = None


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
        whole = [part for one in whole for part in _cut(one, -(-(one[2] - one[1]) // most))]
    least = splitting.partitions_min
    if least is None or len(whole) >= least:
        return whole
    total = sum(end - begin for _, begin, end in whole)
    return [
        part
        for one in whole
        for part in _cut(one, max(1, round((one[2] - one[1]) / total * least)))
    ]


def pack_ranges(ranges: Iterable[OffsetRange], splitting: Splitting) -> list[list[OffsetRange]]:
    """Return ranges by task: small neighbours share one, unless a number of tasks was asked for."""
    most = min(_PACKED_RECORDS, splitting.records_max or _PACKED_RECORDS)
    if splitting.partitions_min is not None:
        most = 0
    packed: list[list[OffsetRange]] = []
    room = 0
    for one in ranges:
        size = one[2] - one[1]
        if size > room or not packed or len(packed[-1]) == _PACKED_RANGES:
            packed.append([])
            room = most
        packed[-1].append(one)
        room -= size
    return packed


def tasks_of(
    looks: Mapping[str, StreamLook],
    edges: Edges,
    splitting: Splitting,
    added: Added | None = None,
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
    for each in pack_ranges(cut, splitting):
        own = []
        for shard, begin, end in each:
            first, final = edges[shard]
            moves = (first.move, final.move if (begin, end) == last[shard] else None)
            stream, number = shard
            seen, until = looks[stream], first.expired_until
            lineage = seen.lineages[number]
            one = ShardRange(seen.place, number, lineage, begin, end, moves, until)
            own.append(replace(one, least=seen.ends[number]) if any(moves) else one)
        tasks.append(SourceTask(tuple(own)))
    if added is not None:
        tail = tasks.pop() if tasks else SourceTask(())
        tasks.append(replace(tail, added=added))
    return [*tasks]


def _cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    shard, begin, end = whole
    size = end - begin
    edges = [begin + size * at // parts for at in range(parts + 1)]
    return [(shard, a, b) for a, b in pairwise(edges) if a < b]

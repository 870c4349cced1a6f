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

from streaming_jobs.source.bounds import Bound, Edge, Move
from streaming_jobs.source.look import StreamLook
from streaming_jobs.source.options import Splitting
from streaming_jobs.stream_place import StreamPlace

OffsetRange = tuple[int, int, int]

# A task costs Spark some 30 ms of a slot, as much as it takes to hand over this many.
_PACKED_RECORDS: Final = 10_000


@dataclass(frozen=True, slots=True)
class ShardRange:
    """The offsets [begin, end) of one shard, as far as its ends do not move.

    What had expired behind a row by the generation `expired_until` is no part of it.
    """

    place: StreamPlace
    shard: int
    lineage: str
    begin: int
    end: int
    moves: tuple[Move | None, Move | None] = (None, None)
    expired_until: int = 0


@dataclass(frozen=True, slots=True)
class AddedShards:
    """Shards that were not there when tasks were planned.

    Attributes:
        place: The stream.
        known: The shards that other tasks read.
        starting: Where each of the others is read from.
        ending: To where.
    """

    place: StreamPlace
    known: frozenset[int]
    starting: Bound
    ending: Bound


@dataclass(frozen=True, slots=True)
class SourceTask(InputPartition):
    """Ranges that one task reads, one after the other, and perhaps all of later shards."""

    ranges: tuple[ShardRange, ...]
    added: AddedShards | None = None


def split_ranges(ranges: Mapping[int, tuple[int, int]], splitting: Splitting) -> list[OffsetRange]:
    """Return ranges as (shard, begin, end), cut as options ask, by shard and offset.

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
        if size > room or not packed:
            packed.append([])
            room = most
        packed[-1].append(one)
        room -= size
    return packed


def tasks_of(
    seen: StreamLook,
    edges: Mapping[int, tuple[Edge, Edge]],
    splitting: Splitting,
    added: AddedShards | None = None,
) -> list[InputPartition]:
    """Return what lies between edges as tasks."""
    ranges = {shard: (begin.offset, end.offset) for shard, (begin, end) in edges.items()}
    growing = {shard for shard, (_, end) in edges.items() if end.move is not None}
    cut = split_ranges(ranges, splitting)
    # A shard that holds nothing yet may do so when it is read.
    bare = [(n, *ranges[n]) for n in growing - {shard for shard, _, _ in cut}]
    cut = sorted([*cut, *bare])
    last = {shard: (begin, end) for shard, begin, end in cut}
    tasks = []
    for each in pack_ranges(cut, splitting):
        own = []
        for n, begin, end in each:
            first, final = edges[n]
            moves = (first.move, final.move if (begin, end) == last[n] else None)
            lineage, until = seen.lineages[n], first.expired_until
            own.append(ShardRange(seen.place, n, lineage, begin, end, moves, until))
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

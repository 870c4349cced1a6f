"""What one task reads: ranges of shards' offsets, and which stream exactly they are of.

Ranges are cut and packed from (begin, end) and options alone, never from where the stream stands:
a batch that is replayed has the same tasks with the same rows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from pyspark.sql.datasource import InputPartition

from streaming_jobs.options import Splitting
from streaming_jobs.stream_look import StreamLook

OffsetRange = tuple[int, int, int]

# A task costs Spark some 30 ms of a slot, as much as it takes to hand over this many.
_PACKED_RECORDS: Final = 10_000


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """Where a stream is, and which one it is.

    Attributes:
        path: The root.
        stream: The stream's name.
        root: The root's id.
        incarnation: The stream's.
    """

    path: str
    stream: str
    root: str
    incarnation: str


@dataclass(frozen=True, slots=True)
class ShardRange:
    """The offsets [begin, end) of one shard."""

    place: StreamPlace
    shard: int
    lineage: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class SourceTask(InputPartition):
    """Ranges that one task reads, one after the other."""

    ranges: tuple[ShardRange, ...]


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
        if size > room:
            packed.append([])
            room = most
        packed[-1].append(one)
        room -= size
    return packed


def tasks_of(
    place: StreamPlace,
    seen: StreamLook,
    ranges: Mapping[int, tuple[int, int]],
    splitting: Splitting,
) -> list[InputPartition]:
    """Return ranges as tasks."""
    return [
        SourceTask(
            tuple(ShardRange(place, n, seen.lineages[n], begin, end) for n, begin, end in each)
        )
        for each in pack_ranges(split_ranges(ranges, splitting), splitting)
    ]


def _cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    shard, begin, end = whole
    size = end - begin
    edges = [begin + size * at // parts for at in range(parts + 1)]
    return [(shard, a, b) for a, b in pairwise(edges) if a < b]

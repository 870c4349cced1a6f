"""What one task reads: a range of one shard's offsets, and which stream exactly it is of.

Ranges are cut from (begin, end) and options alone, never from where the stream stands: a batch
that is replayed has the same tasks with the same rows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from streaming_jobs.options import Splitting
from streaming_jobs.stream_look import StreamLook

OffsetRange = tuple[int, int, int]


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
class SourcePartition(InputPartition):
    """The offsets [begin, end) of one shard."""

    place: StreamPlace
    shard: int
    lineage: str
    begin: int
    end: int


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


def partitions_of(
    place: StreamPlace, seen: StreamLook, ranges: Iterable[OffsetRange]
) -> list[InputPartition]:
    """Return ranges as tasks."""
    return [
        SourcePartition(place, shard, seen.lineages[shard], begin, end)
        for shard, begin, end in ranges
    ]


def _cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    shard, begin, end = whole
    size = end - begin
    edges = [begin + size * at // parts for at in range(parts + 1)]
    return [(shard, a, b) for a, b in pairwise(edges) if a < b]

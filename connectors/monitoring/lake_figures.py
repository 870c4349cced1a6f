"""How far shards were published, by the notes that whoever publishes leaves: no store is asked.

What another root has published since is not in them; `shardlog lake status` asks the table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from storage_core import StreamReader
from storage_core.lake import LakeNotes

_NS_A_MS = 10**6


@dataclass(frozen=True, slots=True)
class LakeFigures:
    """How far a shard was published.

    Attributes:
        published: The address below which the table has its rows.
        unpublished: How many committed addresses it does not have.
        age_s: How long ago the first of them was committed.
    """

    published: int
    unpublished: int
    age_s: float


def lake_figures(
    root: Path, name: str, reader: StreamReader, now_ns: int
) -> Mapping[int, LakeFigures]:
    """Return how far the shards of a stream were published; those without a note are out.

    Args:
        root: The directory that holds the streams.
        name: The stream.
        reader: It, opened by its path.
        now_ns: The wall time.

    Raises:
        ShardlogError: The stream cannot be read.
    """
    lake = reader.options.lake
    if lake is None:
        return {}
    notes, figures = LakeNotes(root), {}
    for shard, committed in reader.committed().items():
        published = notes.published(name, shard, lake, reader.lineage(shard))
        if published is not None:
            first_ms = reader.first_committed_ms(shard, published)
            age_ms = 0 if first_ms is None else max(now_ns // _NS_A_MS - first_ms, 0)
            unpublished = max(committed - max(published, reader.start(shard)), 0)
            figures[shard] = LakeFigures(published, unpublished, age_ms / 1000)
    return figures

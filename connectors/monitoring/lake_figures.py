"""How far shards were published, by the notes that workers leave: no store is asked.

What was published by a command since then is not in them; `shardlog lake status` asks the table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from connectors.group.lake_notes import LakeNotes
from connectors.kafka import Partition
from storage_core import StreamReader

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
    """Return how far the shards of a stream were published; those that no worker published are out.

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
    # Only who has a lake needs it.
    from storage_core.lake import shard_status  # noqa: PLC0415

    notes, figures = LakeNotes(root), {}
    for shard in reader.committed():
        published = notes.published(Partition(name, shard), lake, reader.lineage(shard))
        if published is not None:
            status = shard_status(reader, shard, published, now_ns // _NS_A_MS)
            age_s = status.unpublished_age_ms / 1000
            figures[shard] = LakeFigures(published, status.unpublished, age_s)
    return figures

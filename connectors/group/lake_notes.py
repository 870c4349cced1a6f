"""Up to where shards were published, for other processes: a small file a shard.

    <root>/~lake/<stream>~<shard>.json

A note is information: the table alone says what is published. It is not synced, and a disk that
does not take it stops nobody. It tells without a question to the store what a worker knew last:
`shardlog status`, the board, and the next worker, which may find the store away.
"""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from connectors.group.partition_files import PartitionFiles, decoded_note
from connectors.kafka import Partition

_DIRECTORY: Final = "~lake"


@dataclass(frozen=True, slots=True)
class LakeNote:
    """Up to where a shard was published.

    Attributes:
        lake: Where the table is.
        lineage: The lineage of the shard's log.
        published: The address below which the table has its rows.
        since_ms: When it was published.
    """

    lake: str
    lineage: str
    published: int
    since_ms: int


class LakeNotes:
    """The notes under a root."""

    def __init__(self, root: Path) -> None:
        self._files = PartitionFiles(root, _DIRECTORY)

    def write(self, partition: Partition, note: LakeNote) -> None:
        """Leave a note in place of one that is there, if the disk takes it."""
        with suppress(OSError):
            self._files.write(partition, json.dumps(asdict(note), indent=1), is_durable=False)

    def published(self, partition: Partition, lake: str | None, lineage: str) -> int | None:
        """Return up to where a shard's log was published there, as far as is known.

        Args:
            partition: The stream and the shard.
            lake: Where the stream's table is.
            lineage: The lineage of the shard's log.
        """
        with suppress(OSError, ValueError):
            text = self._files.place(partition).read_text(encoding="utf-8")
            note = decoded_note(text, LakeNote)
            if (note.lake, note.lineage) == (lake, lineage):
                return note.published
        return None

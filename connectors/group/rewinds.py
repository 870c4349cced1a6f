"""Which partitions are fetched again, as their store lacks what it had: a small file a partition.

    <root>/~rewinding/<topic>~<partition>.json

The worker that opens such a shard leaves it, for other processes: Kafka's group offsets, which tell
of it too, follow the store within a second. A note is information: it is not synced, and a disk
that does not take it stops nobody. It counts until the shard has come to where the group stood.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from connectors.group.partition_files import PartitionFiles, decoded_note
from connectors.kafka import Partition

_DIRECTORY: Final = "~rewinding"


@dataclass(frozen=True, slots=True)
class Rewind:
    """A partition that is fetched again.

    Attributes:
        stream: The topic, and the stream's name.
        shard: The partition.
        since_ms: When it began.
        until: Where the group stood, below which everything was stored once.
        incarnation: The stream's, which one made anew under its name does not have.
    """

    stream: str
    shard: int
    since_ms: int
    until: int
    incarnation: str

    @property
    def partition(self) -> Partition:
        """The partition."""
        return Partition(self.stream, self.shard)


class Rewinds:
    """The notes under a root."""

    def __init__(self, root: Path) -> None:
        self._files = PartitionFiles(root, _DIRECTORY)

    def write(self, rewind: Rewind) -> None:
        """Leave a note, in place of one that is there; under a root only that is there."""
        with suppress(OSError):
            self._files.write(rewind.partition, json.dumps(asdict(rewind)), is_durable=False)

    def settle(self, partition: Partition, shard_next: int) -> None:
        """Take a note away whose partition has come to where the group stood."""
        if self._files.has(partition):
            rewind = self.read().get(partition)
            if rewind is None or rewind.until <= shard_next:
                with suppress(OSError):
                    self._files.remove(partition)

    def read(self) -> Mapping[Partition, Rewind]:
        """Return all notes; a file that holds none is left out."""
        rewinds = []
        for text in self._files.texts():
            with suppress(ValueError):
                rewinds.append(decoded_note(text, Rewind))
        return {rewind.partition: rewind for rewind in rewinds}

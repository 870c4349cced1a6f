"""Partitions of a topic whose shards are open, as a worker holds them; no broker answers."""

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from connectors.group.home_mark import HomeMark
from connectors.group.partition_shards import take_partition_shards
from connectors.ingest.assignment.partition_writer import PartitionWriter
from connectors.kafka import Partition
from storage_core import Stream, StreamOptions, StreamOrigin

TOPIC = "orders"
NOWHERE = "127.0.0.1:1"


def make_stream(root: Path, shards: int) -> None:
    """Make a topic's stream with so many shards."""
    origin = StreamOrigin("kafka", TOPIC, "id", "integer", "timestamp")
    Stream.create(root, TOPIC, StreamOptions(unit="ms"), origin=origin).close()
    Stream.add_shards(root, TOPIC, dict.fromkeys(range(shards), 0))


def open_writer(root: Path, partition: Partition) -> PartitionWriter:
    """Open one shard by itself, as a worker does."""
    stream = take_partition_shards(root, partition)
    return PartitionWriter(
        partition, stream, "id", HomeMark("root", stream.lineage(partition.number)), 0
    )


class ScriptedOpening:
    """Opens those shards that are free; notes what it was asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.refusals: dict[Partition, Exception] = {}
        self.requested: list[Partition] = []
        # What else happens, as time that passes.
        self.meanwhile: Callable[[], None] = lambda: None

    def ask(self, partitions: Collection[Partition], *, is_anew: bool = False) -> None:
        """Ask nobody."""

    def forget(self, partitions: Collection[Partition]) -> None:
        """Know nothing of them."""

    def open(self, partition: Partition) -> PartitionWriter:
        self.requested.append(partition)
        self.meanwhile()
        if partition in self.refusals:
            raise self.refusals[partition]
        return open_writer(self.root, partition)


@contextmanager
def open_writers(root: Path, count: int) -> Iterator[dict[Partition, PartitionWriter]]:
    """Make a topic's stream and open all of its shards, each by itself."""
    make_stream(root, count)
    with ExitStack() as stack:
        writers = {at: open_writer(root, at) for at in (Partition(TOPIC, n) for n in range(count))}
        for writer in writers.values():
            stack.callback(writer.stream.close)
        yield writers

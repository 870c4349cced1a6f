"""Partitions of a topic whose shards are open, as a worker holds them; no broker answers."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from connectors.ingest.shard_feed import ShardFeed
from connectors.ingest.start_place import HomeMark
from connectors.kafka_client import Partition
from storage_core import Stream, StreamOptions, StreamOrigin

TOPIC = "orders"
NOWHERE = "127.0.0.1:1"


@contextmanager
def open_feeds(root: Path, count: int) -> Iterator[dict[Partition, ShardFeed]]:
    """Make a topic's stream and open so many of its shards, each by itself."""
    origin = StreamOrigin("kafka", TOPIC, "id", "integer", "timestamp")
    Stream.create(root, TOPIC, StreamOptions(unit="ms"), origin=origin).close()
    Stream.add_shards(root, TOPIC, dict.fromkeys(range(count), 0))
    with ExitStack() as stack:
        feeds = {}
        for number in range(count):
            stream = stack.enter_context(Stream.open(root, TOPIC, shards=[number]))
            home = HomeMark("root", stream.lineage(number))
            partition = Partition(TOPIC, number)
            feeds[partition] = ShardFeed(partition, stream, "id", home, 0)
        yield feeds

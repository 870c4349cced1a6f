"""The vocabulary of tests of streams with an origin: a topic's copy, its shards and its writer.

copy.add({3: 100})                      shard 3, born at 100
copy.open(3)                            a writer of shard 3; without numbers, of all
copy.append(3, [100, 104])              two rows of id 1 at these addresses
copy.append(3, dead={105: b"raw"})      a dead letter
copy.addresses(3)                       what `tail` shows, by address
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from storage_core import (
    AppendReport,
    Environment,
    Stream,
    StreamOptions,
    StreamOrigin,
    StreamReader,
)
from storage_core.engine.key_value import Batch
from storage_core.engine.rocksdb import open_store
from storage_core.format.shard_state import KEY_BORN, KEY_START, encode_int
from tests.log.workbench import batch_of, column_of

NAME = "clicks"
TOPIC = StreamOrigin("kafka", "clicks", "topic-id-1", "integer", "timestamp")


class TopicCopy:
    """One stream with an origin, and what may befall it."""

    def __init__(self, root: Path, environment: Environment | None = None, **options: Any) -> None:
        self.root = root
        self.environment = environment
        # A dictionary is in both.
        key_mode = options.get("key_mode", TOPIC.key_mode)
        self.stream = Stream.create(
            root,
            NAME,
            StreamOptions(**options),
            origin=replace(TOPIC, key_mode=key_mode),
            environment=environment,
        )

    def add(self, starts: Mapping[int, int]) -> None:
        Stream.add_shards(self.root, NAME, starts)

    def open(self, *shards: int) -> Stream:
        """Close the writer and open another."""
        self.stream.close()
        self.stream = Stream.open(self.root, NAME, shards or None, environment=self.environment)
        return self.stream

    def append(
        self,
        shard: int,
        addresses: Sequence[int] = (),
        dead: Mapping[int, bytes] | None = None,
        source: dict[str, Any] | None = None,
        **columns: Any,
    ) -> AppendReport:
        """Append rows whose primaries are their addresses, and dead letters beside them."""
        return self.stream.append_batch(
            batch_of(addresses, **columns),
            shard=shard,
            addresses=list(addresses),
            dead_letters=dead,
            source=source,
        )

    def addresses(self, shard: int, start: int = 0, end: int | None = None) -> list[int]:
        return column_of(self.stream.tail(shard, start, end), "address")

    def start_at(self, shard: int, address: int) -> None:
        """Let a shard's log begin at a block, as expiry will; the shard must be closed."""
        batch = Batch()
        batch.put(KEY_START, encode_int(address))
        with closing(open_store(self.database(shard), "strict")) as store:
            store.write(batch)

    def keeps_birth(self, shard: int, start: int) -> bool:
        """Tell whether a shard's store says that it was born at, and begins with, an address."""
        with closing(open_store(self.database(shard), "strict")) as store:
            return store.get_many([KEY_BORN, KEY_START]) == [encode_int(start)] * 2

    def database(self, shard: int) -> Path:
        return self.directory / f"shard-{shard:04d}" / "db"

    def read_beside(self) -> StreamReader:
        """Return a reader as another process has it."""
        return StreamReader.open(self.root, NAME)

    def strays(self, shard: int) -> int:
        """Return how many rows a shard counts that do not route to it."""
        return self.stream._shards[shard].tail.counters.strays

    def release(self) -> None:
        """Free locks and files without a commit, as the end of the process would."""
        for shard in self.stream._shards.values():
            shard.abandon()

    @property
    def directory(self) -> Path:
        return self.root / NAME

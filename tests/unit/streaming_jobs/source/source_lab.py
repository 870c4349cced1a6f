"""Streams for tests of the source without Spark: its readers are called as Spark calls them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from storage_core import Stream, StreamOptions, StreamOrigin
from storage_core.engine.key_value import Batch
from storage_core.engine.rocksdb import open_store
from storage_core.format.shard_state import KEY_START, encode_int, encode_range_end, lost_key
from streaming_jobs.source.driver.tail import TailReader
from streaming_jobs.source.options import parse_source_options

NAME = "events"
FIRST_MS = 1_700_000_000_000
_CHOICES = {"subscribe", "subscribepattern", "assign"}


class SourceLab:
    """One stream, its writer, and readers of the source over it."""

    # Returns the servers over a root by which all labs read; None by path.
    reached_by: Callable[[Path], str] | None = None

    def __init__(self, root: Path, name: str = NAME) -> None:
        self.root = root
        # Addresses of servers, which are named in the path's place.
        self.servers: str | None = None
        self.name = name
        self._writer: Stream | None = None

    @property
    def writer(self) -> Stream:
        assert self._writer is not None, "the stream is open for writing"
        return self._writer

    def create(self, shards=2, **options) -> None:
        self._writer = Stream.create(self.root, self.name, StreamOptions(shards=shards, **options))

    def create_topic(
        self, starts=None, key_mode="integer", primary="timestamp", secondary="key", **options
    ) -> None:
        of_avro: Any = {} if secondary == "key" else {"value_format": "avro"}
        origin = StreamOrigin(
            "kafka", "orders", "id", key_mode, primary, secondary=secondary, **of_avro
        )
        of_stream: Any = {"unit": "ms" if primary == "timestamp" else "sequence", **options}
        settings = StreamOptions(**of_stream)
        Stream.create(self.root, self.name, settings, origin=origin).close()
        self.add_shards(starts or {0: 0})

    def add_shards(self, starts) -> None:
        self.close()
        Stream.add_shards(self.root, self.name, starts)
        self.open()

    def put(self, shard, offsets, **columns) -> None:
        """Commit rows of a topic's partition."""
        count = len(offsets)
        chosen = {
            "primary": pa.array([FIRST_MS + at for at in offsets]),
            "secondary": pa.array([7] * count, pa.int32()),
            "payload": pa.array([b"v%d" % at for at in offsets], pa.binary()),
            "key": pa.array([b"\x00\x00\x00\x07"] * count, pa.binary()),
            "timestamp": pa.array([FIRST_MS + at for at in offsets]),
            "timestamp_type": pa.array([0] * count, pa.int8()),
            **columns,
        }
        batch = pa.RecordBatch.from_pydict(chosen)
        self.writer.append_batch(batch, shard=shard, addresses=np.array(offsets, dtype=np.int64))
        self.writer.commit()

    def append(self, count, first=0, *, commit=True) -> None:
        """Append rows whose primaries and payloads tell their number."""
        for number in range(first, first + count):
            self.writer.append(FIRST_MS + number, number, b"%d" % number)
        if commit:
            self.writer.commit()

    def open(self) -> None:
        self._writer = Stream.open(self.root, self.name)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def reopen(self) -> None:
        """Open the stream for writing and close it, so that readers look again."""
        Stream.open(self.root, self.name).close()

    def lose(self, shard, start, end) -> None:
        """Write down that a range is lost; nobody has the stream open for writing."""
        self._alter(shard, lost_key(start), encode_range_end(end, "gone"))

    def cut(self, shard, start) -> None:
        """Let the log start at a block; nobody has the stream open for writing."""
        self._alter(shard, KEY_START, encode_int(start))

    def _alter(self, shard, key, value) -> None:
        store = open_store(self.root / self.name / f"shard-{shard:04d}" / "db", "strict")
        batch = Batch()
        batch.put(key, value)
        store.write(batch)
        store.sync()
        store.close()

    def tail(self, **options) -> TailReader:
        return TailReader(parse_source_options(self.options(**options), "stream"))

    def options(self, **options) -> dict[str, str]:
        values = {name.lower(): _text(value) for name, value in options.items()}
        servers = self.servers
        if servers is None and self.reached_by is not None:
            servers = self.reached_by(self.root)
        return {
            **({"path": str(self.root)} if servers is None else {"server": servers}),
            **({} if _CHOICES & set(values) else {"stream": self.name}),
            **values,
        }


def rows_of(reader, partitions) -> list[dict]:
    """Return the rows that tasks read, as plain values."""
    batches = [batch for one in partitions for batch in reader.read(one)]
    return [row for batch in batches for row in batch.to_pylist()]


def numbers_of(reader, partitions) -> list[int]:
    """Return the numbers that payloads tell, sorted."""
    return sorted(int(row["value"]) for row in rows_of(reader, partitions))


def _text(value) -> str:
    return value if isinstance(value, str) else json.dumps(value)

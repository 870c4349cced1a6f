"""What the log is measured against: plain RocksDB, and a raw file with syncs.

The plain store is a shard's own, opened by rocksdict with the options that RocksDB wrote down
there: it differs in nothing but in who uses it. Both peers can do the second sync of a commit, that
of the marker, by writing 88 bytes in turn into two places of a small file.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from rocksdict import (  # noqa: TID251 - the peer is rocksdict itself
    AccessType,
    BlockBasedOptions,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
)

from storage_core import Stream, StreamOptions
from storage_core.engine import rocksdb
from storage_core.engine.environment import Environment

Blocks = Sequence[tuple[bytes, bytes]]
ONE_SHARD: Final = StreamOptions(shards=1)
# The peers take the blocks themselves; of those in segments RocksDB has references alone.
_NO_SEGMENTS: Final = replace(
    Environment(), open_store=partial(rocksdb.open_store, apart_bytes_min=2**62)
)
_SIDE_BYTES: Final = 88
_SIDE_STRIDE: Final = 4096


class SideFile:
    """A small file with two places, written in turn and synced, as the marker is."""

    def __init__(self, path: Path) -> None:
        """Make the file with both places there."""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        os.pwrite(self._file, bytes(2 * _SIDE_STRIDE), 0)
        os.fsync(self._file)
        self._turn = 0

    def sync(self) -> None:
        """Write the other place, durably."""
        self._turn ^= 1
        os.pwrite(self._file, bytes(_SIDE_BYTES), self._turn * _SIDE_STRIDE)
        os.fdatasync(self._file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class SegmentFile:
    """A file that grows by what is appended, each append durable."""

    def __init__(self, path: Path) -> None:
        """Make an empty file."""
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def append(self, pieces: Sequence[bytes]) -> None:
        """Add the pieces and sync them."""
        written = os.writev(self._file, pieces)
        assert written == sum(map(len, pieces))
        os.fdatasync(self._file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class PlainStore:
    """A RocksDB with a shard's options and nothing of the log: its family of blocks."""

    def __init__(self, path: Path) -> None:
        """Open a shard's store."""
        options, families = Options.load_latest(str(path))
        (blocks,) = families.keys() - {"default"}
        # NOTE: rocksdict 0.3.29 gives what it loads a block cache, where the file says none.
        table = BlockBasedOptions()
        table.disable_cache()
        families[blocks].set_block_based_table_factory(table)
        self._database: Any = Rdict(str(path), options, families, AccessType.read_write())
        self._log: Any = self._database.get_column_family(blocks)
        self._handle: Any = self._database.get_column_family_handle(blocks)

    def put_durably(self, items: Blocks) -> None:
        """Write items as one batch and sync the WAL."""
        batch = WriteBatch(raw_mode=True)
        for key, value in items:
            batch.put(key, value, self._handle)
        self._database.write(batch)
        self._database.flush_wal(True)  # noqa: FBT003 - rocksdict takes a bare truth

    def items(self) -> list[tuple[bytes, bytes]]:
        """Return all keys and values in order."""
        return list(self._log.items())

    def value_sizes(self) -> Iterator[int]:
        """Yield the size of every value in order of keys, each read whole."""
        options = ReadOptions()
        options.set_verify_checksums(False)
        iterator = self._log.iter(options)
        iterator.seek_to_first()
        while iterator.valid():
            yield len(iterator.value())
            iterator.next()
        iterator.status()

    def close(self) -> None:
        """Close the store."""
        self._log = self._handle = None
        self._database.close()


@contextmanager
def new_stream(root: Path) -> Iterator[Stream]:
    """Make the stream "bench" of one shard, open for a block's length."""
    with Stream.create(root, "bench", ONE_SHARD) as stream:
        yield stream


@contextmanager
def plain_store(root: Path, batches: Iterable[pa.RecordBatch] = ()) -> Iterator[PlainStore]:
    """Open the store of a shard that holds these batches, each committed, without the log."""
    with Stream.create(root, "plain", ONE_SHARD, environment=_NO_SEGMENTS) as stream:
        for batch in batches:
            stream.append_batch(batch)
            stream.commit()
    store = PlainStore(root / "plain" / "shard-0000" / "db")
    try:
        yield store
    finally:
        store.close()

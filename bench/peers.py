"""What the log is measured against: plain RocksDB, and a raw file with syncs.

The plain store writes blocks that were made before the clock starts, with the options of a
shard's own store: `differing_options` compares the two as RocksDB wrote them down. Both peers
can do the second sync of a commit, that of the marker, by writing 88 bytes in turn into two
places of a small file.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from rocksdict import (  # noqa: TID251 - the peer is rocksdict itself
    AccessType,
    BlockBasedOptions,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteBufferManager,
)

from storage_core.catalog.options import StreamOptions
from storage_core.format.block import BlockPlace, encode_block
from storage_core.format.keys import FAMILY_LOG, log_key
from storage_core.format.record import rows_from_arrow
from storage_core.store import rocks
from storage_core.store.open_files import open_files
from storage_core.write.cutting import cut_points

SIDE_BYTES: Final = 88
_SIDE_STRIDE: Final = 4096
_ROW_BYTES_MAX: Final = 2**24
_SECTION: Final = re.compile(r"^\[(.+)\]$")


def encoded_blocks(
    batches: Sequence[pa.RecordBatch], options: StreamOptions
) -> list[list[tuple[bytes, bytes]]]:
    """Return for each batch the keys and blocks that a shard would write."""
    place = BlockPlace(bytes(16), 0)
    encoded, at = [], 0
    for batch in batches:
        rows = rows_from_arrow(batch, _ROW_BYTES_MAX)
        cuts = cut_points(rows.sizes(), options.block_records, options.block_bytes)
        blocks = []
        for first, last in pairwise(cuts):
            states = np.zeros(last - first, dtype=np.uint8)
            addresses = np.arange(at + first, at + last)
            data = encode_block(rows.slice(first, last), states, addresses, place, 0, options.codec)
            blocks.append((log_key(at + first), data))
        encoded.append(blocks)
        at += len(rows)
    return encoded


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
        os.pwrite(self._file, bytes(SIDE_BYTES), self._turn * _SIDE_STRIDE)
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
    """A RocksDB with a shard's options and nothing of the log: puts into one family."""

    def __init__(self, path: Path) -> None:
        """Open or make the store."""
        families = {name: _plain_options(name) for name in ("default", FAMILY_LOG)}
        self._database: Any = Rdict(
            str(path), _plain_options("default"), families, AccessType.read_write()
        )
        self._log: Any = self._database.get_column_family(FAMILY_LOG)
        self._handle: Any = self._database.get_column_family_handle(FAMILY_LOG)

    def put_durably(self, items: Sequence[tuple[bytes, bytes]]) -> None:
        """Write items as one batch and sync the WAL."""
        batch = WriteBatch(raw_mode=True)
        for key, value in items:
            batch.put(key, value, self._handle)
        self._database.write(batch)
        self._database.flush_wal(True)  # noqa: FBT003 - rocksdict takes a bare truth

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
def plain_store(path: Path) -> Iterator[PlainStore]:
    """Open a plain store for the length of a block."""
    store = PlainStore(path)
    try:
        yield store
    finally:
        store.close()


def differing_options(ours: Path, plain: Path) -> list[str]:
    """Return the options in which two stores' own option files differ."""
    left, right = _written_options(ours), _written_options(plain)
    return sorted(
        f"{name}: {left.get(name)} in ours, {right.get(name)} in the plain store"
        for name in left.keys() | right.keys()
        if left.get(name) != right.get(name)
    )


def _plain_options(family: str) -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)  # noqa: FBT003 - rocksdict's setters take a bare truth
    options.create_missing_column_families(True)  # noqa: FBT003 - as above
    options.set_atomic_flush(True)
    options.set_paranoid_checks(True)
    options.set_max_total_wal_size(rocks.WAL_BYTES_MAX)
    options.set_write_buffer_size(rocks.WRITE_BUFFER_BYTES)
    options.set_write_buffer_manager(WriteBufferManager(rocks.WRITE_BUFFERS_BYTES, False))  # noqa: FBT003 - as above
    options.set_arena_block_size(rocks.ARENA_BYTES)
    tables = open_files().tables_for_one_more()
    options.set_max_open_files(tables + rocks.FILES_BESIDE_TABLES)
    options.set_table_cache_num_shard_bits(0)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(2**20)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    options.set_wal_recovery_mode(DBRecoveryMode.absolute_consistency())
    table = BlockBasedOptions()
    if family == FAMILY_LOG:
        options.set_compression_type(DBCompressionType.none())
        options.set_target_file_size_base(rocks.LOG_SST_BYTES_TARGET)
        table.disable_cache()
    else:
        options.set_compression_type(DBCompressionType.lz4())
        options.set_target_file_size_base(rocks.SST_BYTES_TARGET)
        table.set_bloom_filter(10, False)  # noqa: FBT003 - as above
    options.set_block_based_table_factory(table)
    return options


def _written_options(store: Path) -> dict[str, str]:
    newest = max(store.glob("OPTIONS-*"), key=lambda path: int(path.name.split("-")[1]))
    options, section = {}, ""
    for line in newest.read_text().splitlines():
        if header := _SECTION.match(line.strip()):
            section = header[1]
        elif "=" in line and section != "Version":
            name, _, value = line.strip().partition("=")
            options[f"[{section}] {name}"] = value
    return options

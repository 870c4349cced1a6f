"""What a reader holds, and what befalls it: words of the scenarios that no public call says.

store_behind(reader)              the store through which it sees shard 0
look_through(reader, disk)        it sees shard 0 through a hooked store from now on
private_folder(reader)            where that store keeps what is its own
known_files(reader)               what it knows of the stream's files, until it reads them again
close_during_next_read(reader)    the next read has its shards when a close overtakes it
scan_one(reads, request)          one shard asked alone, through a reader or a writer
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from storage_core import ReadRequest, Stream, StreamReader
from storage_core.read.shard_reader import FollowedShard
from tests.log.hooked_disk import HookedDisk


def _follower(reader: StreamReader) -> Any:
    """Return what follows shard 0 by its files."""
    return reader._open.by_number[0]


def store_behind(reader: StreamReader) -> object:
    """Return the store through which a reader sees shard 0."""
    return _follower(reader)._store


def look_through(reader: StreamReader, disk: HookedDisk) -> None:
    """Let a hooked disk stand before the store through which a reader sees shard 0."""
    _follower(reader)._store = disk.before(store_behind(reader))


def private_folder(reader: StreamReader) -> Path:
    """Return the folder that a reader has for itself, for shard 0."""
    path: Path = _follower(reader)._private.path
    return path


def known_files(reader: StreamReader) -> object:
    """Return what a reader knows of its stream's files: the same until it reads them again."""
    return reader._open.files


def close_during_next_read(reader: StreamReader) -> None:
    """Let the reader be closed by another at the moment when a read has its shards in hand."""

    def overtaken() -> Mapping[int, FollowedShard]:
        followers = dict(reader._open.by_number)
        reader.close()
        return followers

    reader._open.opened = overtaken  # type: ignore[method-assign]


def scan_one(reads: Stream | StreamReader, request: ReadRequest) -> Iterator[pa.RecordBatch]:
    """Yield what one shard answers to a request."""
    return reads._open.opened()[request.shard].scan(request)

"""What a server gives to SQL at a client: a snapshot of a stream's parts, and bytes of its parts.

DuckDB runs at the client, so a query costs the server what it reads: the column chunks of the row
groups that the query cannot skip, as they lie in the files. The client has the digests of all of
them and compares; here they are only read.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from storage_core.format.part_entry import part_file_name
from storage_core.parts.footer import read_error
from storage_core.parts.part_bytes import PartBytes, open_file
from storage_core.parts.part_home import has_part, open_part
from storage_core.parts.snapshot import listed_part, listed_parts, parts_directory
from storage_core.protocol.snapshots import ServedGroup, ServedSnapshot
from storage_core.reader import StreamReader
from storage_core.sql.part_groups import (
    PART_GONE,
    SNAPSHOT_TRIES_MAX,
    PartGoneError,
    PartGroup,
    damaged_part,
    part_groups,
)
from storage_core.sql.whole_transactions import snapshot_of_shards

# What is said of a part whose file is not there.
GONE: Final = "gone"
BYTES_SCHEMA: Final = pa.schema({"bytes": pa.binary()})
_BYTES_AT_ONCE: Final = 2**20


def served_snapshot(reader: StreamReader) -> ServedSnapshot:
    """Return a snapshot of the parts of a stream that is read by its files.

    Raises:
        UnavailableError: Parts go on being deleted before their footers are read.
        CorruptionError: A part cannot be read, or is missing.
    """
    reader.refresh()
    files = reader.rows.shards.files
    for _ in range(SNAPSHOT_TRIES_MAX):
        shards = snapshot_of_shards(reader, files)
        parts = [
            part
            for n, snapshot in shards.items()
            for part in listed_parts(n, files.shard_directory(n), snapshot.parts.entries)
        ]
        try:
            groups = part_groups((n, files.shard_directory(n), shards[n].parts) for n in shards)
        except FileNotFoundError:
            continue
        return ServedSnapshot(
            {n: snapshot.end for n, snapshot in shards.items()},
            {n: snapshot.parts for n, snapshot in shards.items()},
            parts,
            _served(groups),
        )
    for part in reader.parts():
        if not has_part(part):
            raise damaged_part(reader.rows.shards.meta.name, part, "a part is missing")
    raise PartGoneError(PART_GONE)


def _served(groups: list[PartGroup]) -> list[ServedGroup]:
    return [
        ServedGroup(
            group.schema,
            group.has_hidden,
            [(part.shard, part.entry.number) for part in group.parts],
        )
        for group in groups
    ]


def part_bytes(
    reader: StreamReader, shard: int, number: int, start: int, end: int
) -> Iterator[pa.RecordBatch] | None:
    """Return bytes of the file of a part, some at a time; None if there is no such file.

    Raises:
        ShardlogError: The file cannot be read; also while its bytes are yielded.
    """
    entries = reader.rows.shards.shard(shard).parts
    directory = parts_directory(reader.rows.shards.files.shard_directory(shard))
    path = directory / part_file_name(number)
    try:
        # One of an older part list may have its file still.
        file = open_file(path)
    except FileNotFoundError:
        entry = next((entry for entry in entries().entries if entry.number == number), None)
        if entry is None:
            return None
        try:
            file = open_part(listed_part(shard, directory, entry))
        except FileNotFoundError:
            return None
    except OSError as error:
        raise read_error(path, error) from error
    return _pieces(file, path, start, end)


def _pieces(file: PartBytes, path: Path, start: int, end: int) -> Iterator[pa.RecordBatch]:
    try:
        for begin in range(start, end, _BYTES_AT_ONCE):
            size = min(end - begin, _BYTES_AT_ONCE)
            try:
                data = file.read(begin, size)
            except (OSError, MemoryError) as error:
                raise read_error(path, error) from error
            yield pa.RecordBatch.from_arrays([pa.array([data], pa.binary())], schema=BYTES_SCHEMA)
    finally:
        file.close()

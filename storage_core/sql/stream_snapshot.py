"""A snapshot of a stream as columns: its parts, and the hot rows that no part has yet.

Each transaction is in all of its shards or in none (whole_transactions.py). SQL and Spark begin
here.

Parts are grouped by schema, so that an engine reads one file of a group to know its columns, and
by whether rows can be hidden, since it need not read a column to filter the others. A file may be
deleted after the snapshot, as its rows expired or it was superseded: take a new snapshot then.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Final

import pyarrow as pa

from storage_core.avro import AvroSchema
from storage_core.catalog.stream_file import StreamFiles, read_stream
from storage_core.errors import CorruptionError, UnavailableError
from storage_core.format.part_entry import ShardParts
from storage_core.format.schema_order import in_order_of_all
from storage_core.format.window import Unit
from storage_core.parts.footer import footer_summary
from storage_core.parts.part_rows import numbered, numbers_of, part_rows, stored_columns
from storage_core.parts.snapshot import part_path, parts_directory
from storage_core.parts.typed_columns import Writer
from storage_core.parts.visible_rows import may_hide_rows
from storage_core.reader import StreamReader
from storage_core.sql.field_columns import field_columns
from storage_core.sql.stream_columns import StreamColumns, row_columns
from storage_core.sql.type_unification import OutputColumn
from storage_core.sql.whole_transactions import SnapshotShard, snapshot_of_shards

# How often a new snapshot is taken because a part was deleted.
SNAPSHOT_TRIES_MAX: Final = 5
PART_GONE: Final = "a part was deleted since the snapshot was taken; take a new one"


class PartGoneError(UnavailableError):
    """A part was deleted before it was opened; take a new snapshot."""


@dataclass(frozen=True, slots=True)
class PartGroup:
    """Part files with one schema.

    Attributes:
        schema: Their columns.
        has_hidden: Whether some of their rows may be hidden.
        paths: The files.
    """

    schema: pa.Schema
    has_hidden: bool
    paths: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StreamSnapshot:
    """A stream at one moment.

    Attributes:
        parts: The groups of its parts, each with the stream's columns in them.
        hot: The rows that no part has, with the stream's columns in them. Without parts and rows
            an empty table.
        shards: The parts of each shard, with what hides rows.
        unit: The unit of its primaries.
    """

    parts: list[tuple[tuple[OutputColumn, ...], PartGroup]]
    hot: list[tuple[tuple[OutputColumn, ...], pa.Table]]
    shards: Mapping[int, ShardParts]
    unit: Unit


def take_snapshot(root: str | PathLike[str], name: str) -> StreamSnapshot:
    """Return a snapshot of a stream.

    Raises:
        InvalidRequestError: There is no such stream.
        PartGoneError: A part was deleted meanwhile.
        CorruptionError: A part cannot be read.
    """
    # IMPORTANT: files are opened later, whatever the working directory is by then.
    absolute = Path(root).absolute()
    with StreamReader.open(root, name) as reader:
        return snapshot_of(reader, read_stream(absolute, name))


def snapshot_of(reader: StreamReader, stream_files: StreamFiles) -> StreamSnapshot:
    """Return a snapshot of the stream of a reader.

    Raises:
        PartGoneError: A part was deleted meanwhile.
        CorruptionError: A part cannot be read.
    """
    has_keys, unit = reader.options.key_mode == "dictionary", reader.options.unit
    batches: list[pa.RecordBatch] = []
    shards: dict[int, ShardParts] = {}
    for shard, snapshot in snapshot_of_shards(reader, stream_files).items():
        shards[shard] = snapshot.parts
        batches += _hot_rows(reader, shard, snapshot, has_keys=has_keys)
    # IMPORTANT: after the rows are read, so that the schema of each is among them.
    orders = [reader.shard(shard).schemas() for shard in shards]
    entries = in_order_of_all(orders)
    numbers = numbers_of(entries)
    writers = [Writer(AvroSchema.stored(entry.text), entry.registry_id) for entry in entries]
    own = row_columns(has_keys=has_keys)
    columns = StreamColumns(own, field_columns(writer.schema for writer in writers), unit)
    try:
        directories = {shard: stream_files.shard_directory(shard) for shard in shards}
        parts = part_groups((directories[shard], shards[shard]) for shard in shards)
    except FileNotFoundError as error:
        raise PartGoneError(PART_GONE) from error
    hot = [numbered(batch, numbers) for batch in batches]
    rows = part_rows(hot, has_keys=has_keys, writers=writers) if hot else []
    tables = [group.rows for group in rows]
    if not parts and not tables:
        tables = [own.empty_table()]
    return StreamSnapshot(
        [(columns.in_table(group.schema), group) for group in parts],
        [(columns.in_table(table.schema), table) for table in tables],
        shards,
        unit,
    )


def part_groups(shards: Iterable[tuple[Path, ShardParts]]) -> list[PartGroup]:
    """Return part files grouped by schema and by whether rows may be hidden.

    Args:
        shards: The directory and the parts of each shard.

    Raises:
        FileNotFoundError: A file was deleted.
        CorruptionError: A file is damaged.
        InvalidRequestError: This process may not read a file.
        UnavailableError: The system cannot read a file now.
    """
    groups: dict[object, PartGroup] = {}
    for directory, parts in shards:
        for entry in parts.entries:
            path = part_path(parts_directory(directory), entry)
            try:
                schema = footer_summary(path, entry.proof).schema
            except CorruptionError as error:
                first, end = entry.first, entry.last + 1
                raise CorruptionError(error.message, path=path, start=first, end=end) from error
            hides = may_hide_rows(entry, parts)
            groups.setdefault((schema, hides), PartGroup(schema, hides)).paths.append(str(path))
    return list(groups.values())


def _hot_rows(
    reader: StreamReader, shard: int, snapshot: SnapshotShard, *, has_keys: bool
) -> Iterator[pa.RecordBatch]:
    columns = stored_columns(has_keys=has_keys)
    start = min(max(snapshot.parts.sealed, reader.start(shard)), snapshot.end)
    for batch in reader.tail(shard, start, snapshot.end, columns=columns):
        if batch.num_rows:
            yield batch

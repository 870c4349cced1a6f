"""A snapshot of a stream as columns: its parts, and the hot rows that no part has yet.

Each transaction is in all of its shards or in none (whole_transactions.py). Of rows that expire
while it is taken the oldest alone are missing: hot rows are read without those that have expired by
then, so what hides rows of parts is asked behind that. SQL and Spark begin here.

A file may be deleted after the snapshot, as its rows expired or it was superseded: take a new
snapshot then.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike

import pyarrow as pa

from storage_core.avro import AvroSchema
from storage_core.catalog.options import StreamOptions
from storage_core.format.part_entry import ShardParts
from storage_core.format.schema_entry import SchemaEntry
from storage_core.format.window import Unit
from storage_core.parts.part_rows import numbered, numbers_of, part_rows, stored_columns
from storage_core.parts.typed_columns import Writer
from storage_core.read.shard_reader import FollowedShard
from storage_core.reader import StreamReader
from storage_core.sql.field_columns import field_columns
from storage_core.sql.part_groups import PART_GONE, PartGoneError, PartGroup, part_groups
from storage_core.sql.stream_columns import StreamColumns, row_columns
from storage_core.sql.type_unification import OutputColumn
from storage_core.sql.whole_transactions import snapshot_of_shards


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
    with StreamReader.open(root, name) as reader:
        return snapshot_of(reader)


def snapshot_of(reader: StreamReader) -> StreamSnapshot:
    """Return a snapshot of the stream of a reader by path.

    Raises:
        PartGoneError: A part was deleted meanwhile.
        CorruptionError: A part cannot be read.
    """
    # Its paths are absolute: files are opened later, whatever the working directory is by then.
    files = reader.rows.shards.files
    shards = snapshot_of_shards(reader, files)

    def groups(bounded: Mapping[int, ShardParts]) -> list[PartGroup]:
        try:
            return part_groups((n, files.shard_directory(n), bounded[n]) for n in shards)
        except FileNotFoundError as error:
            raise PartGoneError(PART_GONE) from error

    def hot_rows(shard: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        # From where parts end, though the log may begin above it: rows ahead of the clock outlive
        # their blocks.
        begin, end = shards[shard].parts.sealed, shards[shard].end
        return reader.rows.stored(shard, min(begin, end), end, columns=columns)

    def bounded(shard: int) -> ShardParts:
        return bounded_now(shards[shard].parts, shards[shard].end, reader.shard(shard))

    reads = SnapshotReads(hot_rows, bounded, reader.schemas, groups)
    return united_snapshot(reader.options, [*shards], reads)


def bounded_now(parts: ShardParts, end: int, shard: FollowedShard) -> ShardParts:
    """Return the parts of a shard with what hides rows by now, hot ones that were read included.

    Args:
        parts: The parts.
        end: The exclusive end of the hot rows.
        shard: What tells the shard's floor and its cut.
    """
    if end <= parts.sealed:
        # Nothing was read beside them.
        return parts
    facts = shard.state()
    return parts.hiding_below(facts.floor, facts.cut)


@dataclass(frozen=True, slots=True)
class SnapshotReads:
    """What a snapshot is made of beside its parts, wherever it is read.

    Attributes:
        hot_rows: Yields the rows of a shard that no part has, with some columns.
        bounded: Returns the parts of a shard, with what hides rows behind the read of hot ones.
        schemas: Returns the schemas of all shards, in one order.
        groups: Returns the parts of all shards in groups.
    """

    hot_rows: Callable[[int, Sequence[str]], Iterator[pa.RecordBatch]]
    bounded: Callable[[int], ShardParts]
    schemas: Callable[[], Sequence[SchemaEntry]]
    groups: Callable[[Mapping[int, ShardParts]], list[PartGroup]]


def united_snapshot(
    options: StreamOptions, shards: Sequence[int], reads: SnapshotReads
) -> StreamSnapshot:
    """Return a snapshot, with the stream's columns in each of its tables.

    Args:
        options: The stream's.
        shards: The numbers of its shards.
        reads: What reads it.
    """
    has_keys, unit = options.key_mode == "dictionary", options.unit
    stored = stored_columns(has_keys=has_keys)
    batches = [
        batch for shard in shards for batch in reads.hot_rows(shard, stored) if batch.num_rows
    ]
    # IMPORTANT: after the rows are read, so that the schema of each is among them, and no row of a
    # part outlasts a younger one that has expired by then.
    bounded = {shard: reads.bounded(shard) for shard in shards}
    entries = reads.schemas()
    numbers = numbers_of(entries)
    writers = [Writer(AvroSchema.stored(entry.text), entry.registry_id) for entry in entries]
    own = row_columns(has_keys=has_keys)
    columns = StreamColumns(own, field_columns(writer.schema for writer in writers), unit)
    parts = reads.groups(bounded)
    hot = [numbered(batch, numbers) for batch in batches]
    rows = part_rows(hot, has_keys=has_keys, writers=writers) if hot else []
    tables = [group.rows for group in rows]
    if not parts and not tables:
        tables = [own.empty_table()]
    return StreamSnapshot(
        [(columns.in_table(group.schema), group) for group in parts],
        [(columns.in_table(table.schema), table) for table in tables],
        bounded,
        unit,
    )

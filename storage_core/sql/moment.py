"""A stream at one moment as columns: its parts, and the rows behind them that are not sealed yet.

Each transaction is in all of its shards or in none (whole_transactions.py).

Those who ask over parts with an engine of their own (SQL, Spark) begin here. A file may go after
the look, as one that has expired, or some time after it was joined with others: whoever then finds
it gone looks anew.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Final

import pyarrow as pa

from storage_core.avro import AvroSchema
from storage_core.catalog.stream_file import StreamFiles, read_stream
from storage_core.errors import UnavailableError
from storage_core.format.part_entry import ShardParts
from storage_core.format.schema_order import in_order_of_all
from storage_core.format.window import Unit
from storage_core.parts.part_rows import numbered, numbers_of, part_rows, stored_columns
from storage_core.parts.typed_columns import Writer
from storage_core.reader import StreamReader
from storage_core.sql.alike import FilesAlike, files_alike
from storage_core.sql.field_columns import field_columns
from storage_core.sql.stream_columns import StreamColumns, row_columns
from storage_core.sql.united import Shown
from storage_core.sql.whole_transactions import ShardSnapshot, snapshot_of_shards

# How often is looked anew for parts that have gone.
TRIES_MAX: Final = 5
A_PART_HAS_GONE: Final = "a part has gone since the streams were looked at; look anew"


class PartGoneError(UnavailableError):
    """A part went, as one that has expired, before it was opened; all is to be looked at anew."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A stream at one moment.

    Attributes:
        files: Those of the parts, by their columns, with what the stream's columns are in them.
        hot: The rows behind them; where there are neither, a table without rows.
        looks: What of both is not shown, by shard.
        unit: What its primaries count.
    """

    files: list[tuple[tuple[Shown, ...], FilesAlike]]
    hot: list[tuple[tuple[Shown, ...], pa.Table]]
    looks: Mapping[int, ShardParts]
    unit: Unit


def look(root: str | PathLike[str], name: str) -> Moment:
    """Look at a stream as it is at this moment.

    Raises:
        InvalidRequestError: There is no such stream.
        PartGoneError: A part went while it was looked at.
        CorruptionError: A part cannot be read.
    """
    # IMPORTANT: files are opened later, whatever the working directory is by then.
    place = Path(root).absolute()
    with StreamReader.open(root, name) as reader:
        return moment_of(reader, read_stream(place, name))


def moment_of(reader: StreamReader, whole: StreamFiles) -> Moment:
    """Return what a reader of a stream shows at this moment.

    Raises:
        PartGoneError: A part went while it was looked at.
        CorruptionError: A part cannot be read.
    """
    has_keys, unit = reader.options.key_mode == "dictionary", reader.options.unit
    stored: list[pa.RecordBatch] = []
    looks: dict[int, ShardParts] = {}
    for shard, one in snapshot_of_shards(reader, whole).items():
        looks[shard] = one.parts
        stored += _hot_rows(reader, shard, one, has_keys=has_keys)
    # IMPORTANT: behind the looks at the rows, so that each has its schema here.
    orders = {shard: reader.shard(shard).schemas() for shard in looks}
    entries = in_order_of_all(orders.values())
    known = numbers_of(entries)
    hot = [numbered(batch, known) for batch in stored]
    writers = [Writer(AvroSchema.stored(one.text), one.registry_id) for one in entries]
    tables = [one.rows for one in part_rows(hot, has_keys=has_keys, writers=writers)] if hot else []
    own = row_columns(has_keys=has_keys)
    files = _alike((whole.shard_directory(shard), parts) for shard, parts in looks.items())
    if not files and not tables:
        tables = [own.empty_table()]
    columns = StreamColumns(own, field_columns(one.schema for one in writers), unit)
    return Moment(
        [(columns.in_table(one.schema), one) for one in files],
        [(columns.in_table(rows.schema), rows) for rows in tables],
        looks,
        unit,
    )


def _alike(shards: Iterable[tuple[Path, ShardParts]]) -> list[FilesAlike]:
    """Return files by their columns; one that has gone is told."""
    try:
        return files_alike(shards)
    except FileNotFoundError as error:
        raise PartGoneError(A_PART_HAS_GONE) from error


def _hot_rows(
    reader: StreamReader, shard: int, one: ShardSnapshot, *, has_keys: bool
) -> Iterator[pa.RecordBatch]:
    columns = stored_columns(has_keys=has_keys)
    start = max(one.parts.sealed, reader.start(shard))
    for batch in reader.tail(shard, min(start, one.end), one.end, columns=columns):
        if batch.num_rows:
            yield batch

"""What a reader of a stream answers to each call of the protocol (protocol/calls.py).

The one way from a call's name and values to what is sent back; a server adds bytes and bounds. A
reader's public methods do the work, so an answer is what they return.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final

import pyarrow as pa

from storage_core.catalog.owners import shard_owners
from storage_core.engine.open_files import OpenFilesError as OpenFilesError  # noqa: PLC0414 - for servers
from storage_core.format.record import Record
from storage_core.format.row_columns import READ_COLUMNS, schema_of
from storage_core.platform.disk_usage import disk_bytes
from storage_core.protocol.calls import Call
from storage_core.protocol.documents import ShardExtent, StreamFacts
from storage_core.read.request import Order, ReadRequest, own_columns, request_of
from storage_core.read.rows import ReadTooLargeError as ReadTooLargeError  # noqa: PLC0414 - for servers
from storage_core.reader import StreamReader
from storage_core.rows import StreamRows
from storage_core.sql.access.served_snapshot import BYTES_SCHEMA, GONE, part_bytes, served_snapshot

_Rows = StreamRows[Any]

# A batch of an answer is at most so many rows.
ROWS_AT_ONCE: Final = 65_536
_RECORDS_AT_ONCE: Final = 1024
_IDS_AT_ONCE: Final = 64
_DEAD_LETTERS_AT_ONCE: Final = 256
_DEAD_LETTER_TYPES: Final[dict[str, pa.DataType]] = {
    "address": pa.int64(),
    "dead_letter": pa.binary(),
}
_DEAD_LETTERS: Final = pa.schema(_DEAD_LETTER_TYPES)


@dataclass(frozen=True, slots=True)
class RowAnswer:
    """Rows, as they come.

    Attributes:
        schema: The schema of all batches.
        batches: The batches. It may be read once.
        result: What the call returns beside rows.
        bytes_held: What the rows take that are held in memory until all are sent.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    result: object = None
    bytes_held: int = 0


def rows_of(
    reader: StreamReader, call: Call, values: Mapping[str, Any], bytes_max: int | None = None
) -> RowAnswer:
    """Return what a call that answers in rows does, of a reader.

    Args:
        reader: The reader.
        call: The call.
        values: What it takes.
        bytes_max: The most bytes that may be gathered before the first row is sent, where the
            reader allows more.

    Raises:
        ReadTooLargeError: They would be more.
        ShardlogError: The reader's. Others may come out of the batches.
    """
    if (answer := _AT_ONCE.get(call.name)) is not None:
        rows = reader.rows if bytes_max is None else reader.rows.within(bytes_max)
        return answer(rows, dict(values))
    return _ROWS[call.name](reader, dict(values))


def result_of(reader: StreamReader, call: Call, values: Mapping[str, Any]) -> object:
    """Return what a call that answers in JSON does, of a reader.

    Raises:
        ShardlogError: The reader's.
    """
    return _RESULTS[call.name](reader, **values)


def facts_of(reader: StreamReader) -> StreamFacts:
    """Return what a stream is, with the shards and options that came since it was opened."""
    committed = reader.refresh()
    position = reader.position()
    return StreamFacts(
        reader.rows.shards.meta.name,
        position.incarnation,
        reader.options,
        reader.origin,
        lineages_of(reader),
        {shard: reader.born(shard) for shard in committed},
        committed,
        reader.archived_lineages(),
    )


def lineages_of(reader: StreamReader) -> dict[int, str]:
    """Return the lineage of each shard that a reader has open."""
    return {shard: reader.lineage(shard) for shard in reader.rows.shards.opened()}


# --- rows ----------------------------------------------------------------------------------


def _read(rows: _Rows, values: dict[str, Any]) -> RowAnswer:
    return _held(rows.read(**values))


def _available(rows: _Rows, values: dict[str, Any]) -> RowAnswer:
    last, table = rows.available(**values)
    return _held(table, last)


def _held(rows: pa.Table, result: object = None) -> RowAnswer:
    batches = iter(rows.to_batches(max_chunksize=ROWS_AT_ONCE))
    return RowAnswer(rows.schema, batches, result, rows.nbytes)


def _scan(reader: StreamReader, values: dict[str, Any]) -> RowAnswer:
    columns = values.get("columns")
    return _as_they_come(reader, "arrival", columns, reader.scan(**values))


def _tail(reader: StreamReader, values: dict[str, Any]) -> RowAnswer:
    columns = values.get("columns")
    return _as_they_come(reader, "replay", columns, reader.tail(**values))


def _scan_shard(reader: StreamReader, values: dict[str, Any]) -> RowAnswer:
    request = reader.rows.bounded(ReadRequest(**values))
    batches = reader.shard(request.shard).scan(request)
    return _as_they_come(reader, request.order, request.columns, batches)


def _as_they_come(
    reader: StreamReader,
    order: Order,
    columns: tuple[str, ...] | None,
    batches: Iterator[pa.RecordBatch],
) -> RowAnswer:
    # What is refused is, before anything is sent: the first batch is asked for.
    first = list(islice(batches, 1))
    if first:
        return RowAnswer(first[0].schema, chain(first, batches))
    request = request_of(order, None, None, None, 0, None, columns)
    return RowAnswer(schema_of(own_columns(reader.rows.shards.meta, request)), iter(()))


def _records(reader: StreamReader, values: dict[str, Any]) -> RowAnswer:
    schema = _record_schema(reader.rows)
    batches = chain.from_iterable(
        _records_of_some(reader, schema, some) for some in _some_at_a_time(values)
    )
    first = list(islice(batches, 1))
    return RowAnswer(schema, chain(first, batches))


def _records_of_some(
    reader: StreamReader, schema: pa.Schema, values: dict[str, Any]
) -> Iterator[pa.RecordBatch]:
    yield from _batched(reader.rows.records(**values), schema, _RECORDS_AT_ONCE, _values_of)
    # Without rows, too, whoever sends the answer gets to look at its bounds.
    yield pa.RecordBatch.from_pylist([], schema=schema)


def _some_at_a_time(values: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the values with some of the ids or keys at a time, in their order."""
    if values.get("ids"):
        name, wanted = "ids", sorted({*values["ids"]})
    elif values.get("keys"):
        # The key of rows without one comes first.
        name = "keys"
        wanted = sorted({*values["keys"]}, key=lambda key: (key is not None, key or b""))
    else:
        yield values
        return
    for start in range(0, len(wanted), _IDS_AT_ONCE):
        yield {**values, name: tuple(wanted[start : start + _IDS_AT_ONCE])}


def _latest(rows: _Rows, values: dict[str, Any]) -> RowAnswer:
    newest = rows.newest(**values)
    return _held(pa.Table.from_batches([newest]).select(_record_columns(rows)))


def _record_schema(rows: _Rows) -> pa.Schema:
    return schema_of(_record_columns(rows))


def _record_columns(rows: _Rows) -> tuple[str, ...]:
    return (*READ_COLUMNS, "key") if rows.shards.meta.has_keys else READ_COLUMNS


def _values_of(record: Record, name: str) -> object:
    return getattr(record, name)


def _dead_letters(reader: StreamReader, values: dict[str, Any]) -> RowAnswer:
    dead_letters = iter(reader.dead_letters(**values))
    first = list(islice(dead_letters, 1))
    positions = {name: index for index, name in enumerate(_DEAD_LETTERS.names)}
    rows = _batched(
        chain(first, dead_letters),
        _DEAD_LETTERS,
        _DEAD_LETTERS_AT_ONCE,
        lambda dead_letter, name: dead_letter[positions[name]],
    )
    return RowAnswer(_DEAD_LETTERS, rows)


def _part_bytes(reader: StreamReader, values: dict[str, Any]) -> RowAnswer:
    pieces = part_bytes(reader, **values)
    if pieces is None:
        return RowAnswer(BYTES_SCHEMA, iter(()), GONE)
    return RowAnswer(BYTES_SCHEMA, pieces)


def _batched(
    items: Iterable[Any], schema: pa.Schema, size: int, value_of: Callable[[Any, str], object]
) -> Iterator[pa.RecordBatch]:
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        columns = [
            pa.array([value_of(item, field.name) for item in batch], field.type) for field in schema
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


# --- JSON ----------------------------------------------------------------------------------


def _sizes(reader: StreamReader) -> dict[int, int]:
    files = reader.rows.shards.files
    return {n: disk_bytes(files.shard_directory(n)) for n in reader.rows.shards.opened()}


def _owners(reader: StreamReader) -> dict[int, ShardExtent]:
    files, shards = reader.rows.shards.files, reader.rows.shards.opened()
    # In this order: who has let go by now, has committed by then.
    holders = shard_owners(files.directory.parent, files.meta.name)
    extents = {}
    for number, shard in shards.items():
        holder, committed, facts = holders.get(number), shard.committed(), shard.state()
        # A command that has it for a moment writes nothing new.
        name = None if holder is None or holder.purpose else str(holder)
        born = reader.born(number)
        extents[number] = ShardExtent(born, max(facts.start, born), committed, facts.floor, name)
    return extents


def _shard_schemas(
    reader: StreamReader, shard: int, registry_id: int | None = None
) -> Iterable[object]:
    return reader.shard(shard).schemas(registry_id)


_AT_ONCE: Final[Mapping[str, Callable[[_Rows, dict[str, Any]], RowAnswer]]] = {
    "read": _read,
    "latest": _latest,
    "available": _available,
}
_ROWS: Final[Mapping[str, Callable[[StreamReader, dict[str, Any]], RowAnswer]]] = {
    "scan": _scan,
    "tail": _tail,
    "records": _records,
    "scan_shard": _scan_shard,
    "dead_letters": _dead_letters,
    "part_bytes": _part_bytes,
}
_RESULTS: Final[Mapping[str, Callable[..., object]]] = {
    "facts": facts_of,
    "refresh": facts_of,
    "committed": StreamReader.committed,
    "position": StreamReader.position,
    "wait": StreamReader.wait,
    "earliest": StreamReader.earliest,
    "lost_ranges": StreamReader.lost_ranges,
    "gaps": StreamReader.gaps,
    "unsealed": StreamReader.unsealed,
    "untrimmed": StreamReader.untrimmed,
    "parts": StreamReader.parts,
    "snapshot": served_snapshot,
    "stats": StreamReader.stats,
    "state": lambda reader, shard: reader.shard(shard).state(),
    "source": StreamReader.source,
    "schemas": StreamReader.schemas,
    "shard_schemas": _shard_schemas,
    "start": StreamReader.start,
    "horizon": StreamReader.horizon,
    "missing": StreamReader.missing,
    "owners": _owners,
    "sizes": _sizes,
}

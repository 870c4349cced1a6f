"""Staged files: written by whoever has rows, read by whoever finishes the transaction.

`StagedRows` is a byte range of a staged file: an Arrow IPC stream with rows of one shard, and its
checksum. Each time the rows in memory are enough, or have other columns, a file gets such a range
for each shard. Rows lie as they came, where that is an order, or by primary; merge_sorted.py merges
those.

Rows are checked when they are staged, so what comes back is appended as it is. Where they have
schemas, the stream's metadata has under `schemas` a JSON list of [registry id, fingerprint in hex,
text], through which the column `schema` counts.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa

from storage_core.catalog.options import PAYLOAD_BYTES_MAX
from storage_core.errors import UnavailableError
from storage_core.format.record import Rows, rows_from_arrow
from storage_core.format.row_columns import ENVELOPE, SCHEMA
from storage_core.format.schema_entry import SchemaEntry
from storage_core.ids.dictionaries.routing import shards_of_keys
from storage_core.ids.dictionaries.schemas import checked_schemas
from storage_core.platform import fork_guard, xxh3
from storage_core.platform.arrow import alone, concat, int_array
from storage_core.platform.durable_file import file_errors, sync_directory

BUFFERED_BYTES_MAX: Final = 32 * 2**20
# Ranges that are merged should be few and large; those in order only bound the memory.
_SHARE_IN_ORDER: Final = 1 / 4
# Each batch costs memory beside its rows.
_BATCHES_APART_MAX: Final = 1_024
FILE_BYTES_TARGET: Final = 256 * 2**20
BATCH_BYTES_TARGET: Final = 2**20
_READ_BYTES: Final = 2**20
_SCHEMAS: Final = b"schemas"


@dataclass(frozen=True, slots=True)
class StagedRows:
    """Rows of one shard: a byte range of a file in the transaction's directory.

    `is_sorted`: they lie by primary, in batches that can be read one by one.
    """

    file: str
    start: int
    size: int
    rows: int
    checksum: str
    is_sorted: bool = False


class StagedRowsWriter:
    """Writes checked rows of one attempt, for all shards of a stream; one thread at a time.

    Memory stays bounded: gathered rows are written before they are more than a bound, a file
    is closed once it is large enough.
    """

    def __init__(
        self,
        begin_attempt: Callable[[], Path],
        route_mask: int,
        *,
        keeps_order: bool = False,
        has_keys: bool = False,
    ) -> None:
        """Write into a directory that is made when there is something to write.

        With `keeps_order` a shard's rows lie as they came, without by primary. With `has_keys`
        a row's shard is that of its key, not of its secondary.
        """
        self._begin_attempt = begin_attempt
        self._mask = route_mask
        self._has_keys = has_keys
        self._keeps_order = keeps_order
        share = _SHARE_IN_ORDER if keeps_order else 1
        self._buffered_bytes_max = BUFFERED_BYTES_MAX * share
        self._buffered: list[pa.RecordBatch] = []
        self._schemas: dict[SchemaEntry, int] = {}
        self._buffered_bytes = 0
        self._file: BinaryIO | None = None
        self._files = 0
        self._is_in_doubt = False
        self._parts: list[tuple[int, StagedRows]] = []
        self.attempt: Path | None = None

    def buffer(self, rows: Rows, *, copies: bool = False) -> None:
        """Take rows; with `copies` their memory is free on return, else once they are finished."""
        batch = _as_batch(self._placed(rows))
        size = batch.nbytes
        if self._buffered and (
            self._buffered_bytes + size > self._buffered_bytes_max
            or batch.schema != self._buffered[0].schema
        ):
            self._write_buffered()
        if size > self._buffered_bytes_max:
            self._parts += self._written(batch)
        elif batch.num_rows:
            self._buffered.append(batch.take(int_array(np.arange(len(rows)))) if copies else batch)
            self._buffered_bytes += size
            if len(self._buffered) >= _BATCHES_APART_MAX:
                self._buffered = [concat(self._buffered)]

    def finish(self) -> dict[int, tuple[StagedRows, ...]]:
        """Make all files durable and tell what each shard has in them."""
        if self._buffered:
            self._write_buffered()
        if self.attempt is not None:
            with file_errors(self.attempt, "staging rows"):
                self._close_file()
                sync_directory(self.attempt)
        by_shard: dict[int, list[StagedRows]] = {}
        for shard, part in self._parts:
            by_shard.setdefault(shard, []).append(part)
        return {shard: tuple(parts) for shard, parts in sorted(by_shard.items())}

    def close(self) -> None:
        """Close what is open, without a promise."""
        with suppress(OSError):
            if self._file is not None:
                self._file.close()

    def abandon(self) -> None:
        """Remove what was written."""
        self.close()
        if self.attempt is not None:
            shutil.rmtree(self.attempt, ignore_errors=True)

    def _placed(self, rows: Rows) -> Rows:
        """Return rows whose schemas count through those of the attempt."""
        if not rows.schemas:
            return rows
        numbers = self._schemas
        places = [numbers.setdefault(entry, len(numbers)) for entry in rows.schemas]
        column = int_array(np.array(places, np.int32)).take(rows.envelope[SCHEMA])
        return rows.with_schemas(column)

    def _write_buffered(self) -> None:
        parts = self._written(concat(self._buffered))
        # IMPORTANT: once all are written, and without a call, behind which an interruption comes;
        # what failed or was cut is written again, and else would be missed or be there twice.
        self._parts += parts
        self._buffered, self._buffered_bytes = [], 0

    def _written(self, batch: pa.RecordBatch) -> list[tuple[int, StagedRows]]:
        """Write a part of each shard and return them; on an error there is none."""
        if self.attempt is None:
            self.attempt = self._begin_attempt()
        with file_errors(self.attempt, "staging rows"):
            if self._file is not None and self._file.tell() >= FILE_BYTES_TARGET:
                self._close_file()
            if self._file is None:
                self._file = (self.attempt / f"rows-{self._files:04d}.arrow").open("wb")
                self._files += 1
            by_shard = self._by_shard(batch)
            return [(shard, self._write_part(self._file, rows)) for shard, rows in by_shard]

    def _by_shard(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield each shard's rows in their order."""
        by = batch.column("key" if self._has_keys else "secondary")
        shards = shards_of_keys(by, self._mask) if self._has_keys else by.to_numpy() & self._mask
        numbers = shards.astype(np.uint16)
        times = () if self._keeps_order else (batch.column("primary").to_numpy(),)
        batch = batch.take(int_array(np.lexsort((*times, numbers))))
        ends = np.cumsum(np.bincount(numbers, minlength=self._mask + 1))
        start = 0
        for shard, end in enumerate(ends.tolist()):
            if end > start:
                yield shard, batch.slice(start, end - start)
            start = end

    def _write_part(self, file: BinaryIO, batch: pa.RecordBatch) -> StagedRows:
        count = max(1, batch.num_rows * BATCH_BYTES_TARGET // max(1, batch.nbytes))
        sink = pa.BufferOutputStream()
        schema = with_schemas_noted(batch.schema, self._schemas)
        with pa.ipc.new_stream(sink, schema) as writer:
            for start in range(0, batch.num_rows, count):
                columns = [alone(column) for column in batch.slice(start, count).columns]
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
        data, start = sink.getvalue(), file.tell()
        file.write(data)
        # IMPORTANT: a fork that ends would write what lies in the file's buffer a second time.
        file.flush()
        name, checksum = "/".join(Path(file.name).parts[-2:]), xxh3.xxh3_64_hexdigest(data)
        return StagedRows(name, start, data.size, batch.num_rows, checksum, not self._keeps_order)

    def _close_file(self) -> None:
        if self._is_in_doubt:
            message = "an earlier sync of the staged rows failed; stage them again"
            raise UnavailableError(message, path=self.attempt)
        if self._file is not None:
            # IMPORTANT: a failed sync is told once; the next one passes though pages were lost.
            self._is_in_doubt = True
            os.fsync(self._file.fileno())
            synced, self._file, self._is_in_doubt = self._file, None, False
            synced.close()


class StagingWriter:
    """Writes one attempt's rows for all shards of a stream; one thread at a time.

    Memory stays bounded. A fork leaves the attempt to the process that began it: every call is
    refused there with `ClosedError`.
    """

    def __init__(
        self,
        begin_attempt: Callable[[], Path],
        route_mask: int,
        payload_bytes_max: int,
        stream: str | None = None,
        *,
        has_keys: bool = False,
    ) -> None:
        """Check here what a `StagedRowsWriter` writes."""
        self._writer = StagedRowsWriter(begin_attempt, route_mask, has_keys=has_keys)
        self._has_keys = has_keys
        self._payload_bytes_max = payload_bytes_max
        self._home = fork_guard.Home(stream)

    def write(self, batch: pa.RecordBatch, *, schemas: Sequence[SchemaEntry] = ()) -> None:
        """Take a batch, its rows and schemas as those of `Stream.append_batch`.

        Its memory must stay as it is until `finish`; rows are buffered without a copy.

        Raises:
            InvalidRequestError: A column is missing, unknown, null where it may not be, or
                does not cast without loss; a payload is too large, or a schema is none.
        """
        self._home.refuse_elsewhere()
        checked = checked_schemas(schemas)
        rows = rows_from_arrow(
            batch, self._payload_bytes_max, has_keys=self._has_keys, schemas=checked
        )
        self._writer.buffer(rows)

    def finish(self) -> dict[int, tuple[StagedRows, ...]]:
        """Make all files durable and tell what each shard has in them."""
        self._home.refuse_elsewhere()
        return self._writer.finish()

    def close(self) -> None:
        """Close what is open, without a promise."""
        self._home.refuse_elsewhere()
        self._writer.close()

    def abandon(self) -> None:
        """Remove what was written."""
        self._home.refuse_elsewhere()
        self._writer.abandon()


def is_whole(directory: Path, part: StagedRows) -> bool:
    """Tell whether a part is there as it was written."""
    digest = xxh3.xxh3_64()
    left = part.size
    try:
        with (directory / part.file).open("rb") as file:
            file.seek(part.start)
            while left and (data := file.read(min(left, _READ_BYTES))):
                digest.update(data)
                left -= len(data)
    except FileNotFoundError:
        return False
    return left == 0 and digest.hexdigest() == part.checksum


def read_part(directory: Path, part: StagedRows) -> Iterator[Rows]:
    """Yield the rows of a part that is whole."""
    if part.rows == 0:
        return
    with pa.OSFile(str(directory / part.file), "rb") as file:
        file.seek(part.start)
        with pa.ipc.open_stream(file) as batches:
            schemas = schemas_of_part(batches.schema)
            for batch in batches:
                yield rows_from_arrow(batch, PAYLOAD_BYTES_MAX, schemas=schemas)


def with_schemas_noted(schema: pa.Schema, schemas: Iterable[SchemaEntry]) -> pa.Schema:
    """Return the schema of batches with what their column `schema`, if any, counts through."""
    if SCHEMA not in schema.names:
        return schema
    return schema.with_metadata({_SCHEMAS: _encode_schemas(schemas)})


def schemas_of_part(schema: pa.Schema) -> tuple[SchemaEntry, ...]:
    """Return what the column `schema` of a part's batches counts through."""
    if SCHEMA not in schema.names:
        return ()
    listed = json.loads((schema.metadata or {})[_SCHEMAS])
    return tuple(SchemaEntry(id_, bytes.fromhex(mark), text) for id_, mark, text in listed)


def rows_of(parts: Mapping[int, tuple[StagedRows, ...]]) -> int:
    """Return the number of rows in parts of any shards."""
    return sum(part.rows for of_shard in parts.values() for part in of_shard)


def _as_batch(rows: Rows) -> pa.RecordBatch:
    """Return rows as a batch with the columns of `Stream.append_batch`."""
    version = np.zeros(len(rows), np.uint16) if rows.version is None else rows.version
    columns = {
        "primary": int_array(rows.primary),
        "secondary": int_array(rows.secondary),
        "payload": rows.payload,
        "version": int_array(version),
    }
    envelope = {name: rows.envelope[name] for name in (*ENVELOPE, SCHEMA) if name in rows.envelope}
    return pa.RecordBatch.from_pydict(columns | envelope)


def _encode_schemas(schemas: Iterable[SchemaEntry]) -> bytes:
    listed = [[one.registry_id, one.fingerprint.hex(), one.text] for one in schemas]
    return json.dumps(listed).encode()

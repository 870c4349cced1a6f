"""Files of staged rows: written by whoever has rows, read by whoever finishes the transaction.

A part is a stretch of a file: an Arrow IPC stream with rows of one shard, its size and its
checksum. A file of one shard is a single part, in order of arrival; a file that serves all shards
holds a part of each, one behind the other, every time the rows gathered in memory are enough.
Those are sorted by primary; sorted_parts.py makes one order of them.

Rows are checked when they are staged, so what comes back is appended as it is.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from storage_core.catalog.options import PAYLOAD_BYTES_MAX
from storage_core.errors import InvalidRequestError
from storage_core.format.record import ENVELOPE, Rows, rows_from_arrow
from storage_core.ground import forking
from storage_core.ground.arrow import concat, int_array
from storage_core.ground.durable_file import file_errors, sync_directory

GATHERED_BYTES_MAX: Final = 32 * 2**20
FILE_BYTES_TARGET: Final = 256 * 2**20
BATCH_BYTES_TARGET: Final = 2**20
_READ_BYTES: Final = 2**20
_OWN_COLUMNS: Final = ("primary", "secondary", "payload", "version")


@dataclass(frozen=True, slots=True)
class StagedPart:
    """Rows of one shard: a stretch of a file in the transaction's directory.

    `is_sorted`: they lie by primary, in batches that can be read one by one.
    """

    file: str
    start: int
    size: int
    rows: int
    checksum: str
    is_sorted: bool = False


class StagedShardWriter:
    """Writes one shard's rows to a file that is one part."""

    def __init__(self, path: Path) -> None:
        """Create the file."""
        self._path = path
        self._file = _ChecksummedFile(path)
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None
        self._names: tuple[str, ...] = ()
        self.rows = 0

    def write(self, rows: Rows) -> None:
        """Append rows; all batches of a part have the same columns.

        Raises:
            InvalidRequestError: The columns differ from those before.
        """
        self.refuse_other_columns(rows)
        batch = _as_batch(rows)
        if self._writer is None:
            self._names = _names(rows)
            self._writer = self._file.begin_stream(batch.schema)
        self._writer.write_batch(batch)
        self.rows += batch.num_rows

    def refuse_other_columns(self, rows: Rows) -> None:
        """Refuse rows whose columns differ from those written before.

        Raises:
            InvalidRequestError: They do.
        """
        if self._writer is not None and _names(rows) != self._names:
            message = (
                f"columns {_names(rows)} differ from the transaction's first batch, {self._names}"
            )
            raise InvalidRequestError(message)

    def finish(self) -> StagedPart:
        """Make the file durable and describe it."""
        if self._writer is not None:
            self._writer.close()
        self._file.sync_and_close()
        return self._file.part(_name_in_transaction(self._path), self.rows)

    def abandon(self) -> None:
        """Close the file without a promise."""
        self._file.close()


class StagingWriter:
    """Writes one attempt's rows for all shards of a stream; one thread at a time.

    Memory stays bounded: gathered rows are written before they are more than a bound, a file
    is closed once it is large enough. A fork leaves the attempt to the process that began it:
    every call is refused there with `ClosedError`.
    """

    def __init__(
        self,
        begin_attempt: Callable[[], Path],
        route_mask: int,
        payload_bytes_max: int,
        stream: str | None = None,
    ) -> None:
        """Write into a directory that is made when there is something to write."""
        self._begin_attempt = begin_attempt
        self._attempt: Path | None = None
        self._mask = route_mask
        self._payload_bytes_max = payload_bytes_max
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_bytes = 0
        self._file: _ChecksummedFile | None = None
        self._files = 0
        self._parts: dict[int, list[StagedPart]] = {}
        self._home = forking.Home(stream)

    def write(self, batch: pa.RecordBatch) -> None:
        """Take a batch with the columns of `Stream.append_batch`.

        Its memory must stay as it is until `finish`; rows are gathered without a copy.

        Raises:
            InvalidRequestError: A column is missing, unknown, null where it may not be, or
                does not cast without loss; or a payload is too large.
        """
        self._home.refuse_elsewhere()
        rows = _as_batch(rows_from_arrow(batch, self._payload_bytes_max))
        if self._gathered and (
            self._gathered_bytes + rows.nbytes > GATHERED_BYTES_MAX
            or rows.schema != self._gathered[0].schema
        ):
            self._write_gathered()
        if rows.num_rows:
            self._gathered.append(rows)
            self._gathered_bytes += rows.nbytes

    def finish(self) -> dict[int, tuple[StagedPart, ...]]:
        """Make all files durable and tell what each shard has in them."""
        self._home.refuse_elsewhere()
        if self._gathered:
            self._write_gathered()
        if self._attempt is not None:
            with file_errors(self._attempt, "staging rows"):
                self._close_file()
                sync_directory(self._attempt)
        return {shard: tuple(parts) for shard, parts in sorted(self._parts.items())}

    def abandon(self) -> None:
        """Remove what was written."""
        self._home.refuse_elsewhere()
        with suppress(OSError):
            if self._file is not None:
                self._file.close()
        if self._attempt is not None:
            shutil.rmtree(self._attempt, ignore_errors=True)

    def _write_gathered(self) -> None:
        batch = concat(self._gathered)
        self._gathered, self._gathered_bytes = [], 0
        if self._attempt is None:
            self._attempt = self._begin_attempt()
        with file_errors(self._attempt, "staging rows"):
            for shard, part in _by_shard(batch, self._mask):
                self._write_part(self._attempt, shard, part)
            if self._file is not None and self._file.size >= FILE_BYTES_TARGET:
                self._close_file()

    def _write_part(self, attempt: Path, shard: int, batch: pa.RecordBatch) -> None:
        if self._file is None:
            self._file = _ChecksummedFile(attempt / f"rows-{self._files:04d}.arrow")
            self._files += 1
        self._file.begin_part()
        count = max(1, batch.num_rows * BATCH_BYTES_TARGET // max(1, batch.nbytes))
        with self._file.begin_stream(batch.schema) as writer:
            for start in range(0, batch.num_rows, count):
                writer.write_batch(batch.slice(start, count))
        part = self._file.part(_name_in_transaction(self._file.path), batch.num_rows)
        self._parts.setdefault(shard, []).append(replace(part, is_sorted=True))

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.sync_and_close()
            self._file = None


class _ChecksummedFile:
    """A file that knows the size and checksum of its last part."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("wb")
        self._hash = xxhash.xxh3_64()
        self._start = 0
        self.size = 0
        self.closed = False
        forking.register(self)

    def leave_to_parent(self, _process: int) -> None:
        """Write nothing into the parent's file, not even what a buffer above it holds."""
        if not self.closed:
            forking.let_go_of_file(self._file.fileno())

    def begin_part(self) -> None:
        self._start = self.size
        self._hash = xxhash.xxh3_64()

    def begin_stream(self, schema: pa.Schema) -> pa.ipc.RecordBatchStreamWriter:
        sink = pa.PythonFile(self, "w")  # type: ignore[arg-type]  # a file by its methods
        return pa.ipc.new_stream(sink, schema)

    def part(self, name: str, rows: int) -> StagedPart:
        size = self.size - self._start
        return StagedPart(name, self._start, size, rows, self._hash.hexdigest())

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        self.size += len(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def sync_and_close(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self.close()

    def close(self) -> None:
        self.closed = True
        self._file.close()


def is_whole(directory: Path, part: StagedPart) -> bool:
    """Tell whether a part is there as it was written."""
    digest = xxhash.xxh3_64()
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


def read_part(directory: Path, part: StagedPart) -> Iterator[Rows]:
    """Yield the rows of a part that is whole."""
    if part.rows == 0:
        return
    with pa.OSFile(str(directory / part.file), "rb") as file:
        file.seek(part.start)
        with pa.ipc.open_stream(file) as batches:
            for batch in batches:
                yield rows_from_arrow(batch, PAYLOAD_BYTES_MAX)


def rows_of(parts: Mapping[int, tuple[StagedPart, ...]]) -> int:
    """Return the number of rows in parts of any shards."""
    return sum(part.rows for of_shard in parts.values() for part in of_shard)


def order_of(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Return the positions of rows by primary; equal ones stay in order."""
    return np.argsort(batch.column("primary").to_numpy(), kind="stable")


def _by_shard(batch: pa.RecordBatch, mask: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield each shard's rows by primary."""
    numbers = (batch.column("secondary").to_numpy() & mask).astype(np.uint16)
    times = batch.column("primary").to_numpy()
    batch = batch.take(int_array(np.lexsort((times, numbers))))
    ends = np.cumsum(np.bincount(numbers, minlength=mask + 1))
    start = 0
    for shard, end in enumerate(ends.tolist()):
        if end > start:
            yield shard, batch.slice(start, end - start)
        start = end


def _names(rows: Rows) -> tuple[str, ...]:
    return (*_OWN_COLUMNS, *(name for name in ENVELOPE if name in rows.envelope))


def _as_batch(rows: Rows) -> pa.RecordBatch:
    version = np.zeros(len(rows), np.uint16) if rows.version is None else rows.version
    columns = {
        "primary": int_array(rows.primary),
        "secondary": int_array(rows.secondary),
        "payload": rows.payload,
        "version": int_array(version),
    }
    envelope = {name: rows.envelope[name] for name in ENVELOPE if name in rows.envelope}
    return pa.RecordBatch.from_pydict(columns | envelope)


def _name_in_transaction(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"

"""The rows of an export's chunks, as far as they are proven; nothing that a file says is trusted.

Rows count up to where the digests of their file hold. What holds and is no file that an export
writes is refused whole.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from storage_core.errors import CorruptionError, InvalidRequestError, UnavailableError
from storage_core.export.bounds import Room, TooLargeError
from storage_core.export.forms import form_of
from storage_core.export.manifest import MANIFEST_FILE, Chunk, ExportedFile, Manifest
from storage_core.export.plain_rows import by_address
from storage_core.export.proven_file import proven


@dataclass(frozen=True, slots=True)
class Damage:
    """The first file of a chunk that is not as it was written, and how many rows it still has."""

    file: str
    rows: int
    taken: int

    def error(self, directory: Path, shard: int, end: int) -> CorruptionError:
        """Return the error that tells of it; the shard ends at an address."""
        message = (
            f"the file is not as it was exported: {self.taken} of its {self.rows} rows were taken; "
            f"shard {shard} ends at address {end}"
        )
        return CorruptionError(message, path=directory / self.file)


@dataclass(slots=True)
class ChunkRows:
    """The rows of a chunk that are proven, up to an address, and how many of them were new."""

    chunk: Chunk
    rows: Any
    end: int
    damage: Damage | None
    added: int = 0


class ChunkReader:
    """The files of an export. One thread at a time; a chunk is held whole."""

    def __init__(self, directory: Path, manifest: Manifest, bytes_max: int) -> None:
        """Read files of a directory, each of which may take so much memory.

        Raises:
            CorruptionError: The manifest has schemas that are none.
        """
        self._directory = directory
        self._has_keys = manifest.has_keys
        self._bytes_max = bytes_max
        try:
            self._form = form_of(manifest, bytes_max)
        except (InvalidRequestError, RecursionError) as error:
            message = f"no export wrote this manifest: {str(error)[:200]}"
            raise CorruptionError(message, path=directory / MANIFEST_FILE) from error

    def rows_of(self, chunk: Chunk) -> ChunkRows:
        """Return the rows of a chunk, up to the first that is missing or damaged.

        Raises:
            CorruptionError: A file whose digest holds is none that an export wrote.
            InvalidRequestError: A file would take more memory than it may.
        """
        tables, cuts = [], []
        room = Room(self._bytes_max)
        for file in chunk.files:
            rows = self._rows_in(file, chunk, room)
            count = rows.num_rows
            tables.append(rows)
            if count < file.rows:
                # Behind the last row that is there; a file sorted otherwise is there or not.
                last = int(rows.column("address")[-1].as_py()) + 1 if count else file.first
                cuts.append((last, file, rows))
        rows = by_address(tables, has_keys=self._has_keys)
        addresses = rows.column("address").to_numpy()
        if not bool((addresses[1:] > addresses[:-1]).all()):
            message = "no export wrote these files: an address is there twice"
            path = self._directory / chunk.files[0].name
            place = chunk.shard, chunk.start, chunk.end
            raise CorruptionError(message, path=path, shard=place[0], start=place[1], end=place[2])
        if not cuts:
            return ChunkRows(chunk, rows, chunk.end, None)
        end, file, of_file = min(cuts, key=lambda one: one[0])
        kept = int(np.searchsorted(addresses, end))
        of_cut = of_file.column("address").to_numpy()
        taken = int(np.count_nonzero(of_cut < end))
        return ChunkRows(chunk, rows.slice(0, kept), end, Damage(file.name, file.rows, taken))

    def _rows_in(self, file: ExportedFile, chunk: Chunk, room: Room) -> Any:  # noqa: ANN401 - a table
        """Return the rows of a file that its digests prove; all of a chunk share the room."""
        path = self._directory / file.name
        try:
            data, count = proven(self._directory, file, self._bytes_max)
            rows = self._read(path, data, file)
            room.take(rows.nbytes)
        except TooLargeError as error:
            message = (
                f"the file would take more than {self._bytes_max} bytes of memory; if you trust "
                "it, allow more: `file_bytes_max`, or --file-mib-max"
            )
            raise InvalidRequestError(message, path=path) from error
        except MemoryError as error:
            message = f"there is no memory for the rows of the file: {error}"
            raise UnavailableError(message, path=path) from error
        fault = _strange_in(rows, count, chunk)
        if fault:
            message = f"its digest holds, but no export wrote this file: {fault}"
            raise CorruptionError(message, path=path, shard=chunk.shard)
        return rows

    def _read(self, path: Path, data: bytes, file: ExportedFile) -> Any:  # noqa: ANN401 - a table
        try:
            return self._form.read(data, file)
        except (TooLargeError, MemoryError):
            raise
        except Exception as error:  # whatever the bytes of a stranger make of their reader
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            message = f"its digest holds, but no export wrote this file: {reason}"
            raise CorruptionError(message, path=path) from error


def _strange_in(rows: Any, count: int, chunk: Chunk) -> str:  # noqa: ANN401 - a table
    """Say what rows have that no rows of a chunk have; nothing if all is well."""
    if rows.num_rows != count:
        return f"it has {rows.num_rows} rows in the place of {count}"
    for name in ("shard", "secondary", "primary", "address", "version", "state"):
        if name in rows.schema.names and rows.column(name).null_count:
            return f"a row has no {name}"
    shards, addresses = (rows.column(name).to_numpy() for name in ("shard", "address"))
    if not bool((shards == chunk.shard).all()):
        return f"it has rows of another shard than {chunk.shard}"
    if not bool(((addresses >= chunk.start) & (addresses < chunk.end)).all()):
        return f"it has rows outside of the addresses {chunk.start} to {chunk.end}"
    return ""

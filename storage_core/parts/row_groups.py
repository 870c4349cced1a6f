"""One part's file, read by row group: those alone that can hold the requested rows.

The footer says between which values the columns of a row group lie; a column that has one value in
a row group is not read. Each column chunk is compared with its digest as it is read.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from storage_core.errors import CorruptionError
from storage_core.format.chunk_table import ChunkTable
from storage_core.format.part_entry import FileProof
from storage_core.parts.footer import footer_of, read_error
from storage_core.parts.part_bytes import Opener, PartBytes, open_file
from storage_core.platform import xxh3
from storage_core.platform.arrow import repeated

_parquet: Any = pq


class PartFile:
    """A part's file, open. One thread at a time."""

    def __init__(self, path: Path, proof: FileProof, opener: Opener | None = None) -> None:
        """Open a file that was published with this proof.

        Args:
            path: The file's place.
            proof: What proves it.
            opener: Opens it, if it may be elsewhere.

        Raises:
            FileNotFoundError: There is no such file.
            CorruptionError: It is damaged.
            InvalidRequestError: This process has no right to read it.
            UnavailableError: The system cannot read it now.
        """
        self._path = path
        self.footer = footer_of(path, proof, opener)
        try:
            file = opener() if opener else open_file(path)
            self._bytes = _ProvenFile(path, file, proof.size, self.footer.table)
            self._file = _parquet.ParquetFile(
                # Chunks are proven as they are read: one after the other, by this thread.
                self._bytes,
                metadata=self.footer.metadata,
                pre_buffer=False,
            )
        except (pa.ArrowException, OSError, MemoryError) as error:
            raise read_error(path, error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._bytes.close()

    def read(self, group: int, columns: Sequence[str]) -> pa.Table:
        """Return columns of a row group's rows, without those that the file does not have.

        Raises:
            CorruptionError: The file is damaged.
        """
        schema = self.footer.schema
        present = [name for name in columns if name in schema.names]
        only = {name: self.footer.only_value(name, group) for name in present}
        varied = [name for name in present if only[name] is None]
        try:
            rows: pa.Table = self._file.read_row_group(group, columns=varied, use_threads=False)
        except (pa.ArrowException, OSError, MemoryError) as error:
            raise read_error(self._path, error) from error
        if len(varied) == len(present):
            return rows
        count = self.footer.metadata.row_group(group).num_rows
        arrays = [
            rows.column(name)
            if only[name] is None
            else repeated(only[name], schema.field(name).type, count)
            for name in present
        ]
        return pa.Table.from_arrays(arrays, names=present)


class _ProvenFile:
    """A part's file for Parquet's library, which gets proven bytes alone. One thread at a time."""

    closed = False

    def __init__(self, path: Path, file: PartBytes, size: int, table: ChunkTable) -> None:
        """Take over an open file that has so many bytes, and these column chunks."""
        self._path = path
        self._file = file
        self._size = size
        self._table = table
        self._place = 0

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def writable(self) -> bool:
        """It is not."""
        return False

    def tell(self) -> int:
        """Return where the next bytes are read from."""
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Read from another place on: of the file, or behind its end."""
        assert whence in (os.SEEK_SET, os.SEEK_END)
        self._place = offset if whence == os.SEEK_SET else self._size + offset
        return self._place

    def read(self, size: int) -> bytes:
        """Return bytes that lie in one column chunk, or in neighbours.

        Raises:
            CorruptionError: They are not as they were published.
            OSError: The system does not let them be read.
        """
        begin, self._place = self._place, self._place + size
        offsets = self._table.offsets
        behind_first, end = np.searchsorted(offsets, [begin + 1, begin + size]).tolist()
        first = max(0, behind_first - 1)
        chunks = [self._chunk(index) for index in range(first, end)]
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        skipped = begin - int(offsets[first])
        # Of bytes objects this makes no copy where all of one is asked for.
        return data[skipped : skipped + size]

    def _chunk(self, index: int) -> bytes:
        offset, size = int(self._table.offsets[index]), int(self._table.sizes[index])
        data = self._file.read(offset, size)
        if xxh3.xxh3_64_intdigest(data) != int(self._table.digests[index]):
            message = f"bytes {offset} to {offset + size} of a part are not as they were published"
            raise CorruptionError(message, path=self._path)
        return data

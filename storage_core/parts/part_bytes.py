"""The bytes of a part's file: none of them is used that is not as it was published.

The foot, which is the table of chunks (storage_core/format/chunk_table.py) and Parquet's footer, is
proven by the catalogue's entry, each chunk by the table, whenever it is read. So a read costs what
it asks for, however large the file.
"""

import os
from collections.abc import Iterator
from errno import EISDIR, ELOOP, ENOENT, ENOTDIR
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from storage_core.errors import CorruptionError, UnavailableError
from storage_core.format.chunk_table import (
    BOUNDED,
    Blocks,
    ChunkTable,
    Int64s,
    decode_chunk_table,
    encode_chunk_table,
)
from storage_core.format.keys import INT64_MAX, INT64_MIN
from storage_core.format.part_entry import FileProof
from storage_core.platform.descriptor import opened
from storage_core.platform.durable_file import lacking_right

SCHEMA: Final = "schema"
_READ_BYTES: Final = 2**20
_BLOCK_BYTES: Final = 2**16
# Something else stands in a file's place.
_NO_FILE: Final = frozenset({EISDIR, ELOOP, ENOTDIR})
# Behind a footer of Parquet: how many bytes it has, and four that tell the format.
_BEHIND_FOOTER: Final = 8
_parquet: Any = pq
_untyped: Any = pa


class PartBytes:
    """A part's file as Parquet's library reads files. One thread at a time."""

    closed = False

    def __init__(self, path: Path, size: int, table: ChunkTable) -> None:
        """Open a file that has so many bytes, and these chunks.

        Raises:
            OSError: There is none, or the system does not let it be read.
        """
        self._path = path
        self._size = size
        self._table = table
        self._place = 0
        self._file = opened(path, os.O_RDONLY)

    def close(self) -> None:
        """Let the file go."""
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
        """Return bytes that lie in one chunk, or in neighbours.

        Raises:
            CorruptionError: They are not as they were published.
            OSError: The system does not let them be read.
        """
        begin, self._place = self._place, self._place + size
        offsets = self._table.offsets
        behind_first, end = np.searchsorted(offsets, [begin + 1, begin + size]).tolist()
        first = max(0, behind_first - 1)
        chunks = [self._chunk(at) for at in range(first, end)]
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        skipped = begin - int(offsets[first])
        # Of bytes objects this makes no copy where all of one is asked for.
        return data[skipped : skipped + size]

    def _chunk(self, index: int) -> bytes:
        offset, size = int(self._table.offsets[index]), int(self._table.sizes[index])
        data = os.pread(self._file.fileno(), size, offset)
        if len(data) < size or xxhash.xxh3_64_intdigest(data) != int(self._table.digests[index]):
            message = f"bytes {offset} to {offset + size} of a part are not as they were published"
            raise CorruptionError(message, path=self._path)
        return data


def unread(path: Path, error: Exception) -> Exception:
    """Return what it means that a part's file could not be read.

    `FileNotFoundError`: there is none. `InvalidRequestError`: this process has no right to read it.
    `UnavailableError`: the system cannot now. `CorruptionError`: it is damaged, or no file.

    IMPORTANT: a disk that fails is not damage. Whoever mends takes the rows of a damaged part for
    lost, and a second look may find them.
    """
    doing = "a part cannot be read"
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(ENOENT, "a part is gone", str(path))
    if isinstance(error, OSError):
        forbidden = lacking_right(path, doing, error, "read")
        if forbidden is not None:
            return forbidden
        # What Arrow finds wrong with the bytes comes as an OSError too, without a number.
        if error.errno is not None:
            reason = os.strerror(error.errno)
            if error.errno in _NO_FILE:
                return CorruptionError(f"{doing}: {reason}", path=path)
            return UnavailableError(f"{doing} now: {reason}", path=path)
    if isinstance(error, MemoryError):
        message = f"{doing} now: {str(error) or 'there is no memory for it'}"
        return UnavailableError(message, path=path)
    first, *_ = str(error).splitlines() or [type(error).__name__]
    return CorruptionError(f"{doing}: {first}", path=path)


def digest_of(path: Path) -> bytes:
    """Return the digest of a file."""
    with path.open("rb") as file:
        return _digest(file)


def put_chunk_table(file: BinaryIO, decoded_bytes: int) -> FileProof:
    """Write the table of its chunks into a file of Parquet, and return what proves the file.

    Args:
        file: Whole, open for reading and writing.
        decoded_bytes: What its rows take in memory.
    """
    size = file.seek(-_BEHIND_FOOTER, os.SEEK_END) + _BEHIND_FOOTER
    footer_bytes = int.from_bytes(file.read(4), "little") + _BEHIND_FOOTER
    file.seek(size - footer_bytes)
    footer = file.read()
    table = _table_of(file, size - footer_bytes, metadata_in(footer), decoded_bytes)
    foot = encode_chunk_table(table) + footer
    file.seek(size - footer_bytes)
    file.write(foot)
    file.flush()
    file.seek(0)
    size += len(foot) - footer_bytes
    return FileProof(size, _digest(file), len(foot), xxhash.xxh3_128_digest(foot))


def read_foot(path: Path, proof: FileProof) -> tuple[ChunkTable, Any]:
    """Return the chunks of a file that was published, and its metadata as Parquet's library has it.

    Raises:
        CorruptionError: The foot is not as it was published.
        OSError: There is no file, or the system does not let it be read.
    """
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - proof.foot_bytes))
        foot = file.read()
    if xxhash.xxh3_128_digest(foot) != proof.foot_digest:
        message = f"the last {proof.foot_bytes} bytes of a part are not as they were published"
        raise CorruptionError(message, path=path)
    return decode_chunk_table(foot), metadata_in(foot)


def metadata_in(foot: bytes) -> Any:  # noqa: ANN401 - the library's
    """Return what the end of a file tells Parquet's library."""
    return _parquet.read_metadata(_untyped.BufferReader(foot))


def _table_of(file: BinaryIO, end: int, metadata: Any, decoded_bytes: int) -> ChunkTable:  # noqa: ANN401 - the library's
    """Return the table of a file whose footer begins at an end."""
    offsets, sizes = map(np.array, zip(*_places(metadata), strict=True))
    digests = []
    for offset, size in zip(offsets.tolist(), sizes.tolist(), strict=True):
        file.seek(offset)
        digests.append(xxhash.xxh3_64_intdigest(file.read(size)))
    assert (offsets[1:] >= offsets[:-1] + sizes[:-1]).all()
    bounds = {name: _bounds(metadata, name) for name in BOUNDED}
    return ChunkTable(
        metadata.num_row_groups,
        *(offsets, sizes, np.array(digests, np.uint64)),
        bounds,
        _schemas_of(file),
        decoded_bytes,
        _blocks_outside(file, offsets, sizes, end),
    )


def _blocks_outside(file: BinaryIO, offsets: Int64s, sizes: Int64s, end: int) -> Blocks:
    """Return the bytes before an end that are in no chunk, in blocks."""
    begins = np.append(0, offsets + sizes)
    ends = np.append(offsets, end)
    places = [
        (place, min(_BLOCK_BYTES, int(stop) - place))
        for begin, stop in zip(begins, ends, strict=True)
        for place in range(int(begin), int(stop), _BLOCK_BYTES)
    ]
    digests = []
    for offset, size in places:
        file.seek(offset)
        digests.append(xxhash.xxh3_64_intdigest(file.read(size)))
    begun, long = (np.array(some, np.int64) for some in zip(*places, strict=True))
    return Blocks(begun, long, np.array(digests, np.uint64))


def _places(metadata: Any) -> Iterator[tuple[int, int]]:  # noqa: ANN401 - the library's
    """Yield where each chunk begins, and how many bytes it has."""
    for group in range(metadata.num_row_groups):
        group_metadata = metadata.row_group(group)
        for column in range(metadata.num_columns):
            chunk = group_metadata.column(column)
            begin = chunk.data_page_offset
            if chunk.has_dictionary_page:
                begin = min(begin, chunk.dictionary_page_offset)
            yield begin, chunk.total_compressed_size


def _bounds(metadata: Any, column: str) -> tuple[Int64s, Int64s]:  # noqa: ANN401 - the library's
    count = metadata.num_row_groups
    least, most = np.full(count, INT64_MIN), np.full(count, INT64_MAX)
    # A field inside of a value may have the same name.
    paths = [metadata.schema.column(at).path for at in range(metadata.num_columns)]
    if column in paths:
        place = paths.index(column)
        for group in range(count):
            statistics = metadata.row_group(group).column(place).statistics
            if statistics is not None and statistics.has_min_max:
                least[group], most[group] = statistics.min, statistics.max
    return least, most


def _schemas_of(file: BinaryIO) -> tuple[int, ...]:
    """Return the numbers of the schemas that wrote the values of a file."""
    file.seek(0)
    parquet = _parquet.ParquetFile(file)
    if SCHEMA not in parquet.schema_arrow.names:
        return ()
    numbers = parquet.read(columns=[SCHEMA], use_threads=False).column(SCHEMA)
    return tuple(np.unique(numbers.to_numpy()).tolist())


def _digest(file: BinaryIO) -> bytes:
    digest = xxhash.xxh3_128()
    while data := file.read(_READ_BYTES):
        digest.update(data)
    return digest.digest()

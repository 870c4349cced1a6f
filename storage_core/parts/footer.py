"""The end of a part's file: what its columns are, where they lie, and what proves each of them.

    <rows, as Parquet has them> <chunk table> <footer of Parquet>
                                `------------- footer -----------'

The chunk table (storage_core/format/chunk_table.py) has the digest of each column chunk; the part
list has the digest of the footer. So a read costs what it asks for, however large the file is, and
uses no byte that differs from what was published.

All who need a footer ask here. Those that were read last are cached within `CACHE_BYTES_MAX`: a
file never changes, and its number is given once. A reader of rows needs the whole footer; whoever
looks at many files needs its summary, which is some hundred times smaller.
"""

import os
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from errno import EISDIR, ELOOP, ENOENT, ENOTDIR
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from storage_core.errors import CorruptionError, UnavailableError
from storage_core.format.chunk_table import ChunkTable, decode_chunk_table
from storage_core.format.part_entry import FileProof
from storage_core.parts.part_bytes import Opener, PartBytes, open_file
from storage_core.platform import xxh3
from storage_core.platform.durable_file import lacking_right
from storage_core.platform.fork_guard import register

# What cached footers and summaries may take in memory.
CACHE_BYTES_MAX: Final = 64 * 2**20
# What Parquet's library makes of a footer takes some six times its bytes.
_FOOTER_GROWS: Final = 8
# A schema of Arrow: itself, and each of its fields.
_SCHEMA_BYTES: Final = 512
_FIELD_BYTES: Final = 256
_KEY: Final = "key"
# Something else stands in a file's place.
_NO_FILE: Final = frozenset({EISDIR, ELOOP, ENOTDIR})
_parquet: Any = pq
_untyped: Any = pa
Mask = npt.NDArray[np.bool_]
# The least and the largest key of a row group, and whether rows have none; None where unknown.
KeyBounds = tuple[bytes, bytes, bool] | None


@dataclass(frozen=True, slots=True)
class FooterSummary:
    """What a footer says of a whole file.

    Attributes:
        schema: The columns, as Arrow has them, without metadata.
        decoded_bytes: What its rows take in memory.
    """

    schema: pa.Schema
    decoded_bytes: int

    @property
    def cached_bytes(self) -> int:
        """How many bytes it takes in memory, about."""
        return _SCHEMA_BYTES + _FIELD_BYTES * len(self.schema)


@dataclass(frozen=True, slots=True)
class Footer:
    """What a part's file says before any of its rows is read.

    Attributes:
        metadata: As Parquet's library has it.
        schema: The columns, as Arrow has them.
        table: Its column chunks, and their bounds.
        keys: Between which keys each row group lies; none where rows do not belong to keys.
    """

    metadata: Any
    schema: pa.Schema
    table: ChunkTable
    keys: tuple[KeyBounds, ...] = ()

    @property
    def row_groups(self) -> int:
        """How many row groups there are."""
        return self.table.groups

    @property
    def cached_bytes(self) -> int:
        """How many bytes it takes in memory, about."""
        in_memory: int = self.metadata.serialized_size * _FOOTER_GROWS
        return in_memory

    def summary(self) -> FooterSummary:
        """Return what it says of the whole file."""
        return FooterSummary(self.schema.remove_metadata(), self.table.decoded_bytes)

    def may_lie_between(self, column: str, first: int, last: int) -> Mask:
        """Tell which row groups can have a value in a closed range."""
        least, most = self.table.bounds[column]
        return (least <= last) & (most >= first)

    def may_have(self, column: str, values: npt.NDArray[Any]) -> Mask:
        """Tell which row groups can have one of some sorted values."""
        least, most = self.table.bounds[column]
        candidates: Mask = np.searchsorted(values, least) < np.searchsorted(
            values, most, side="right"
        )
        return candidates

    def may_have_keys(self, keys: Sequence[bytes | None]) -> Mask:
        """Tell which row groups can have a row of some keys, None for rows without one."""
        if not self.keys:
            return np.ones(self.row_groups, np.bool_)
        sorted_keys, has_none = sorted(key for key in keys if key is not None), None in keys
        candidates = np.ones(self.row_groups, np.bool_)
        for group, bounds in enumerate(self.keys):
            if bounds is not None:
                least, most, may_have_none = bounds
                is_between = bisect_left(sorted_keys, least) < bisect_right(sorted_keys, most)
                candidates[group] = is_between or (has_none and may_have_none)
        return candidates

    def only_value(self, column: str, group: int) -> int | None:
        """Return the one value that a column has in a row group; None where there may be others."""
        if column not in self.table.bounds:
            return None
        least, most = self.table.bounds[column]
        return int(least[group]) if least[group] == most[group] else None


class _FooterCache:
    """The footers and summaries that were used last. Any thread."""

    def __init__(self) -> None:
        self._begin()

    def get(self, path: Path, proof: FileProof, opener: Opener | None = None) -> Footer:
        footer = self._cached_under((Footer, path, proof))
        if not isinstance(footer, Footer):
            footer = read_footer(path, proof, opener)
            self._put((Footer, path, proof), footer)
        return footer

    def summary(self, path: Path, proof: FileProof, opener: Opener | None = None) -> FooterSummary:
        summary = self._cached_under((FooterSummary, path, proof))
        if not isinstance(summary, FooterSummary):
            footer = self._cached_under((Footer, path, proof))
            if not isinstance(footer, Footer):
                footer = read_footer(path, proof, opener)
            summary = footer.summary()
            self._put((FooterSummary, path, proof), summary)
        return summary

    def leave_to_parent(self, _process: int) -> None:
        """Begin anew in a fork: another thread may have held the lock."""
        self._begin()

    def _begin(self) -> None:
        self._cached: OrderedDict[tuple[type, Path, FileProof], Footer | FooterSummary]
        self._cached = OrderedDict()
        self._bytes = 0
        self._lock = Lock()
        # A fork may fork.
        register(self)

    def _cached_under(self, key: tuple[type, Path, FileProof]) -> Footer | FooterSummary | None:
        with self._lock:
            if key not in self._cached:
                return None
            self._cached.move_to_end(key)
            return self._cached[key]

    def _put(self, key: tuple[type, Path, FileProof], value: Footer | FooterSummary) -> None:
        with self._lock:
            if key not in self._cached:
                self._cached[key] = value
                self._bytes += value.cached_bytes
            while self._bytes > CACHE_BYTES_MAX:
                _, dropped = self._cached.popitem(last=False)
                self._bytes -= dropped.cached_bytes


@cache
def _footers() -> _FooterCache:
    return _FooterCache()


def footer_of(path: Path, proof: FileProof, opener: Opener | None = None) -> Footer:
    """Return the footer of a file that was published with this proof; cached.

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
    return _footers().get(path, proof, opener)


def footer_summary(path: Path, proof: FileProof, opener: Opener | None = None) -> FooterSummary:
    """Return the summary of a file's footer; only the summary is cached.

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
    return _footers().summary(path, proof, opener)


def read_footer(path: Path, proof: FileProof, opener: Opener | None = None) -> Footer:
    """Read the footer of a file that was published with this proof; not cached.

    Raises:
        FileNotFoundError: There is no such file.
        CorruptionError: It is damaged.
        InvalidRequestError: This process has no right to read it.
        UnavailableError: The system cannot read it now.
    """
    try:
        with closing(opener() if opener else open_file(path)) as file:
            data = footer_bytes(file, proof, path)
        metadata = _parquet.read_metadata(_untyped.BufferReader(data))
        schema = metadata.schema.to_arrow_schema()
        keys = _key_bounds(metadata) if "secondary" not in schema.names else ()
        return Footer(metadata, schema, decode_chunk_table(data), keys)
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise read_error(path, error) from error


def footer_bytes(file: PartBytes, proof: FileProof, path: Path | None = None) -> bytes:
    """Return the last bytes of a file, as they were published.

    Raises:
        CorruptionError: They differ, or the file ends before them.
        OSError: They cannot be read.
    """
    data = file.read(proof.size - proof.footer_bytes, proof.footer_bytes)
    if xxh3.xxh3_128_digest(data) != proof.footer_digest:
        message = f"the last {proof.footer_bytes} bytes of a part are not as they were published"
        raise CorruptionError(message, path=path)
    return data


def read_error(path: Path, error: Exception) -> Exception:
    """Return what it means that a part's file could not be read.

    `FileNotFoundError`: there is none. `InvalidRequestError`: this process has no right to read it.
    `UnavailableError`: the system cannot now. `CorruptionError`: it is damaged, or no file.

    IMPORTANT: a disk that fails is not damage. Whoever rebuilds a damaged part takes its rows for
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


def _key_bounds(metadata: Any) -> tuple[KeyBounds, ...]:  # noqa: ANN401 - of the library's
    """Return the bounds that Parquet's footer has of the keys of each row group.

    No key of a row group is below the least, or above the largest, even where Parquet cut them.
    There are none of keys of more than 4 KiB, nor of row groups without any key.
    """
    paths = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
    if _KEY not in paths:
        return ()
    place = paths.index(_KEY)
    groups = (metadata.row_group(index) for index in range(metadata.num_row_groups))
    return tuple(_bounds_in(group.column(place).statistics) for group in groups)


def _bounds_in(statistics: Any) -> KeyBounds:  # noqa: ANN401 - of the library's
    if statistics is None or not statistics.has_min_max:
        return None
    return (
        statistics.min,
        statistics.max,
        not statistics.has_null_count or statistics.null_count > 0,
    )

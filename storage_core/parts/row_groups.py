"""One part's file, read group by group: those alone that can hold what is wanted.

A group of rows tells in the file's foot between which values its columns lie; a column that has one
value in a group is not read. Feet are kept of the files that were read last: a file never changes,
and its number is given once. What is read is proven (storage_core/parts/part_bytes.py).
"""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from storage_core.format.chunk_table import ChunkTable
from storage_core.format.part_entry import FileProof
from storage_core.parts.part_bytes import PartBytes, read_foot, unread
from storage_core.platform.arrow import repeated
from storage_core.platform.fork_guard import register

# What the feet may take that a process keeps.
FEET_BYTES_MAX: Final = 64 * 2**20
# What the library makes of a footer takes some six times its bytes.
_FOOTER_GROWS: Final = 8
_parquet: Any = pq
KEY: Final = "key"
Mask = npt.NDArray[np.bool_]
# The least and the largest key of a group, and whether rows have none; None where nothing tells.
KeyBounds = tuple[bytes, bytes, bool] | None


@dataclass(frozen=True, slots=True)
class Foot:
    """What is known of a part's file before any of its rows is read.

    Attributes:
        metadata: As Parquet's library has it.
        schema: The columns, as Arrow has them.
        table: Its chunks, and their bounds.
        keys: Between which keys each group lies; none where rows do not belong to keys.
    """

    metadata: Any
    schema: pa.Schema
    table: ChunkTable
    keys: tuple[KeyBounds, ...] = ()

    @property
    def groups(self) -> int:
        """How many groups of rows there are."""
        return self.table.groups

    @property
    def bytes_kept(self) -> int:
        """How many bytes it takes in memory, about."""
        in_memory: int = self.metadata.serialized_size * _FOOTER_GROWS
        return in_memory

    def may_lie_between(self, column: str, first: int, last: int) -> Mask:
        """Tell which groups can have a value in a closed range."""
        least, most = self.table.bounds[column]
        return (least <= last) & (most >= first)

    def may_have(self, column: str, values: npt.NDArray[Any]) -> Mask:
        """Tell which groups can have one of some sorted values."""
        least, most = self.table.bounds[column]
        candidates: Mask = np.searchsorted(values, least) < np.searchsorted(
            values, most, side="right"
        )
        return candidates

    def may_have_keys(self, keys: Sequence[bytes | None]) -> Mask:
        """Tell which groups can have a row of some keys, None for rows without one."""
        if not self.keys:
            return np.ones(self.groups, np.bool_)
        sorted_keys, has_none = sorted(key for key in keys if key is not None), None in keys
        candidates = np.ones(self.groups, np.bool_)
        for group, bounds in enumerate(self.keys):
            if bounds is not None:
                least, most, may_have_none = bounds
                is_between = bisect_left(sorted_keys, least) < bisect_right(sorted_keys, most)
                candidates[group] = is_between or (has_none and may_have_none)
        return candidates

    def only_value(self, column: str, group: int) -> int | None:
        """Return the one value that a column has in a group; None where there may be others."""
        if column not in self.table.bounds:
            return None
        least, most = self.table.bounds[column]
        return int(least[group]) if least[group] == most[group] else None


class PartFile:
    """A part's file, open. One thread at a time."""

    def __init__(self, path: Path, proof: FileProof) -> None:
        """Open a file that was published with this proof.

        Raises:
            FileNotFoundError: There is no such file.
            CorruptionError: It is damaged.
            InvalidRequestError: This process has no right to read it.
            UnavailableError: The system cannot read it now.
        """
        self._path = path
        self.foot = foot_of(path, proof)
        try:
            self._bytes = PartBytes(path, proof.size, self.foot.table)
            self._file = _opened(self._bytes, self.foot.metadata)
        except (pa.ArrowException, OSError, MemoryError) as error:
            raise unread(path, error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._bytes.close()

    def read(self, group: int, columns: Sequence[str]) -> pa.Table:
        """Return columns of a group's rows, without those that the file does not have.

        Raises:
            CorruptionError: The file is damaged.
        """
        schema = self.foot.schema
        present = [name for name in columns if name in schema.names]
        only = {name: self.foot.only_value(name, group) for name in present}
        varied = [name for name in present if only[name] is None]
        try:
            rows: pa.Table = self._file.read_row_group(group, columns=varied, use_threads=False)
        except (pa.ArrowException, OSError, MemoryError) as error:
            raise unread(self._path, error) from error
        if len(varied) == len(present):
            return rows
        count = self.foot.metadata.row_group(group).num_rows
        arrays = [
            rows.column(name)
            if only[name] is None
            else repeated(only[name], schema.field(name).type, count)
            for name in present
        ]
        return pa.Table.from_arrays(arrays, names=present)


class _Feet:
    """The feet that a process keeps, within `FEET_BYTES_MAX`."""

    def __init__(self) -> None:
        self._begin()

    def get(self, path: Path, proof: FileProof) -> Foot:
        with self._lock:
            foot = self._cached.get((path, proof))
            if foot is not None:
                self._cached.move_to_end((path, proof))
                return foot
        foot = passing_foot(path, proof)
        with self._lock:
            if (path, proof) not in self._cached:
                self._cached[path, proof] = foot
                self._bytes += foot.bytes_kept
            while self._bytes > FEET_BYTES_MAX:
                _, gone = self._cached.popitem(last=False)
                self._bytes -= gone.bytes_kept
        return foot

    def leave_to_parent(self, _process: int) -> None:
        """Begin anew in a fork: another thread may have held the lock."""
        self._begin()

    def _begin(self) -> None:
        self._cached: OrderedDict[tuple[Path, FileProof], Foot] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()
        # A fork may fork.
        register(self)


@cache
def _feet() -> _Feet:
    return _Feet()


def foot_of(path: Path, proof: FileProof) -> Foot:
    """Return the foot of a file that was published with this proof.

    Raises:
        FileNotFoundError: There is no such file.
        CorruptionError: It is damaged.
        InvalidRequestError: This process has no right to read it.
        UnavailableError: The system cannot read it now.
    """
    return _feet().get(path, proof)


def passing_foot(path: Path, proof: FileProof) -> Foot:
    """Return the foot of a file for whoever looks at many and wants little of each: not kept.

    Raises:
        FileNotFoundError: There is no such file.
        CorruptionError: It is damaged.
        InvalidRequestError: This process has no right to read it.
        UnavailableError: The system cannot read it now.
    """
    try:
        table, metadata = read_foot(path, proof)
        schema = metadata.schema.to_arrow_schema()
        keys = _key_bounds(metadata) if "secondary" not in schema.names else ()
        return Foot(metadata, schema, table, keys)
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise unread(path, error) from error


def _key_bounds(metadata: Any) -> tuple[KeyBounds, ...]:  # noqa: ANN401 - of the library's
    """Return what the footer, which is proven, tells of the keys of each group.

    It tells bounds: no key of a group is below the least, or above the largest, even where they
    were cut. Of keys of more than 4 KiB, and of groups without any key, it tells none.
    """
    paths = [metadata.schema.column(at).path for at in range(metadata.num_columns)]
    if KEY not in paths:
        return ()
    place = paths.index(KEY)
    groups = (metadata.row_group(at) for at in range(metadata.num_row_groups))
    return tuple(_bounds_in(one.column(place).statistics) for one in groups)


def _bounds_in(statistics: Any) -> KeyBounds:  # noqa: ANN401 - of the library's
    if statistics is None or not statistics.has_min_max:
        return None
    return (
        statistics.min,
        statistics.max,
        not statistics.has_null_count or statistics.null_count > 0,
    )


def _opened(file: PartBytes, metadata: Any) -> Any:  # noqa: ANN401 - of the library's
    # Chunks are proven as they are read: one after the other, by this thread.
    return _parquet.ParquetFile(file, metadata=metadata, pre_buffer=False)

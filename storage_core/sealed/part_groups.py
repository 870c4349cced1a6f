"""One part's file, read group by group: those alone that can hold what is wanted.

A group of rows tells in the file's footer between which values its columns lie. Footers are kept of
the files that were read last: a file never changes, and its number is given once. Each page is
proven by its checksum.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from errno import EACCES, EMFILE, ENFILE, ENOENT, ENOMEM, EPERM
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NoReturn, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from storage_core.errors import CorruptionError, UnavailableError
from storage_core.format.keys import INT64_MAX, INT64_MIN

FOOTERS_MAX: Final = 32
_PROVEN_MAX: Final = 4096
_READ_BYTES: Final = 2**20
_BOUNDED: Final = ("secondary", "primary", "address")
_SCHEMA: Final = "schema"
# The system refuses, which says nothing of the file.
_NOT_NOW: Final = frozenset({EACCES, EMFILE, ENFILE, ENOMEM, EPERM})
_parquet: Any = pq
Mask = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Footer:
    """What is known of a part's file before any of its rows is read.

    Attributes:
        metadata: As Parquet's library has it.
        columns: Their names.
        schemas: The numbers of the schemas that wrote its values.
        bounds: The least and the largest value that each group has of a column of numbers.
    """

    metadata: Any
    columns: tuple[str, ...]
    schemas: tuple[int, ...]
    bounds: dict[str, tuple[Int64s, Int64s]]

    @property
    def groups(self) -> int:
        """How many groups of rows there are."""
        count: int = self.metadata.num_row_groups
        return count

    @property
    def size(self) -> int:
        """How many bytes its columns come to, packed but not compressed."""
        return sum(self.metadata.row_group(at).total_byte_size for at in range(self.groups))

    def may_lie_between(self, column: str, first: int, last: int) -> Mask:
        """Tell which groups can have a value in a closed range."""
        least, most = self.bounds[column]
        return (least <= last) & (most >= first)

    def may_have(self, column: str, values: npt.NDArray[Any]) -> Mask:
        """Tell which groups can have one of some sorted values."""
        least, most = self.bounds[column]
        found: Mask = np.searchsorted(values, least) < np.searchsorted(values, most, side="right")
        return found


class PartFile:
    """A part's file, open. One thread at a time."""

    def __init__(self, path: Path, digest: bytes) -> None:
        """Open a file that was published with this digest.

        Raises:
            FileNotFoundError: There is no such file.
            CorruptionError: It is damaged.
            UnavailableError: The system does not let it be read now.
        """
        self._path = path
        self.footer = footer_of(path, digest)
        try:
            self._file = _opened(path, self.footer.metadata)
        except (pa.ArrowException, OSError) as error:
            _refuse(path, error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def read(self, group: int, columns: Sequence[str]) -> pa.Table:
        """Return columns of a group's rows, without those that the file does not have.

        Raises:
            CorruptionError: The file is damaged.
        """
        there = [name for name in columns if name in self.footer.columns]
        try:
            rows: pa.Table = self._file.read_row_group(group, columns=there, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            _refuse(self._path, error)
        return rows


def digest_of(path: Path) -> bytes:
    """Return the digest of a file."""
    digest = xxhash.xxh3_128()
    with path.open("rb") as file:
        while data := file.read(_READ_BYTES):
            digest.update(data)
    return digest.digest()


@lru_cache(maxsize=_PROVEN_MAX)
def _prove(path: Path, digest: bytes) -> None:
    """Compare a file with what was published, once: what its footer says no checksum covers."""
    if digest_of(path) != digest:
        message = "a part is not as it was published"
        raise CorruptionError(message, path=path)


@lru_cache(maxsize=FOOTERS_MAX)
def footer_of(path: Path, digest: bytes) -> Footer:
    """Return the footer of a file that was published with this digest.

    Raises:
        FileNotFoundError: There is no such file.
        CorruptionError: It is damaged.
    """
    try:
        _prove(path, digest)
        with _opened(path, None) as file:
            columns = tuple(file.schema_arrow.names)
            schemas: tuple[int, ...] = ()
            if _SCHEMA in columns:
                numbers = file.read(columns=[_SCHEMA], use_threads=False).column(_SCHEMA)
                schemas = tuple(np.unique(numbers.to_numpy()).tolist())
            bounds = {name: _bounds(file.metadata, name) for name in _BOUNDED if name in columns}
            return Footer(file.metadata, columns, schemas, bounds)
    except (pa.ArrowException, OSError) as error:
        _refuse(path, error)


def _opened(path: Path, metadata: Any) -> Any:  # noqa: ANN401 - of the library's
    return _parquet.ParquetFile(path, metadata=metadata, page_checksum_verification=True)


def _bounds(metadata: Any, column: str) -> tuple[Int64s, Int64s]:  # noqa: ANN401 - the library's
    count = metadata.num_row_groups
    least, most = np.full(count, INT64_MIN), np.full(count, INT64_MAX)
    place = metadata.schema.names.index(column)
    for group in range(count):
        told = metadata.row_group(group).column(place).statistics
        if told is not None and told.has_min_max:
            least[group], most[group] = told.min, told.max
    return least, most


def _refuse(path: Path, error: Exception) -> NoReturn:
    if isinstance(error, FileNotFoundError):
        raise FileNotFoundError(ENOENT, "a part is gone", str(path)) from error
    if isinstance(error, OSError) and error.errno in _NOT_NOW:
        message = f"a part cannot be read now: {error.strerror}"
        raise UnavailableError(message, path=path) from error
    message = f"a part cannot be read: {error}"
    raise CorruptionError(message, path=path) from error

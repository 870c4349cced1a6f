"""Batches of rows put together: joined, sorted, limited, and cut to the columns asked for."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core.errors import InvalidRequestError
from storage_core.platform.arrow import concat, int_array


def in_order(
    batches: Sequence[pa.RecordBatch], keys: Sequence[str], columns: Sequence[str], limit: int = 0
) -> pa.RecordBatch:
    """Return these columns of all rows of batches, sorted.

    Args:
        batches: At least one; they have one schema.
        keys: Integer columns to sort by, the first the most significant. Without any the rows
            are in order.
        columns: The columns wanted.
        limit: Most rows of each id, 0 for all; the first key is the id then.
    """
    rows = _limited(_sorted(joined(batches), keys), limit)
    return rows if rows.schema.names == [*columns] else rows.select([*columns])


def _sorted(rows: pa.RecordBatch, keys: Sequence[str]) -> pa.RecordBatch:
    columns = [rows.column(name).to_numpy() for name in keys]
    if rows.num_rows < 2 or not keys or is_sorted(columns):  # noqa: PLR2004 - one row is sorted
        return rows
    return rows.take(int_array(np.lexsort(columns[::-1])))


def _limited(rows: pa.RecordBatch, limit: int) -> pa.RecordBatch:
    if limit == 0 or rows.num_rows <= limit:
        return rows
    ids = rows.column("secondary").to_numpy()
    begins = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
    sizes = np.diff(np.append(begins, len(ids)))
    rank = np.arange(len(ids)) - np.repeat(begins, sizes)
    return rows.filter(pa.array(rank < limit))


def joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches as one.

    Raises:
        InvalidRequestError: They hold more bytes than one Arrow batch can.
    """
    if len(batches) == 1:
        return batches[0]
    try:
        return concat(batches)
    except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
        message = f"the rows do not fit one Arrow batch; read less at once or scan: {error}"
        raise InvalidRequestError(message) from error


class Collected:
    """Batches held for an answer, and how many bytes they may come to (0: any number)."""

    def __init__(self, bytes_max: int) -> None:
        """Begin with none."""
        self.batches: list[pa.RecordBatch] = []
        self._bytes_max = bytes_max
        self._bytes_most = 0
        self._bytes = self._measured = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Hold more rows.

        Raises:
            InvalidRequestError: They come to too many bytes.
        """
        self.batches.append(rows)
        # Buffers may be shared, and a batch be a part of them. What rows come to costs a hundred
        # times as much to say, so it is asked for once it may matter.
        self._bytes_most += rows.get_total_buffer_size()
        if self._bytes_max and self._bytes_most > self._bytes_max:
            self._bytes += sum(one.nbytes for one in self.batches[self._measured :])
            self._bytes_most, self._measured = self._bytes, len(self.batches)
            refuse_too_large(self._bytes, self._bytes_max)


class ReadTooLargeError(InvalidRequestError):
    """A read whose rows are more than it may gather; one that may gather more can answer it."""


def refuse_too_large(size: int, bytes_max: int) -> None:
    """Refuse to hold rows of more bytes than a read may (0: any number)."""
    if bytes_max and size > bytes_max:
        message = (
            f"the rows come to more than read_bytes_max, {bytes_max} bytes; ask for fewer ids, "
            "times, columns or rows an id, take scan or for_each, or raise read_bytes_max"
        )
        raise ReadTooLargeError(message)


class RowsOfEach:
    """How many rows each of some ids has so far."""

    def __init__(self, ids: npt.NDArray[np.int32], limit: int) -> None:
        """Begin with none of each."""
        self._counts = dict.fromkeys(ids.tolist(), 0)
        self._limit = limit

    def add(self, rows: pa.RecordBatch) -> None:
        """Count rows of these ids."""
        ids, counts = np.unique(rows.column("secondary").to_numpy(), return_counts=True)
        for secondary, count in zip(ids.tolist(), counts.tolist(), strict=True):
            self._counts[secondary] += count

    @property
    def is_enough(self) -> bool:
        """Tell whether every id has as many rows as it may."""
        return min(self._counts.values()) >= self._limit


def is_sorted(columns: Sequence[npt.NDArray[np.integer[Any]]]) -> bool:
    """Tell whether rows ascend by these columns, in one pass over each."""
    undecided = np.ones(len(columns[0]) - 1, dtype=np.bool_)
    for column in columns:
        before, after = column[:-1], column[1:]
        if (undecided & (after < before)).any():
            return False
        undecided &= after == before
        if not undecided.any():
            return True
    return True

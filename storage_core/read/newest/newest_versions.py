"""Which record of several is the newest, as `latest_by` says.

    primary   of equal (id, primary) the one with the highest address; of shards that
    between them have several, the one committed later, then that of the larger shard
    key       of equal (id, key) the one with the largest primary, and of these as above

The id is the secondary, or the key where rows belong to keys; rows without a key are of one that
is their own. Addresses of two shards say nothing of each other and are never compared.

The newest record is shown whole. Where it is a tombstone it is hidden only then, so that what it
deleted stays deleted; rows that a request's ids, primaries and versions leave out take no part.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core.platform.arrow import distinct, int_array
from storage_core.read.request import LatestBy
from storage_core.read.rows import is_sorted, joined, refuse_too_large

Column = npt.NDArray[np.integer[Any]]

_ROWS_AT_ONCE: Final = 2**16
_BYTES_AT_ONCE: Final = 2**26


@dataclass(frozen=True, slots=True)
class Contest:
    """What rows compete for, and by what.

    Attributes:
        by: What `latest_by` says.
        has_keys: Whether the secondary stands for a key.
    """

    by: LatestBy
    has_keys: bool

    def columns(self, *, tombstones: bool) -> tuple[str, ...]:
        """Return what of rows must be known beside the columns they are ordered by."""
        key = ("key",) if self.by == "key" and not self.has_keys else ()
        return key if tombstones else (*key, "payload")

    def in_shard(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the newest of the rows of one shard."""
        return self._newest(rows, ("address",))

    def over_shards(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the newest of those of several shards."""
        return self._newest(rows, ("committed_at_ms", "shard"))

    def _newest(self, rows: pa.RecordBatch, ties: Sequence[str]) -> pa.RecordBatch:
        ids, primaries, *others = (
            rows.column(name).to_numpy() for name in ("secondary", "primary", *ties)
        )
        if self.by == "primary":
            return _largest(rows, [ids, primaries], others)
        if self.has_keys:
            return _largest(rows, [ids], [primaries, *others])
        _, codes = distinct(rows.column("key"))
        return _largest(rows, [ids, codes], [primaries, *others])


class NewestSoFar:
    """Rows that come piece by piece, of which only the newest are held: at most twice as many."""

    def __init__(
        self, reduced: Callable[[pa.RecordBatch], pa.RecordBatch], bytes_max: int = 0
    ) -> None:
        """Begin with none.

        Args:
            reduced: Returns the newest of rows.
            bytes_max: How many bytes the newest may come to; 0 for any number.
        """
        self._reduced = reduced
        self._bytes_max = bytes_max
        self._parts: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0
        self._rows_full, self._bytes_full = _ROWS_AT_ONCE, _BYTES_AT_ONCE

    def add(self, rows: pa.RecordBatch) -> None:
        """Let more rows take part.

        Raises:
            InvalidRequestError: The newest come to too many bytes.
        """
        self._parts.append(rows)
        self._rows += rows.num_rows
        self._bytes += rows.get_total_buffer_size()
        if self._rows >= self._rows_full or self._bytes >= self._bytes_full:
            self._reduce()

    def rows(self) -> pa.RecordBatch | None:
        """Return the newest, None if no row took part."""
        if self._parts:
            self._reduce()
        return self._parts[0] if self._parts else None

    def _reduce(self) -> None:
        rows = self._reduced(joined(self._parts))
        self._parts = [rows]
        self._rows, self._bytes = rows.num_rows, rows.nbytes
        refuse_too_large(self._bytes, self._bytes_max)
        self._rows_full = max(_ROWS_AT_ONCE, 2 * self._rows)
        self._bytes_full = max(_BYTES_AT_ONCE, 2 * self._bytes)


def without_tombstones(rows: pa.RecordBatch, *, tombstones: bool) -> pa.RecordBatch:
    """Return the newest without those that are tombstones, unless these are wanted."""
    if tombstones:
        return rows
    payloads = rows.column("payload")
    return rows.filter(payloads.is_valid()) if payloads.null_count else rows


def _largest(
    rows: pa.RecordBatch, groups: Sequence[Column], ranks: Sequence[Column]
) -> pa.RecordBatch:
    """Return of each group of rows the one that ranks highest."""
    if rows.num_rows < 2:  # noqa: PLR2004 - one row is the newest
        return rows
    columns = [*groups, *ranks]
    order = None if is_sorted(columns) else np.lexsort(columns[::-1])
    is_last = np.zeros(rows.num_rows, dtype=np.bool_)
    is_last[-1] = True
    for group in groups:
        values = group if order is None else group[order]
        is_last[:-1] |= values[1:] != values[:-1]
    if is_last.all():
        return rows
    last = np.flatnonzero(is_last) if order is None else order[is_last]
    return rows.take(int_array(last))

"""Answers of several roots for one shard, put together as one shard's.

Each root is asked for addresses that no other is, so no row comes twice; what is decided between
rows (order, limit, which is the newest) is decided here once more.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from storage_core.format.row_columns import SORT_COLUMNS
from storage_core.platform.arrow import int_array
from storage_core.read.keyed import ranked, unnumbered
from storage_core.read.newest.newest_versions import Contest, without_tombstones
from storage_core.read.request import ReadRequest
from storage_core.read.rows import in_order, joined

_TIME_COLUMNS = ("primary", "secondary", "address")


def question_to_each(
    request: ReadRequest, columns: Sequence[str], *, has_keys: bool
) -> ReadRequest:
    """Return what each root is asked, so that its answer can be put together with others'.

    Args:
        request: What is asked of the shard.
        columns: The columns that are wanted in the end.
        has_keys: Whether rows belong to keys.
    """
    wanted = (*columns, *SORT_COLUMNS, *(("key",) if has_keys else ()))
    if request.latest_by is not None:
        # A tombstone of one root hides what another has, and what is hidden is not counted.
        contest = Contest(request.latest_by, has_keys)
        wanted = (*wanted, *contest.columns(tombstones=request.tombstones))
        request = replace(request, limit=0, tombstones=True)
    return replace(request, columns=tuple(dict.fromkeys(wanted)))


def put_together(
    batches: Sequence[pa.RecordBatch],
    request: ReadRequest,
    columns: Sequence[str],
    *,
    has_keys: bool,
) -> pa.RecordBatch:
    """Return the answers of order `primary` or `newest` as one; there is at least one batch."""
    rows = joined(batches)
    if has_keys:
        rows = ranked(rows)
    if request.order == "newest":
        rows = _newest(rows)
    elif request.latest_by is not None:
        rows = Contest(request.latest_by, has_keys).in_shard(rows)
        rows = without_tombstones(rows, tombstones=request.tombstones)
    rows = in_order([rows], SORT_COLUMNS, columns, request.limit)
    return unnumbered(rows) if has_keys else rows


def _newest(rows: pa.RecordBatch) -> pa.RecordBatch:
    ids, primaries, addresses = (rows.column(name).to_numpy() for name in SORT_COLUMNS)
    order = np.lexsort((addresses, primaries, ids))
    ids = ids[order]
    is_last = np.append(ids[1:] != ids[:-1], [True])
    return rows.take(int_array(order[is_last[: len(order)]]))


def merged_by_time(
    answers: Sequence[Iterator[pa.RecordBatch]], columns: Sequence[str], *, has_keys: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of answers of order `time` by (primary, secondary, address)."""
    keys = ("primary", "address") if has_keys else _TIME_COLUMNS
    heads = [_Head(answer) for answer in answers]
    while True:
        for head in heads:
            head.fill()
        heads = [head for head in heads if head.rows is not None]
        if not heads:
            return
        bound = min((head.last for head in heads if not head.is_over), default=None)
        taken = [rows for head in heads if (rows := head.take_below(bound)).num_rows]
        if taken:
            yield in_order(taken, keys, columns)
        else:
            # Rows of one primary go on in the next batch.
            for head in heads:
                if head.last == bound:
                    head.extend()


class _Head:
    """The rows of an answer that were read and not yielded yet."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.rows: pa.RecordBatch | None = None
        self.is_over = False

    @property
    def last(self) -> int:
        """The largest primary that was read."""
        assert self.rows is not None
        return int(self.rows.column("primary")[-1].as_py())

    def fill(self) -> None:
        """Read rows, if none are left."""
        if self.rows is None or not self.rows.num_rows:
            self.rows = self._next()

    def extend(self) -> None:
        """Read more behind those that are there."""
        more = self._next()
        if more is not None and self.rows is not None:
            self.rows = joined([self.rows, more])

    def take_below(self, bound: int | None) -> pa.RecordBatch:
        """Take the rows below a primary; without one, all."""
        assert self.rows is not None
        primaries = self.rows.column("primary").to_numpy()
        count = len(primaries) if bound is None else int(np.searchsorted(primaries, bound))
        taken, self.rows = self.rows.slice(0, count), self.rows.slice(count)
        return taken

    def _next(self) -> pa.RecordBatch | None:
        batch = next((each for each in self._batches if each.num_rows), None)
        self.is_over = batch is None
        return batch

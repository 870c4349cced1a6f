"""The newest records of one shard, as `latest_by` says: rows compete while they are read.

Rows come as the blocks lie, each block once, and only the newest are held; so memory is that of the
answer, however often a row was written anew. With a limit, slices of primaries come in ascending
order instead: all rows of one primary are in one slice, so by `primary` each slice is decided by
itself, and the scan stops once every id has its rows. By `key` the last slice may decide.
"""

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from storage_core.format.row_columns import SORT_COLUMNS
from storage_core.read.newest.newest_versions import Contest, NewestSoFar, without_tombstones
from storage_core.read.request import LatestBy, ReadRequest
from storage_core.read.row_filter import RowFilter
from storage_core.read.rows import Collected, RowsOfEach, in_order, joined
from storage_core.read.scan.scan import scan_pieces, scan_slices
from storage_core.read.snapshot import ShardSnapshot


def scan_latest_by(
    snapshot: ShardSnapshot, wanted: RowFilter, by: LatestBy, request: ReadRequest
) -> Iterator[pa.RecordBatch]:
    """Yield the newest by (secondary, primary, address), at most `limit` an id (0: all).

    Raises:
        InvalidRequestError: They come to more than the request's `bytes_max`.
    """
    contest = Contest(by, snapshot.meta.has_keys)
    tombstones, limit = request.tombstones, request.limit
    needed = (*wanted.columns, *SORT_COLUMNS, *contest.columns(tombstones=tombstones))
    wide = replace(wanted, columns=tuple(dict.fromkeys(needed)))
    if by == "primary" and limit and wanted.ids is not None:
        collected = Collected(request.bytes_max)
        for rows in _first_of_each(snapshot, wide, contest, request):
            collected.add(rows)
        parts = collected.batches
    else:
        newest = NewestSoFar(contest.in_shard, request.bytes_max)
        for rows in scan_pieces(snapshot, wide):
            newest.add(rows)
        versions = newest.rows()
        parts = [] if versions is None else [without_tombstones(versions, tombstones=tombstones)]
    if any(part.num_rows for part in parts):
        yield in_order(parts, SORT_COLUMNS, wanted.columns, limit)


def _first_of_each(
    snapshot: ShardSnapshot, wanted: RowFilter, contest: Contest, request: ReadRequest
) -> Iterator[pa.RecordBatch]:
    """Yield the newest by `primary`, slice by slice, until each id has as many as wanted."""
    assert wanted.ids is not None, "without ids nobody knows when each has its rows"
    seen = RowsOfEach(wanted.ids, request.limit)
    for _, batches in scan_slices(snapshot, wanted):
        rows = without_tombstones(contest.in_shard(joined(batches)), tombstones=request.tombstones)
        yield rows
        seen.add(rows)
        if seen.is_enough:
            return

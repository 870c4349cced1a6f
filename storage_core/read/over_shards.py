"""The newest records over several shards that may hold rows of one id.

What wins in its shard may lose against another's, and a tombstone that wins hides what other
shards have; so shards are asked for all their winners, tombstones too, and decided between here.

With a limit each shard is asked for a few rows of each id. It says nothing of what comes behind
the last of them, so an id is known up to the least primary at which a shard stopped. Where
too few rows are left up to there, because others won or tombstones did, the id is asked for
again with a larger limit: most are answered at once, and none costs more than a few times its
rows.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core.format.keys import INT64_MAX, INT64_MIN
from storage_core.platform.arrow import int_array
from storage_core.read.keyed import ranked
from storage_core.read.newest.newest_versions import Contest, shown
from storage_core.read.request import LatestBy, ReadRequest
from storage_core.read.rows import joined

Int64s = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Gather = Callable[[ReadRequest], list[pa.RecordBatch]]

_MORE: Final = 4


def columns_over_shards(request: ReadRequest, by: LatestBy, *, has_keys: bool) -> tuple[str, ...]:
    """Return what of rows must be known to decide between shards."""
    named = Contest(by, has_keys).columns(tombstones=request.tombstones)
    return ("secondary", "primary", "shard", "committed_at_ms", *named)


def newest_over_shards(
    gather: Gather, request: ReadRequest, by: LatestBy, *, has_keys: bool
) -> list[pa.RecordBatch]:
    """Return the winners of all shards, unsorted; of some ids perhaps more than the limit.

    Args:
        gather: Asks every shard.
        request: What is asked, with the columns that it takes to decide.
        by: What the request's `latest_by` says.
        has_keys: Whether rows belong to keys.
    """
    contest = Contest(by, has_keys)
    is_named = request.ids is not None or request.keys is not None
    limit = request.limit if by == "primary" and is_named else 0
    asked: ReadRequest | None = replace(request, limit=limit, tombstones=True)
    found = []
    while asked is not None and (batches := gather(asked)):
        rows = ranked(joined(batches)) if has_keys else joined(batches)
        winners = shown(contest.over_shards(rows), tombstones=request.tombstones)
        if not asked.limit:
            return [winners]
        known = _Known.of(rows, asked.limit)
        is_open = known.is_short_of(winners, request.limit)
        found.append(known.settled(winners, is_open))
        asked = _again(asked, rows, known.ids[is_open], has_keys=has_keys)
    return found


@dataclass(frozen=True, slots=True)
class _Known:
    """The ids of rows, and the primary up to which all shards have told all rows of each."""

    ids: npt.NDArray[np.int32]
    upto: Int64s

    @classmethod
    def of(cls, rows: pa.RecordBatch, limit: int) -> "_Known":
        """Return what is known by answers of at most `limit` rows an id from each shard."""
        ids = rows.column("secondary").to_numpy()
        pairs = ids.astype(np.int64) << 32 | rows.column("shard").to_numpy()
        answers, codes, counts = np.unique(pairs, return_inverse=True, return_counts=True)
        last = np.full(len(answers), INT64_MIN)
        np.maximum.at(last, codes, rows.column("primary").to_numpy())
        last[counts < limit] = INT64_MAX
        known, codes = np.unique((answers >> 32).astype(np.int32), return_inverse=True)
        upto = np.full(len(known), INT64_MAX)
        np.minimum.at(upto, codes, last)
        return cls(known, upto)

    def is_short_of(self, winners: pa.RecordBatch, limit: int) -> Mask:
        """Tell of each id whether it may have more rows than those known, and needs them."""
        at, is_known = self._places(winners)
        counts = np.bincount(at[is_known], minlength=len(self.ids))
        short: Mask = (self.upto < INT64_MAX) & (counts < limit)
        return short

    def settled(self, winners: pa.RecordBatch, is_open: Mask) -> pa.RecordBatch:
        """Return what is known of the ids that are not open."""
        at, is_known = self._places(winners)
        return winners.filter(pa.array(is_known & ~is_open[at]))

    def _places(self, winners: pa.RecordBatch) -> tuple[npt.NDArray[np.intp], Mask]:
        """Return of each row which id it is of, and whether it is known to win."""
        at = self.ids.searchsorted(winners.column("secondary").to_numpy())
        return at, winners.column("primary").to_numpy() <= self.upto[at]


def _again(
    asked: ReadRequest, rows: pa.RecordBatch, open_ids: npt.NDArray[np.int32], *, has_keys: bool
) -> ReadRequest | None:
    """Return the request for more rows of some ids, None for none."""
    if not len(open_ids):
        return None
    limit = asked.limit * _MORE
    if not has_keys:
        return replace(asked, ids=tuple(open_ids.tolist()), limit=limit)
    ids, first = np.unique(rows.column("secondary").to_numpy(), return_index=True)
    keys = rows.column("key").take(int_array(first[np.isin(ids, open_ids)])).to_pylist()
    return replace(asked, keys=tuple(keys), limit=limit)

"""The newest records over several shards that may hold rows of one id.

The newest in its shard may be older than another's, and the newest, if it is a tombstone, hides
what other shards have; so shards give all their newest versions, tombstones too, and this decides.

With a limit each shard is asked for a few rows of each id. It says nothing of what comes behind
the last of them, so an id is decided up to the least primary at which a shard stopped. Where
too few rows are left up to there, because others or tombstones were newer, the id is asked for
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
from storage_core.read.keyed import ranked, unnumbered
from storage_core.read.newest.newest_versions import Contest, without_tombstones
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
    """Return the newest versions of all shards, unsorted; of some ids perhaps more than the limit.

    Args:
        gather: Asks every shard.
        request: What is asked, with the columns that it takes to decide.
        by: What the request's `latest_by` says.
        has_keys: Whether rows belong to keys.
    """
    contest = Contest(by, has_keys)
    is_named = request.ids is not None or request.keys is not None
    limit = request.limit if by == "primary" and is_named else 0
    question: ReadRequest | None = replace(request, limit=limit, tombstones=True)
    answers = []
    while question is not None and (batches := gather(question)):
        rows = ranked(joined(batches)) if has_keys else joined(batches)
        newest = without_tombstones(contest.over_shards(rows), tombstones=request.tombstones)
        if not question.limit:
            return [newest]
        reach = _Reach.of(rows, question.limit)
        is_open = reach.is_short_of(newest, request.limit)
        answers.append(reach.settled(newest, is_open))
        question = _again(question, rows, reach.ids[is_open], has_keys=has_keys)
    return answers


def newest_of_each(batches: list[pa.RecordBatch], *, has_keys: bool) -> pa.RecordBatch | None:
    """Return of the newest rows of each shard the newest of each id or key; None of no rows.

    Of equal primaries it is the one committed later, then that of the larger shard.

    Args:
        batches: The rows, of each shard one of each id.
        has_keys: Whether rows belong to keys.
    """
    if not batches:
        return None
    rows = joined(batches)
    shards = rows.column("shard").to_numpy()
    if not len(shards) or (shards == shards[0]).all():
        return rows
    if has_keys:
        rows = ranked(rows)
        shards = rows.column("shard").to_numpy()
    ids = rows.column("secondary").to_numpy()
    times = rows.column("committed_at_ms").to_numpy()
    order = np.lexsort((shards, times, rows.column("primary").to_numpy(), ids))
    ids = ids[order]
    is_last = np.append(ids[1:] != ids[:-1], [True])
    newest = rows.take(int_array(order[is_last]))
    return unnumbered(newest) if has_keys else newest


@dataclass(frozen=True, slots=True)
class _Reach:
    """The ids of rows, and the primary up to which all shards have given all rows of each."""

    ids: npt.NDArray[np.int32]
    upto: Int64s

    @classmethod
    def of(cls, rows: pa.RecordBatch, limit: int) -> "_Reach":
        """Return how far answers of at most `limit` rows an id from each shard reach."""
        ids = rows.column("secondary").to_numpy()
        pairs = ids.astype(np.int64) << 32 | rows.column("shard").to_numpy()
        answers, codes, counts = np.unique(pairs, return_inverse=True, return_counts=True)
        last = np.full(len(answers), INT64_MIN)
        np.maximum.at(last, codes, rows.column("primary").to_numpy())
        last[counts < limit] = INT64_MAX
        distinct_ids, codes = np.unique((answers >> 32).astype(np.int32), return_inverse=True)
        upto = np.full(len(distinct_ids), INT64_MAX)
        np.minimum.at(upto, codes, last)
        return cls(distinct_ids, upto)

    def is_short_of(self, newest: pa.RecordBatch, limit: int) -> Mask:
        """Tell of each id whether it may have more rows than those answered, and needs them."""
        places, is_decided = self._places(newest)
        counts = np.bincount(places[is_decided], minlength=len(self.ids))
        short: Mask = (self.upto < INT64_MAX) & (counts < limit)
        return short

    def settled(self, newest: pa.RecordBatch, is_open: Mask) -> pa.RecordBatch:
        """Return the decided rows of the ids that are not open."""
        places, is_decided = self._places(newest)
        return newest.filter(pa.array(is_decided & ~is_open[places]))

    def _places(self, newest: pa.RecordBatch) -> tuple[npt.NDArray[np.intp], Mask]:
        """Return the place of each row's id, and whether no other row can be newer."""
        places = self.ids.searchsorted(newest.column("secondary").to_numpy())
        return places, newest.column("primary").to_numpy() <= self.upto[places]


def _again(
    request: ReadRequest, rows: pa.RecordBatch, open_ids: npt.NDArray[np.int32], *, has_keys: bool
) -> ReadRequest | None:
    """Return the request for more rows of some ids, None for none."""
    if not len(open_ids):
        return None
    limit = request.limit * _MORE
    if not has_keys:
        return replace(request, ids=tuple(open_ids.tolist()), limit=limit)
    ids, first = np.unique(rows.column("secondary").to_numpy(), return_index=True)
    keys = rows.column("key").take(int_array(first[np.isin(ids, open_ids)])).to_pylist()
    return replace(request, keys=tuple(keys), limit=limit)

"""A writer's two head tables and their way to disk.

Written heads are as of the last row written; committed heads as of the marker. Heads go to
disk every so many blocks, in the WriteBatch of the block at hand, and only the committed
ones: what is on disk never speaks of a row above the marker. After a crash the blocks above
the address up to which they were written are replayed.

What is committed the marker says, here as everywhere: a head is committed at the moment the
marker is, so `latest` never answers older than `committed`.

Two locks guard it from outside: the shard's append lock (written side); the committed side
has a lock of its own, since readers ask it.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

import numpy as np

from storage_core.engine.key_value import Batch
from storage_core.format.head import encode_heads, encode_most
from storage_core.format.keys import INT32_MAX, INT64_MIN, head_key
from storage_core.format.shard_state import KEY_HEADS, KEY_HEADS_MOST, encode_int
from storage_core.ids.heads.bounds import PrimaryBounds
from storage_core.ids.heads.grouping import Grouping, Int32s, Int64s
from storage_core.ids.heads.table import Heads, HeadTable

BLOCKS_PER_SNAPSHOT: Final = 32
_PENDING_MAX: Final = 64
_View = TypeVar("_View")


class ShardHeads:
    """Heads of one shard open for writing."""

    def __init__(
        self,
        load: Callable[[list[bytes]], list[bytes | None]],
        committed: Callable[[], int],
        publishable: int,
        most: int = INT64_MIN,
    ) -> None:
        """Start with what is on disk.

        Args:
            load: Looks head keys up in the writer's store.
            committed: Says what the marker says at this moment.
            publishable: The end that is published next.
            most: No head on disk has a larger primary.
        """
        self._load = load
        self._committed_end = committed
        self._written = HeadTable()
        self._bounds = PrimaryBounds(most)
        self._committed = HeadTable()
        self._committed_lock = threading.Lock()
        self._pending: deque[tuple[int, Heads]] = deque()
        self._blocks = 0
        self.taken = publishable

    def find(self, ids: Int32s, none_from: int = INT32_MAX + 1) -> Heads:
        """Return the heads of these sorted ids; of those from `none_from` on there was no row."""
        heads, present = self._written.find(ids)
        if not present.all():
            missing = np.flatnonzero(~present & (ids < none_from))
            self._bounds.note_asked(len(missing))
            heads.fill(missing, self._load([head_key(int(one)) for one in ids[missing]]))
        return heads

    def find_for(
        self, groups: Grouping, primaries: Int64s, normal: tuple[int, int], none_from: int
    ) -> Heads:
        """Return heads to judge rows by, in order of arrival.

        Where an id's rows are judged alike whatever its head is, and make it anew, it is left out.

        Args:
            groups: The rows' ids.
            primaries: The rows' primaries.
            normal: The least and the largest primary that a normal row may have.
            none_from: Of ids from here on there was never a row.
        """
        undecided = self._bounds.undecided(groups, primaries, *normal)
        if undecided.all():
            return self.find(groups.ids, none_from)
        heads = Heads.none_for(groups.ids)
        positions = np.flatnonzero(undecided)
        if len(positions):
            heads.values[positions] = self.find(groups.ids[positions], none_from).values
        return heads

    def as_of_committed(
        self, ids: Int32s | None, open_view: Callable[[int, HeadTable], _View]
    ) -> _View:
        """Return a view of the moment at which these heads were committed.

        Args:
            ids: Sorted ids, or None for all.
            open_view: Is given what is committed, and the heads as of it that may not be on disk
                as they stand; those it does not find there it finds on disk.
        """
        with self._committed_lock:
            # IMPORTANT: the view is opened under the lock. Heads are taken from here to go to
            # disk, so that what the view has there is of no later moment either.
            committed = self._apply_pending()
            if ids is None:
                heads = self._committed.heads
            else:
                committed_heads, present = self._committed.find(ids)
                heads = committed_heads.where(present)
            return open_view(committed, HeadTable(heads=heads))

    def written(self, end: int, heads: Heads, blocks: int) -> None:
        """Take over the heads after rows were written; `end` is the rows' exclusive end."""
        self._blocks += blocks
        # IMPORTANT: first; no bound is ever below a head.
        self._bounds.raise_to(heads.ids, heads.primary)
        self._written.put(heads)
        with self._committed_lock:
            if len(self._pending) > _PENDING_MAX:
                self._merge_pending()
            self._pending.append((end, heads))

    def take(self, publishable: Callable[[], int]) -> int:
        """Return the end that `publishable` says, which is published next."""
        with self._committed_lock:
            self.taken = publishable()
            return self.taken

    def put_if_due(self, batch: Batch, written_through: int) -> int | None:
        """Add the heads that are not on disk to a batch, if enough blocks have passed.

        Args:
            batch: What is written with the block at hand.
            written_through: The address up to which heads are on disk.

        Returns:
            That address once the batch is written, or None if it stays.
        """
        if self._blocks < BLOCKS_PER_SNAPSHOT:
            return None
        return self.put(batch, written_through)

    def put(self, batch: Batch, written_through: int) -> int | None:
        """Do what `put_if_due` does, due or not."""
        with self._committed_lock:
            through = self._apply_pending()
            if through <= written_through:
                return None
            fresh = self._committed.fresh(written_through)
        batch.put_many(*encode_heads(fresh.ids, fresh.values))
        batch.put(KEY_HEADS, encode_int(through))
        batch.put(KEY_HEADS_MOST, encode_most(self._bounds.most))
        return through

    def snapshot_written(self, through: int) -> None:
        """Note that a batch with heads was written."""
        self._blocks = 0
        self._written.evict(through)
        with self._committed_lock:
            self._committed.evict(through)

    def _apply_pending(self) -> int:
        """Bring the committed heads up to the marker; return what it says."""
        committed = self._committed_end()
        while self._pending and self._pending[0][0] <= committed:
            # IMPORTANT: in this order; after an interruption between the two it is put again.
            self._committed.put(self._pending[0][1])
            self._pending.popleft()
        return committed

    def _merge_pending(self) -> None:
        """Make one of the heads between whose ends no end is published any more.

        What is published next is the end taken before, or where writing stands: behind all of
        them.
        """
        self._apply_pending()
        taken = [entry for entry in self._pending if entry[0] <= self.taken]
        open_ = [entry for entry in self._pending if entry[0] > self.taken]
        self._pending = deque([*_merged(taken), *_merged(open_)])


def _merged(pending: list[tuple[int, Heads]]) -> list[tuple[int, Heads]]:
    if len(pending) <= 1:
        return pending
    table = HeadTable(capacity=2**62)
    for _, heads in pending:
        table.put(heads)
    return [(pending[-1][0], table.heads)]

"""Heads as a follower knows them: those on disk, and the blocks written since, replayed once.

A writer puts its committed heads on disk every so many blocks; what lies behind them is few.
Any thread may ask.
"""

import threading

from storage_core.ids.heads.grouping import Int32s
from storage_core.ids.heads.replay import block_groups, replay_block
from storage_core.ids.heads.table import Heads, HeadTable
from storage_core.read.answer import heads_of
from storage_core.read.snapshot import ShardSnapshot


class _Replayed:
    """Heads of the blocks in [begin, end) of one instance; below lies what it has on disk."""

    def __init__(self, store: object, begin: int) -> None:
        self.store = store
        self.begin = begin
        self.end = begin
        self.table = HeadTable()

    def advance(self, snapshot: ShardSnapshot) -> None:
        """Replay the blocks up to what a snapshot has committed."""
        for zone in snapshot.zones(max(self.end, snapshot.state.start), snapshot.committed):
            block = snapshot.block(zone)
            groups = block_groups(block)
            before = heads_of(self.table, snapshot, groups.ids)
            self.table.put(replay_block(block, groups, before))
            self.end = zone.end


class FollowedHeads:
    """The heads of one shard, as of any snapshot of it."""

    def __init__(self) -> None:
        """Start with nothing replayed."""
        self._lock = threading.Lock()
        self._replayed = _Replayed(None, 0)

    def as_of(
        self, store: object, begin: int, snapshot: ShardSnapshot, ids: Int32s | None
    ) -> Heads:
        """Return heads as of a snapshot: those on disk, below `begin`, and of the blocks behind.

        Blocks that were replayed once are not again, unless the snapshot is older than they are.
        """
        with self._lock:
            replayed = self._replayed
            if replayed.store is not store or replayed.begin < begin:
                # What was replayed may be older than what this snapshot has on disk.
                replayed = self._replayed = _Replayed(store, begin)
            if replayed.begin == begin and replayed.end <= snapshot.committed:
                replayed.advance(snapshot)
                return heads_of(replayed.table, snapshot, ids)
        # A newer snapshot was here first: its heads are not those of this one.
        replayed = _Replayed(store, begin)
        replayed.advance(snapshot)
        return heads_of(replayed.table, snapshot, ids)

    def forget(self) -> None:
        """Let go of the instance whose blocks were replayed."""
        self._replayed = _Replayed(None, 0)

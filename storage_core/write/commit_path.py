"""The commit path: the only way rows, and what belongs to them, become durable in a shard.

Everything that must be atomic with rows goes through `CommitPath.run`; what maintenance and losses
change of a shard's state without rows goes through its neighbours here. Called by the shard alone,
whose guard says which lock each step needs.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from storage_core.catalog.options import StreamOptions
from storage_core.engine.key_value import Batch
from storage_core.format.keys import ADDRESS_MAX
from storage_core.format.record import Rows
from storage_core.format.shard_state import AddressRange, ShardState
from storage_core.format.window import Window
from storage_core.platform.clock import Clock
from storage_core.write.entry import AppendReport, Entry
from storage_core.write.guard import ShardGuard
from storage_core.write.indexing import hand_over, index_of
from storage_core.write.loss import knows_loss, note_loss
from storage_core.write.opened_shard import OpenedShard, ShardContext
from storage_core.write.plan import Plan, ShardWriting
from storage_core.write.record_builder import RecordBuilder
from storage_core.write.writer_state import WriterState, is_in_order

# Takes a state, and windows as they are, and returns what to write, and the state that then holds.
Change = Callable[[ShardState, Callable[[int], Window]], tuple[Batch, ShardState]]


class SyncInterval:
    """The time between two syncs of a shard at sync level `interval`; else `is_on` is False."""

    __slots__ = ("_began_at_s", "_clock", "_length_s", "is_on")

    def __init__(self, clock: Clock, options: StreamOptions) -> None:
        """Start as if a sync had just begun."""
        self._clock = clock
        self._began_at_s = clock.monotonic_s()
        self.alter(options)

    def alter(self, options: StreamOptions) -> None:
        """Take over changed options."""
        self.is_on = options.sync == "interval"
        self._length_s = options.sync_interval.total_seconds()

    def begin(self) -> None:
        """Note that a sync begins."""
        self._began_at_s = self._clock.monotonic_s()

    @property
    def is_over(self) -> bool:
        """Tell whether a sync is due."""
        return self._rest_s() <= 0

    def await_end(self) -> None:
        """Wait until a sync is due."""
        self._clock.sleep(max(0.0, self._rest_s()))

    def _rest_s(self) -> float:
        return self._began_at_s + self._length_s - self._clock.monotonic_s()


class CommitPath:
    """Writes one shard: its store, its marker, and what is remembered between batches.

    Attributes:
        progress: How far writing is, replaced whole under the append lock.
        builder: Single records on their way to a block; cleared in the step that writes them.
        index: Gets the rows that were written.
        interval: When the next sync is due, at sync level `interval`.
    """

    def __init__(
        self, context: ShardContext, options: StreamOptions, opened: OpenedShard, guard: ShardGuard
    ) -> None:
        self.options = options
        self.guard = guard
        self.progress = WriterState(replace(opened.state, ledger=None), opened.publishable)
        self.builder = RecordBuilder(options, ADDRESS_MAX - opened.state.tail.next)
        self.index = index_of(context, options, opened, guard, lambda: self.progress.state.floor)
        self.is_holding_back = False
        self._store = opened.store
        self._marker = opened.marker
        self._heads = opened.heads
        self._writing = ShardWriting(context, opened)
        self.interval = SyncInterval(context.environment.clock, options)
        self._synced = 0

    def run(self, work: Entry | Plan | None, *, durable: bool) -> AppendReport:
        """Write rows and what belongs to them; make all that was written durable.

        1. Judge: give each row its state by the heads, the floor and the clock, each new key and
           schema its number.
        2. Build: blocks, zones, late rows, windows, heads, new keys, new schemas, counters,
           attachments, the tail. With a shard's first schema the stream names the feature, durably.
        3. Write: one WriteBatch, not yet durable. Nothing of it is visible. The blocks of a large
           one go into a segment before it, durably.
        4. Sync: take the value of the tail, then sync the WAL; one sync serves all that wait.
        5. Publish: write the marker with the value taken before the sync, durably.
        6. Acknowledge: callers return, readers see rows up to the marker.

        Behind step 3 the index is handed the rows, for whoever writes its entries once they are
        committed; no call waits for it.

        Without `durable` it stops after step 3. A plan has 1 and 2 behind it. A failure in 1
        or 2 changes nothing; a failure from 3 on poisons the shard, and a reopen finds out what
        is there. An interruption (Ctrl-C) from 3 on is raised once the step is done.

        Raises:
            ShardPoisonedError: A durable write failed, now or before.
            UnavailableError: Another call held the shard for too long.
        """
        guard = self.guard
        report = AppendReport()
        wanted = self.progress.batches
        if work is not None:
            with guard.appending():
                if isinstance(work, Entry):
                    before = self.progress.state
                    judged = self._writing.judge(work, before, self.options)  # 1
                    work = self._writing.build(judged, before, self.options)  # 2
                after = self.progress.after(work.state, is_held_back=self.is_holding_back)
                guard.finish(guard.append_lock, partial(self._write, work, after))  # 3
                hand_over(self.index, work)
                wanted, report = after.batches, work.judged.report

        def make_durable() -> None:
            # IMPORTANT: the tail is taken before the sync; rows written during the sync may
            # not be durable and must not be published.
            batches = self.progress.batches
            durable_end = self._heads.take(lambda: self.progress.publishable)
            self._store.sync()  # 4
            self._synced = batches
            if durable_end > self.committed():
                self._marker.publish(durable_end)  # 5
                assert is_in_order(self.committed(), durable_end, batches, self.progress)

        if durable:
            with guard.committing():
                if self.is_behind(wanted):
                    self.interval.begin()
                    guard.finish(guard.commit_lock, make_durable)
        return report  # 6

    def plan(self, rows: Rows) -> Plan:
        """Return a batch ready to be written; the append lock is held from here until it is."""
        judged = self._writing.judge(Entry(rows), self.progress.state, self.options)
        return self._writing.build(judged, self.progress.state, self.options)

    def hold_back(self, write: Callable[[], None]) -> None:
        """Show what `write` writes only once all of it is in. Under the append lock.

        If it fails with a part written, only an opener can go on from there, so the shard is
        poisoned.

        IMPORTANT: behind the `try` only plain assignments, and no context of Python: calls are
        what an interruption cuts.
        """
        begin = self.progress.batches
        self.is_holding_back = True
        try:
            write()
            self.progress = self.progress.all_publishable()
        except BaseException as error:
            if self.progress.batches != begin:
                # Whoever takes the lock next poisons the shard if the call below is cut.
                self.guard.append_lock.is_in_doubt = True
                self.guard.fail(error)
            raise
        finally:
            self.is_holding_back = False

    def raise_floor(self, floor: int) -> None:
        """Judge what comes from here on by a floor; it goes to disk with what is written next."""
        with self.guard.appending():
            state = self.progress.state
            if floor > state.floor:
                self.progress = replace(self.progress, state=replace(state, floor=floor))

    def apply_change(self, change: Change) -> None:
        """Write what maintenance changes of the state; durable and published on return."""
        with self.guard.appending():
            batch, state = change(self.progress.state, self._writing.window)
            through = state.heads_through
            if through < max(state.start, state.trimmed):
                # What goes can be replayed no more, or only if its parts are there just then.
                through = self._heads.put(batch, through) or through
            self._writing.put_floor(batch, state)
            step = partial(self._write_change, batch, state, through)
            self.guard.finish(self.guard.append_lock, step)
        with self.guard.committing():
            self.guard.finish(self.guard.commit_lock, self._publish_change)

    def write_loss(self, change: tuple[Batch, ShardState]) -> None:
        """Write a change of lost ranges; durable on return. Under the commit lock."""
        self.guard.finish(self.guard.commit_lock, partial(self._write_loss, *change))

    def note_block(self, block: AddressRange, *, with_parts: bool) -> None:
        """Record a block that cannot be read as lost, unless it is known. Under both locks."""
        state = self.progress.state
        # What has expired since it was found, or was trimmed, is not lost.
        begin = state.start if with_parts else max(state.start, state.trimmed)
        is_there = block.end > begin
        if self.guard.is_usable and is_there and not knows_loss(state, block):
            step = partial(self._write_loss, *note_loss(state, block))
            self.guard.finish(self.guard.commit_lock, step)

    def committed(self) -> int:
        """Return the exclusive end of what is durable and shown."""
        return self._marker.state.committed

    def is_behind(self, batches: int) -> bool:
        """Tell whether so many batches are not all durable, or not all published."""
        return self._synced < batches or self.committed() < self.progress.publishable

    @property
    def addresses_left(self) -> int:
        """How many addresses the shard can still give."""
        return ADDRESS_MAX - self.progress.state.tail.next

    @property
    def floor_written(self) -> int:
        """The floor that is on disk."""
        return self._writing.floor_written

    def alter(self, options: StreamOptions) -> None:
        """Take over changed options."""
        self.options = options
        self.index.alter(options.index)
        self.interval.alter(options)
        self.builder.limit(options, self.addresses_left)

    def _write(self, plan: Plan, after: WriterState) -> None:
        """Step 3; if it is interrupted it is done again from the start."""
        self._store.write(plan.batch)
        self._writing.accept(plan)
        # IMPORTANT: before the builder is cleared, or rows would be in neither for a moment.
        self.progress = after
        assert is_in_order(self.committed(), self._heads.taken, self._synced, after)
        if plan.judged.entry.is_from_builder:
            self.builder.clear()
        self.builder.limit(self.options, self.addresses_left)

    def _write_loss(self, batch: Batch, state: ShardState) -> None:
        self._store.write(batch)
        self._store.sync()
        # A new sequence tells readers to look again.
        self._marker.publish(self.committed())
        self.progress = replace(self.progress, state=state)

    def _write_change(self, batch: Batch, state: ShardState, heads_through: int) -> None:
        # IMPORTANT: first; whoever looks at the store behind it knows what may be gone.
        self.progress = replace(self.progress, state=state)
        self._store.write(batch)
        self._writing.forget_windows(state)
        if heads_through > state.heads_through:
            # IMPORTANT: behind the write; a view that knows of them has them.
            state = replace(state, heads_through=heads_through)
            self.progress = replace(self.progress, state=state)
            self._heads.snapshot_written(heads_through)

    def _publish_change(self) -> None:
        self._store.sync()
        marker, generation = self._marker.state, self.progress.state.generation
        if marker.generation < generation:
            self._marker.write_both(replace(marker, generation=generation))
        else:
            # A new sequence tells readers to look again.
            self._marker.publish(marker.committed)

"""A shard open for writing: one ordered log with one writer.

`Shard.commit_path` is the only way rows become durable; everything that must be atomic with
them goes through it. The append lock guards what is written (builder, tail, heads, windows),
the commit lock the sync and the marker; guard.py says in which order.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from storage_core.catalog.options import StreamOptions
from storage_core.engine.key_value import Batch
from storage_core.errors import InvalidRequestError, ShardlogError
from storage_core.format.keys import ADDRESS_MAX, dead_letter_key
from storage_core.format.part_entry import ShardParts
from storage_core.format.record import Rows
from storage_core.format.schema_entry import SchemaEntry
from storage_core.format.shard_state import AddressRange, ShardState, Tail
from storage_core.format.window import Window
from storage_core.read.answer import routed_here, scan_view
from storage_core.read.cold.parts import parts_in
from storage_core.read.request import ReadRequest, ShardFacts
from storage_core.read.schema_columns import schemas_in
from storage_core.write.duplicates import new_part
from storage_core.write.entry import AppendReport, Entry, Source, no_address_left
from storage_core.write.guard import ShardGuard
from storage_core.write.indexing import hand_over, index_of
from storage_core.write.interval import SyncInterval
from storage_core.write.ledger import ShardTransactions
from storage_core.write.loss import give_up_loss, knows_loss, note_loss
from storage_core.write.opened import OpenedShard, ShardContext
from storage_core.write.plan import Plan, ShardWriting
from storage_core.write.record_builder import RecordBuilder
from storage_core.write.tiering_memory import TieringMemory
from storage_core.write.views import ShardViews, closing
from storage_core.write.writer_state import Standing, is_in_order

# Says of a state, and of windows as they stand, what is written, and the state that then holds.
Change = Callable[[ShardState, Callable[[int], Window]], tuple[Batch, ShardState]]


class Shard:
    """One shard's writer; also answers reads of what it has committed. Any thread may call it."""

    def __init__(self, context: ShardContext, options: StreamOptions, opened: OpenedShard) -> None:
        self.context = context
        self.options = options
        self._opened = opened
        self._store = opened.store
        self._marker = opened.marker
        self._heads = opened.heads
        assert opened.state.ledger is not None, "a shard that is opened has a ledger"
        self.transactions = ShardTransactions(
            opened.state.ledger, opened.store.get_many, context.is_needed
        )
        self._standing = Standing(replace(opened.state, ledger=None), opened.publishable)
        self._is_holding = False
        self._writing = ShardWriting(context, opened)
        self._builder = RecordBuilder(options, ADDRESS_MAX - opened.state.tail.next)
        wait_max_s = options.wait_max.total_seconds()
        self.guard = ShardGuard(context.meta.name, context.number, wait_max_s)
        self.index = index_of(
            context, options, opened, self.guard, lambda: self._standing.state.floor
        )
        self.views = ShardViews(
            context, opened, self.guard, lambda: self._standing, lambda: self.index.has_entries
        )
        self.tiering = TieringMemory()
        self._synced = 0
        self._interval = SyncInterval(context.environment.clock, options)

    # --- writing ---------------------------------------------------------------------------

    def commit_path(self, work: Entry | Plan | None, *, durable: bool) -> AppendReport:
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
        wanted = self._standing.batches
        if work is not None:
            with guard.appending():
                if isinstance(work, Entry):
                    before = self._standing.state
                    judged = self._writing.judge(work, before, self.options)  # 1
                    work = self._writing.build(judged, before, self.options)  # 2
                after = self._standing.after(work.state, is_held=self._is_holding)
                guard.finish(guard.append_lock, partial(self._write, work, after))  # 3
                hand_over(self.index, work)
                wanted, report = after.batches, work.judged.report

        def make_durable() -> None:
            # IMPORTANT: the tail is taken before the sync; rows written during the sync may
            # not be durable and must not be published.
            batches = self._standing.batches
            durable_end = self._heads.take(lambda: self._standing.publishable)
            self._store.sync()  # 4
            self._synced = batches
            if durable_end > self.committed():
                self._marker.publish(durable_end)  # 5
                assert is_in_order(self.committed(), durable_end, batches, self._standing)

        if durable:
            with guard.committing():
                if self._is_behind(wanted):
                    self._interval.begin()
                    guard.finish(guard.commit_lock, make_durable)
        return report  # 6

    def add(self, primary: int, secondary: int, payload: bytes | None, version: int) -> None:
        """Take one record; a full block is written by itself while the caller waits."""
        with self.guard.append_lock:
            if self._builder.add(primary, secondary, payload, version):
                self._seal()
        if self._interval.is_on:
            self.commit_if_due()

    def append(self, entry: Entry) -> AppendReport:
        """Write a batch behind all records added before it."""
        with self.guard.append_lock:
            self._seal()
            tail = self.tail.next
            if entry.first_address(tail) < tail:
                with closing(self.views.committed(), self.note_lost) as view:
                    entry = new_part(entry, view, tail)
            report = self.commit_path(entry, durable=False)
        self.commit_if_due()
        return report

    def plan(self, rows: Rows) -> Plan:
        """Return a batch ready for the commit path, behind all records added before it.

        The caller holds the append lock from here until it is written.
        """
        self._seal()
        state = self._standing.state
        judged = self._writing.judge(Entry(rows), state, self.options)
        return self._writing.build(judged, state, self.options)

    def commit(self) -> int:
        """Make everything taken so far durable and return committed."""
        with self.guard.append_lock:
            self._seal()
        if self._interval.is_on and self._is_behind(self._standing.batches):
            # Under no lock. Whoever syncs meanwhile begins behind what the caller wrote.
            self._interval.await_end()
        self.commit_path(None, durable=True)
        return self.committed()

    @property
    def needs_commit(self) -> bool:
        """Tell whether something was taken that may not be durable, or not visible yet."""
        # IMPORTANT: in this order; what leaves the builder stands in the batches before.
        return (
            not self.guard.is_usable
            or len(self._builder) > 0
            or self._is_behind(self._standing.batches)
        )

    def discard_unsealed(self) -> None:
        """Forget the records that have not been written, also of a poisoned shard."""
        self.guard.append_lock.take()
        try:
            self._builder.clear()
        finally:
            self.guard.append_lock.release()

    def commit_if_due(self) -> None:
        """At sync level `interval`, commit once one is over, unless somebody is at it."""
        interval, lock = self._interval, self.guard.commit_lock
        if not interval.is_on or not interval.is_over:
            return
        if self._is_holding or not lock.take_if_free():
            return
        try:
            # The rows are taken, whatever others have done to the shard since.
            if self.guard.is_usable and interval.is_over:
                self.commit_path(None, durable=True)
        finally:
            lock.release()

    def publish_at_end(self, write: Callable[[], None]) -> None:
        """Commit what stands before; show what `write` writes only once all of it is in.

        The caller holds the append lock. If it fails with a part written, only an opener can go
        on from there, so the shard is poisoned.

        IMPORTANT: behind the `try` only plain assignments, and no context of Python: calls are
        what an interruption cuts.
        """
        self._seal()
        if self.transactions.unfinished() is None:
            self.commit_path(None, durable=True)
        begin = self._standing.batches
        self._is_holding = True
        try:
            write()
            self._standing = self._standing.all_publishable()
        except BaseException as error:
            if self._standing.batches != begin:
                # Whoever takes the lock next poisons the shard if the call below is cut.
                self.guard.append_lock.is_in_doubt = True
                self.guard.fail(error)
            raise
        finally:
            self._is_holding = False
        self.commit_path(None, durable=True)

    def accept_loss(self, start: int, end: int) -> None:
        """Give up the lost ranges in [start, end); reads pass over them from then on.

        Raises:
            InvalidRequestError: It holds no lost range, or only a part of one.
        """
        with self.guard.appending():
            change = give_up_loss(self._standing.state, start, end, self.context.number)
            with self.guard.committing():
                self.guard.finish(self.guard.commit_lock, partial(self._write_loss, *change))

    def pass_over(self, end: int, source: Source | None) -> None:
        """Move the tail to an end; the source no longer has what lies between. Durable on return.

        Raises:
            InvalidRequestError: The tail lies above the end.
        """
        with self.guard.appending():
            self._seal()
            tail = self.tail.next
            if end < tail:
                message = f"cannot pass over to {end}: the shard is at {tail}"
                raise InvalidRequestError(
                    message, stream=self.context.meta.name, shard=self.context.number
                )
            if end > tail or source is not None:
                self.commit_path(Entry(None, source=source, passes_to=end), durable=False)
        self.commit_path(None, durable=True)

    def clear_dead_letters(self, addresses: Sequence[int], *, are_dropped: bool) -> int:
        """Let dead letters go that were forwarded, or are dropped; durable on return.

        Those that are gone already are let be, and not counted again.
        """
        with self.guard.appending():
            values = self._store.get_many([dead_letter_key(one) for one in addresses])
            present = tuple(
                one for one, raw in zip(addresses, values, strict=True) if raw is not None
            )
            if present:
                self.commit_path(
                    Entry(None, cleared=present, are_dropped=are_dropped), durable=False
                )
        if present:
            self.commit_path(None, durable=True)
        return len(present)

    def raise_floor(self, floor: int) -> None:
        """Judge what comes from here on by a floor; it goes to disk with what is written next."""
        with self.guard.appending():
            state = self._standing.state
            if floor > state.floor:
                self._standing = replace(self._standing, state=replace(state, floor=floor))

    def take_away(self, change: Change) -> None:
        """Write what takes away what has expired; durable and published on return."""
        with self.guard.appending():
            batch, state = change(self._standing.state, self._writing.window)
            through = state.heads_through
            if through < max(state.start, state.trimmed):
                # What goes can be replayed no more, or only if its parts are there just then.
                through = self._heads.put(batch, through) or through
            step = partial(self._write_away, batch, state, through)
            self.guard.finish(self.guard.append_lock, step)
        with self.guard.committing():
            self.guard.finish(self.guard.commit_lock, self._publish_away)

    def free(
        self,
        blocks: Sequence[tuple[bytes, bytes]],
        segments: Sequence[int],
        files: Sequence[Path] = (),
    ) -> None:
        """Give back what was taken away, now that it is durable, and what could not be before."""
        self._store.free(blocks, segments, files)

    def close(self) -> None:
        """Commit, unless poisoned, and let go of everything; a second call does nothing.

        IMPORTANT: in one hold of both locks. What a call took before is committed, and a call
        that waits meanwhile finds the shard closed.

        Raises:
            UnavailableError: Another call holds the shard; nothing was done, it is still open.
            ShardPoisonedError: The commit failed; the shard is closed all the same.
        """
        self.guard.end(self._commit_and_let_go)

    def abandon(self) -> None:
        """Let go of everything without committing, once no other call is inside.

        Raises:
            UnavailableError: Another call holds the shard; it is still open.
        """
        self.guard.end(self._let_go)

    # --- reading ---------------------------------------------------------------------------

    def committed(self) -> int:
        """Return the exclusive end of what is durable and shown."""
        return self._marker.state.committed

    def scan(self, request: ReadRequest) -> Iterator[pa.RecordBatch]:
        """Yield the rows asked for; a block found unreadable is recorded as lost.

        Raises:
            LostRangeError: Acknowledged rows in the range are gone.
        """
        self.guard.refuse_if_closed()
        strays = self.tail.counters.strays
        routed = routed_here(request, self.context.meta, strays)
        if routed is None:
            return
        with closing(self.views.asked_for(routed), self.note_lost) as view:
            if view.state.tail.counters.strays and not strays:
                # The shard's first strays came in between; their ids are left out of what is asked.
                yield from self.scan(request)
                return
            for batch, _ in scan_view(view, routed):
                yield batch

    def state(self) -> ShardFacts:
        """Return what the shard says of itself; its rows may not be committed yet."""
        # IMPORTANT: committed first; the standing then holds all that it covers.
        committed = self.committed()
        state = replace(self._standing.state, index=self.index.counts())
        return ShardFacts.of(state, committed)

    def dead_letters(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield the committed dead letters of a range by address."""
        with closing(self.views.committed(), self.note_lost) as view:
            yield from view.committed_dead_letters(start, end)

    def schemas(self, registry_id: int | None = None) -> tuple[SchemaEntry, ...]:
        """Return the schemas that rows have or had, written or committed."""
        with closing(self.views.committed(), self.note_lost) as view:
            return tuple(schemas_in(view, registry_id))

    def parts(self) -> ShardParts:
        """Return the parts of the shard, and up to where its rows are in them."""
        with closing(self.views.committed(), self.note_lost) as view:
            return parts_in(view)

    def note_lost(self, found: Iterable[AddressRange], *, with_parts: bool = False) -> None:
        """Record the ranges of blocks that cannot be read, so that they are told from now on.

        Those that were trimmed only where parts cannot stand for them: a view of before the trim
        reads bytes of theirs that nobody needs.
        """
        for block in found:
            # A read does not wait for others to record what the next one finds again.
            self.guard.unless_busy(partial(self._note_block, block, with_parts=with_parts))

    def alter(self, options: StreamOptions) -> None:
        """Take over changed options."""
        with self.guard.appending():
            self.options = options
            self.index.alter(options.index)
            self._interval.alter(options)
            self._builder.limit(options, self._addresses_left)
            self.guard.wait_max_s = options.wait_max.total_seconds()

    @property
    def floor_kept(self) -> int:
        """The floor that is on disk."""
        return self._writing.floor_kept

    @property
    def tail(self) -> Tail:
        """Where writing stands, and the counters."""
        return self._standing.state.tail

    # --- inside ----------------------------------------------------------------------------

    @property
    def _addresses_left(self) -> int:
        return ADDRESS_MAX - self.tail.next

    def _seal(self) -> None:
        if len(self._builder):
            if not self._addresses_left:
                # The record that was just added; there can be no other.
                self._builder.clear()
                raise no_address_left(self.context.meta.name, self.context.number)
            self.commit_path(Entry(self._builder.rows(), is_from_builder=True), durable=False)

    def _write(self, plan: Plan, after: Standing) -> None:
        """Step 3; if it is interrupted it is done again from the start."""
        self._store.write(plan.batch)
        self._writing.accept(plan)
        # IMPORTANT: before the builder is cleared, or rows would be in neither for a moment.
        self._standing = after
        assert is_in_order(self.committed(), self._heads.taken, self._synced, after)
        if plan.judged.entry.is_from_builder:
            self._builder.clear()
        self._builder.limit(self.options, self._addresses_left)

    def _is_behind(self, batches: int) -> bool:
        """Tell whether so many batches are not all durable, or not all published."""
        return self._synced < batches or self.committed() < self._standing.publishable

    def _commit_and_let_go(self) -> None:
        if self.guard.is_usable:
            try:
                self._seal()
                if self._standing.state.floor > self.floor_kept:
                    self.commit_path(Entry(None), durable=False)
                self.commit_path(None, durable=True)
            except (ShardlogError, OSError):
                self._let_go()
                raise
        self._let_go()

    def _let_go(self) -> None:
        self.guard.close()
        # IMPORTANT: before the store; no entry is being written once it closes.
        self.index.stop()
        self._opened.close(is_poisoned=self.guard.poison is not None)

    def _write_loss(self, batch: Batch, state: ShardState) -> None:
        self._store.write(batch)
        self._store.sync()
        # A new sequence tells readers to look again.
        self._marker.publish(self.committed())
        self._standing = replace(self._standing, state=state)

    def _write_away(self, batch: Batch, state: ShardState, heads_through: int) -> None:
        # IMPORTANT: first; whoever looks at the store behind it knows what may be gone.
        self._standing = replace(self._standing, state=state)
        self._store.write(batch)
        self._writing.forget_windows(state)
        if heads_through > state.heads_through:
            # IMPORTANT: behind the write; a view that knows of them has them.
            state = replace(state, heads_through=heads_through)
            self._standing = replace(self._standing, state=state)
            self._heads.snapshot_written(heads_through)

    def _publish_away(self) -> None:
        self._store.sync()
        marker, generation = self._marker.state, self._standing.state.generation
        if marker.generation < generation:
            self._marker.write_both(replace(marker, generation=generation))
        else:
            # A new sequence tells readers to look again.
            self._marker.publish(marker.committed)

    def _note_block(self, block: AddressRange, *, with_parts: bool) -> None:
        state = self._standing.state
        # What has expired since it was found, or was trimmed, is not lost.
        begin = state.start if with_parts else max(state.start, state.trimmed)
        is_there = block.end > begin
        if self.guard.is_usable and is_there and not knows_loss(state, block):
            step = partial(self._write_loss, *note_loss(state, block))
            self.guard.finish(self.guard.commit_lock, step)

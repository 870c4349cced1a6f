"""A shard open for writing: one ordered log with one writer.

`CommitPath` (commit_path.py) is the only way rows become durable; everything that must be atomic
with them goes through it. The append lock guards what is written (builder, tail, heads, windows),
the commit lock the sync and the marker; guard.py says in which order.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core.catalog.options import StreamOptions
from storage_core.errors import InvalidRequestError, ShardlogError
from storage_core.format.keys import dead_letter_key
from storage_core.format.part_entry import ShardParts
from storage_core.format.record import Rows
from storage_core.format.schema_entry import SchemaEntry
from storage_core.format.shard_state import AddressRange, Tail
from storage_core.parts.snapshot import parts_in
from storage_core.read.answer import routed_here, scan_snapshot
from storage_core.read.request import ReadRequest
from storage_core.read.schema_columns import schemas_in
from storage_core.read.shard_reader import ShardFacts
from storage_core.write.commit_path import CommitPath
from storage_core.write.duplicates import new_part
from storage_core.write.entry import AppendReport, DeadLetterOutcome, Entry, Source, no_address_left
from storage_core.write.guard import ShardGuard
from storage_core.write.ledger import ShardTransactions
from storage_core.write.loss import accepted_loss
from storage_core.write.maintenance_state import MaintenanceState
from storage_core.write.opened_shard import OpenedShard, ShardContext
from storage_core.write.plan import Plan
from storage_core.write.snapshots import ShardSnapshots, closing


class Shard:
    """One shard's writer; also answers reads of what it has committed. Any thread may call it."""

    def __init__(self, context: ShardContext, options: StreamOptions, opened: OpenedShard) -> None:
        self.context = context
        self.options = options
        self._opened = opened
        self._store = opened.store
        assert opened.state.ledger is not None, "a shard that is opened has a ledger"
        self.transactions = ShardTransactions(
            opened.state.ledger, opened.store.get_many, context.is_needed
        )
        wait_max_s = options.wait_max.total_seconds()
        self.guard = ShardGuard(context.meta.name, context.number, wait_max_s)
        self.commit_path = CommitPath(context, options, opened, self.guard)
        self.index = self.commit_path.index
        self.snapshots = ShardSnapshots(
            context,
            opened,
            self.guard,
            lambda: self.commit_path.progress,
            lambda: self.index.has_entries,
        )
        self.maintenance = MaintenanceState()
        self._builder = self.commit_path.builder
        self._interval = self.commit_path.interval

    # --- writing ---------------------------------------------------------------------------

    def add(self, primary: int, secondary: int, payload: bytes | None, version: int) -> None:
        """Take one record; a full block is written by itself while the caller waits."""
        with self.guard.append_lock:
            if self._builder.add(primary, secondary, payload, version):
                self._flush()
        if self._interval.is_on:
            self.commit_if_due()

    def append(self, entry: Entry) -> AppendReport:
        """Write a batch behind all records added before it."""
        with self.guard.append_lock:
            self._flush()
            tail = self.tail.next
            if entry.first_address(tail) < tail:
                with closing(self.snapshots.committed(), self.note_lost) as view:
                    entry = new_part(entry, view, tail)
            report = self.commit_path.run(entry, durable=False)
        self.commit_if_due()
        return report

    def judge(self, rows: Rows) -> npt.NDArray[np.uint8]:
        """Return the states that rows would get if they were appended now; nothing is written."""
        with self.guard.append_lock:
            self._flush()
            return self.commit_path.judge(rows)

    def plan(self, rows: Rows) -> Plan:
        """Return a batch ready for the commit path, behind all records added before it.

        The caller holds the append lock from here until it is written.
        """
        self._flush()
        return self.commit_path.plan(rows)

    def commit(self) -> int:
        """Make everything taken so far durable and return committed."""
        with self.guard.append_lock:
            self._flush()
        if self._interval.is_on and self.commit_path.is_behind(self.commit_path.progress.batches):
            # Under no lock. Whoever syncs meanwhile begins behind what the caller wrote.
            self._interval.await_end()
        self.commit_path.run(None, durable=True)
        return self.committed()

    @property
    def needs_commit(self) -> bool:
        """Tell whether something was taken that may not be durable, or not visible yet."""
        # IMPORTANT: in this order; what leaves the builder stands in the batches before.
        return (
            not self.guard.is_usable
            or len(self._builder) > 0
            or self.commit_path.is_behind(self.commit_path.progress.batches)
        )

    def discard_builder(self) -> None:
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
        if self.commit_path.is_holding_back or not lock.take_if_free():
            return
        try:
            # The rows are taken, whatever others have done to the shard since.
            if self.guard.is_usable and interval.is_over:
                self.commit_path.run(None, durable=True)
        finally:
            lock.release()

    def publish_at_end(self, write: Callable[[], None]) -> None:
        """Commit what stands before; show what `write` writes only once all of it is in.

        The caller holds the append lock. If it fails with a part written, the shard is poisoned.
        """
        self._flush()
        if self.transactions.unfinished() is None:
            self.commit_path.run(None, durable=True)
        self.commit_path.hold_back(write)
        self.commit_path.run(None, durable=True)

    def accept_loss(self, start: int, end: int) -> None:
        """Give up the lost ranges in [start, end); reads pass over them from then on.

        Raises:
            InvalidRequestError: It holds no lost range, or only a part of one.
        """
        with self.guard.appending():
            change = accepted_loss(self.commit_path.progress.state, start, end, self.context.number)
            with self.guard.committing():
                self.commit_path.write_loss(change)

    def skip(self, end: int, source: Source | None) -> None:
        """Move the tail to an end; the source no longer has what lies between. Durable on return.

        Raises:
            InvalidRequestError: The tail lies above the end.
        """
        with self.guard.appending():
            self._flush()
            tail = self.tail.next
            if end < tail:
                message = f"cannot skip to {end}: the shard is at {tail}"
                raise InvalidRequestError(
                    message, stream=self.context.meta.name, shard=self.context.number
                )
            if end > tail or source is not None:
                self.commit_path.run(Entry(None, source=source, passes_to=end), durable=False)
        self.commit_path.run(None, durable=True)

    def clear_dead_letters(self, addresses: Sequence[int], outcome: DeadLetterOutcome) -> int:
        """Let dead letters go, counted by what became of them; durable on return.

        Those that are gone already are let be, and not counted again.
        """
        with self.guard.appending():
            values = self._store.get_many([dead_letter_key(address) for address in addresses])
            present = tuple(
                address for address, raw in zip(addresses, values, strict=True) if raw is not None
            )
            if present:
                self.commit_path.run(Entry(None, cleared=present, outcome=outcome), durable=False)
        if present:
            self.commit_path.run(None, durable=True)
        return len(present)

    def attachments(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return what lies under keys of attachments, written or committed; None for nothing."""
        with self.guard.appending():
            return self._store.get_many(list(keys))

    def clear_attachments(self, start: bytes, end: bytes) -> None:
        """Delete the attachments from one of their keys to before another."""
        with self.guard.appending():
            self._flush()
            self.commit_path.run(Entry(None, attachments_cleared=(start, end)), durable=False)

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
        self.guard.end(self._commit_and_release)

    def abandon(self) -> None:
        """Let go of everything without committing, once no other call is inside.

        Raises:
            UnavailableError: Another call holds the shard; it is still open.
        """
        self.guard.end(self._release)

    # --- reading ---------------------------------------------------------------------------

    def committed(self) -> int:
        """Return the exclusive end of what is durable and shown."""
        return self.commit_path.committed()

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
        with closing(self.snapshots.asked_for(routed), self.note_lost) as view:
            if view.state.tail.counters.strays and not strays:
                # The shard's first strays came in between; their ids are left out of what is asked.
                yield from self.scan(request)
                return
            for batch, _ in scan_snapshot(view, routed):
                yield batch

    def state(self) -> ShardFacts:
        """Return what the shard says of itself; its rows may not be committed yet."""
        # IMPORTANT: committed first; the standing then holds all that it covers.
        committed = self.committed()
        state = replace(self.commit_path.progress.state, index=self.index.counts())
        return ShardFacts.of(state, committed)

    def dead_letters(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield the committed dead letters of a range by address."""
        with closing(self.snapshots.committed(), self.note_lost) as view:
            yield from view.committed_dead_letters(start, end)

    def schemas(self, registry_id: int | None = None) -> tuple[SchemaEntry, ...]:
        """Return the schemas that rows have or had, written or committed."""
        with closing(self.snapshots.committed(), self.note_lost) as view:
            return tuple(schemas_in(view, registry_id))

    def parts(self) -> ShardParts:
        """Return the parts of the shard, and up to where its rows are in them."""
        with closing(self.snapshots.committed(), self.note_lost) as view:
            return parts_in(view)

    def note_lost(self, blocks: Iterable[AddressRange], *, with_parts: bool = False) -> None:
        """Record the ranges of blocks that cannot be read, so that they are told from now on.

        Those that were trimmed only where parts cannot stand for them: a view of before the trim
        reads bytes of theirs that nobody needs.
        """
        for block in blocks:
            # A read does not wait for others to record what the next one finds again.
            self.guard.unless_busy(
                partial(self.commit_path.note_block, block, with_parts=with_parts)
            )

    def alter(self, options: StreamOptions) -> None:
        """Take over changed options."""
        with self.guard.appending():
            self.options = options
            self.commit_path.alter(options)
            self.guard.wait_max_s = options.wait_max.total_seconds()

    @property
    def tail(self) -> Tail:
        """Where writing stands, and the counters."""
        return self.commit_path.progress.state.tail

    # --- inside ----------------------------------------------------------------------------

    def _flush(self) -> None:
        if len(self._builder):
            if not self.commit_path.addresses_left:
                # The record that was just added; there can be no other.
                self._builder.clear()
                raise no_address_left(self.context.meta.name, self.context.number)
            self.commit_path.run(Entry(self._builder.rows(), is_from_builder=True), durable=False)

    def _commit_and_release(self) -> None:
        if self.guard.is_usable:
            try:
                self._flush()
                if self.commit_path.progress.state.floor > self.commit_path.floor_written:
                    self.commit_path.run(Entry(None), durable=False)
                self.commit_path.run(None, durable=True)
            except (ShardlogError, OSError):
                self._release()
                raise
        self._release()

    def _release(self) -> None:
        self.guard.close()
        # IMPORTANT: before the store; no entry is being written once it closes.
        self.index.stop()
        self._opened.close(is_poisoned=self.guard.poison is not None)

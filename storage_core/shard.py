"""A shard open for writing: one ordered log with one writer.

`Shard.commit_path` is the only way rows become durable; everything that must be atomic with
them goes through it. Two locks: the append lock guards what is written (builder, tail, heads,
windows), the commit lock guards the sync and the marker. A thread that holds the commit lock
never takes the append lock; waits for either are bounded.

After a failed durable write nobody knows what the disk holds: the shard is poisoned and
refuses all work until it is reopened.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from storage_core.block import BlockPlace
from storage_core.block_builder import RecordBuilder
from storage_core.clock import Clock
from storage_core.directory_lock import DirectoryLock
from storage_core.draft import AppendReport, Draft, Entry, ShardWriting
from storage_core.environment import Environment
from storage_core.errors import (
    ClosedError,
    CorruptionError,
    InvalidRequestError,
    LostRangeError,
    ShardlogError,
    ShardPoisonedError,
    UnavailableError,
)
from storage_core.extents import count_stored
from storage_core.heads import Heads, Int32s
from storage_core.marker import MarkerWriter
from storage_core.options import StreamOptions
from storage_core.read_request import ReadRequest
from storage_core.record import Rows
from storage_core.rocks import Batch, KeyValueStore
from storage_core.scan_shard import all_heads, scan_view
from storage_core.shard_heads import ShardHeads
from storage_core.shard_state import (
    AddressRange,
    ShardState,
    Tail,
    TransactionProgress,
    encode_progress,
    encode_range_end,
    gap_key,
    lost_key,
    transaction_key,
)
from storage_core.shard_view import ShardBounds, ShardView
from storage_core.stream_file import StreamMeta


@dataclass(frozen=True, slots=True)
class ShardContext:
    """What a shard is told about itself."""

    number: int
    directory: Path
    meta: StreamMeta
    lineage: bytes
    environment: Environment

    @property
    def place(self) -> BlockPlace:
        """Where its blocks belong."""
        return BlockPlace(self.lineage, self.number)


@dataclass(frozen=True, slots=True)
class OpenedShard:
    """What recovery hands over."""

    lock: DirectoryLock
    store: KeyValueStore
    marker: MarkerWriter
    state: ShardState
    tail: Tail
    publishable: int
    heads: ShardHeads
    clock: Clock


class Shard:
    """One shard's writer; also answers reads of what it has committed."""

    def __init__(self, context: ShardContext, options: StreamOptions, opened: OpenedShard) -> None:
        """Take over a recovered shard."""
        self.context = context
        self.options = options
        self._lock = opened.lock
        self._store = opened.store
        self._marker = opened.marker
        self._heads = opened.heads
        self._state = opened.state
        self._lost = opened.state.lost
        self._gaps = opened.state.gaps
        self._transactions = dict(opened.state.transactions)
        self._writing = ShardWriting(context.place, context.meta, opened)
        self._builder = RecordBuilder(options)
        self._append_lock = threading.RLock()
        self._commit_lock = threading.Lock()
        self._publishable = opened.publishable
        self._holds_publishing = False
        self._synced_at_s = context.environment.clock.monotonic_s()
        self._poison: BaseException | None = None
        self._is_closed = False

    # --- writing ---------------------------------------------------------------------------

    def commit_path(self, entry: Entry | None, *, durable: bool) -> AppendReport:
        """Write rows and what belongs to them; make all that was written durable.

        1. Route: give each row its state by the heads, the floor and the clock.
        2. Build: blocks, zones, late rows, windows, heads, counters, attachments, the tail.
        3. Write: one WriteBatch, not yet durable. Nothing of it is visible.
        4. Sync: take the value of the tail, then sync the WAL; one sync serves all that wait.
        5. Publish: write the marker with the value taken before the sync, durably.
        6. Acknowledge: callers return, readers see rows up to the marker.

        Without `durable` it stops after step 3. A failure in 1 or 2 changes nothing; a failure
        from 3 on poisons the shard, and a reopen finds out what is there.

        Raises:
            ShardPoisonedError: A durable write failed, now or before.
            UnavailableError: Another call held the shard for too long.
        """
        report = AppendReport()
        with self._appending():
            if entry is not None:
                routed = self._writing.route(entry, self.options)  # 1
                draft = self._writing.build(routed, self.options)  # 2
                self._write(draft)  # 3
                report = draft.report
            wanted = self._publishable
        if durable:
            with self._committing(wanted) as is_needed:
                if is_needed:
                    # IMPORTANT: the tail is taken before the sync; rows written during the
                    # sync may not be durable and must not be published.
                    durable_end = self._publishable
                    self._store.sync()  # 4
                    self._marker.publish(durable_end)  # 5
                    self._heads.published(durable_end)  # 6
        return report

    def add(self, primary: int, secondary: int, payload: bytes | None, version: int) -> None:
        """Take one record; a full block is written by itself while the caller waits."""
        lock = self._append_lock
        if not lock.acquire(blocking=False):
            self._wait_for(lock, "append")
        try:
            if self._is_closed or self._poison is not None:
                self._refuse_if_unusable()
            if self._builder.add(primary, secondary, payload, version):
                self._seal()
        finally:
            lock.release()
        if self.options.sync == "interval":
            self._commit_if_due()

    def append(self, entry: Entry) -> AppendReport:
        """Write a batch behind all records added before it."""
        with self._appending():
            self._seal()
            report = self.commit_path(self._new_part(entry), durable=False)
        if self.options.sync == "interval":
            self._commit_if_due()
        return report

    def commit(self) -> int:
        """Make everything taken so far durable and return committed."""
        with self._appending():
            self._seal()
        self.commit_path(None, durable=True)
        return self._marker.state.committed

    def discard_unsealed(self) -> None:
        """Forget the records that have not been written."""
        with self._append_lock:
            self._builder.clear()

    def append_transaction(
        self, transaction: str, rows_total: int, batches: Iterator[Rows]
    ) -> None:
        """Append a staged transaction's rows, all visible at once, going on where it stopped.

        Raises:
            InvalidRequestError: The shard knows the transaction with another number of rows.
        """
        with self._appending():
            progress = self._transactions.get(transaction, TransactionProgress(0, -1))
            if progress.is_done:
                return
            if progress.rows_total not in (-1, rows_total):
                message = f"transaction {transaction!r} has {progress.rows_total} rows here"
                raise InvalidRequestError(message, shard=self.context.number)
            if progress.rows_done == 0:
                self.commit()
            begin = self._writing.tail.next
            self._holds_publishing = True
            try:
                self._append_staged(transaction, progress.rows_done, rows_total, batches)
            except BaseException as error:
                # Part of it may be written; only an opener can go on from there.
                self._poison = error if self._writing.tail.next != begin else self._poison
                raise
            finally:
                self._holds_publishing = False
            self._publishable = self._writing.tail.next
            self.commit_path(None, durable=True)

    def accept_loss(self, start: int, end: int) -> None:
        """Give up lost addresses by name; reads pass over them from then on.

        Raises:
            InvalidRequestError: The range is not wholly lost.
        """
        with self._appending():
            covering = [lost for lost in self._lost if lost.start <= start and end <= lost.end]
            if start >= end or not covering:
                known = [(lost.start, lost.end) for lost in self._lost]
                message = f"addresses [{start}, {end}) are not a lost range; lost are {known}"
                raise InvalidRequestError(message, shard=self.context.number)
            (lost,) = covering
            batch = Batch()
            batch.delete(lost_key(lost.start))
            rest = [AddressRange(lost.start, start), AddressRange(end, lost.end)]
            left = [part for part in rest if part.start < part.end]
            for part in left:
                batch.put(lost_key(part.start), encode_range_end(part.end))
            batch.put(gap_key(start), encode_range_end(end, "accepted"))
            with self._poisoning():
                self._store.write(batch)
                self._store.sync()
            kept = [known for known in self._lost if known != lost]
            self._lost = tuple(sorted([*kept, *left]))
            self._gaps = tuple(sorted([*self._gaps, AddressRange(start, end)]))

    def close(self) -> None:
        """Commit, unless poisoned, and let go of everything; a second call does nothing."""
        if self._is_closed:
            return
        try:
            if self._poison is None:
                self.commit()
        finally:
            self._is_closed = True
            self._release()

    def abandon(self) -> None:
        """Let go of everything without committing."""
        if not self._is_closed:
            self._is_closed = True
            self._release()

    # --- reading ---------------------------------------------------------------------------

    def committed(self) -> int:
        """Return the exclusive end of what is durable and shown."""
        return self._marker.state.committed

    def scan(self, request: ReadRequest) -> Iterator[pa.RecordBatch]:
        """Yield the rows asked for; a block found unreadable is recorded as lost.

        Raises:
            LostRangeError: Acknowledged rows in the range are gone.
        """
        view = self.view()
        try:
            for batch, _ in scan_view(view, request):
                yield batch
        except LostRangeError:
            raise
        except CorruptionError as error:
            self.note_lost(error)
            raise
        finally:
            view.close()

    def view(self) -> ShardView:
        """Return the shard at this moment."""
        self._refuse_if_closed()
        # IMPORTANT: committed before the view, so that all it covers is in the view.
        committed = self._marker.state.committed
        tail = self._writing.tail
        store = self._store.view()
        bounds = ShardBounds(
            self._state.start,
            committed,
            min(tail.blocks_end, committed),
            self._state.floor,
            self._lost,
            self._gaps,
            tail.counters.strays,
        )
        return ShardView(
            self.context.place, self.context.meta, bounds, store, self._committed_heads
        )

    def note_lost(self, error: CorruptionError) -> None:
        """Record the range of a block that cannot be read, so that it is told from now on."""
        if error.start is None or error.end is None or isinstance(error, LostRangeError):
            return
        with self._append_lock:
            if self._poison is not None or self._is_closed:
                return
            found = AddressRange(error.start, error.end)
            if any(lost.start <= found.start and found.end <= lost.end for lost in self._lost):
                return
            batch = Batch()
            batch.put(lost_key(found.start), encode_range_end(found.end, str(error)))
            with self._poisoning():
                self._store.write(batch)
                self._store.sync()
            self._lost = tuple(sorted([*self._lost, found]))

    @property
    def tail(self) -> Tail:
        """Where writing stands, and the counters."""
        return self._writing.tail

    @property
    def lost(self) -> tuple[AddressRange, ...]:
        """The ranges that were acknowledged and are gone."""
        return self._lost

    @property
    def source(self) -> Mapping[str, object] | None:
        """Where the source of the rows stands, as of the last row written."""
        return self._writing.source

    @property
    def store(self) -> KeyValueStore:
        """The shard's store."""
        return self._store

    @property
    def generation(self) -> int:
        """Which opening for writing this is."""
        return self._marker.state.generation

    def transaction_progress(self, transaction: str) -> TransactionProgress | None:
        """Return how far a transaction has come here, None if it is unknown."""
        return self._transactions.get(transaction)

    def unfinished_transactions(self) -> list[str]:
        """Return the transactions of which only a part is written."""
        return [name for name, at in self._transactions.items() if not at.is_done]

    # --- inside ----------------------------------------------------------------------------

    def _seal(self) -> None:
        if len(self._builder):
            self.commit_path(Entry(self._builder.rows()), durable=False)
            self._builder.clear()

    def _write(self, draft: Draft) -> None:
        with self._poisoning():
            self._store.write(draft.batch)
        self._writing.accept(draft)
        if not self._holds_publishing:
            self._publishable = draft.tail.next

    def _append_staged(
        self, transaction: str, rows_done: int, rows_total: int, batches: Iterator[Rows]
    ) -> None:
        if rows_total == 0:
            self._append_progress(transaction, None, TransactionProgress(0, 0))
        passed = 0
        for rows in batches:
            skipped = max(0, min(len(rows), rows_done - passed))
            passed += len(rows)
            if skipped < len(rows):
                progress = TransactionProgress(passed, rows_total)
                self._append_progress(transaction, rows.slice(skipped, len(rows)), progress)

    def _append_progress(
        self, transaction: str, rows: Rows | None, progress: TransactionProgress
    ) -> None:
        attachment = ("default", transaction_key(transaction), encode_progress(progress))
        self.commit_path(Entry(rows, attachments=(attachment,)), durable=False)
        self._transactions[transaction] = progress

    def _new_part(self, entry: Entry) -> Entry:
        """Return an entry without the rows that are stored already."""
        addresses, tail = entry.addresses, self._writing.tail.next
        if addresses is None or not len(addresses) or int(addresses[0]) >= tail:
            return entry
        view = self.view()
        try:
            return entry.without_stored(count_stored(view, addresses, tail))
        finally:
            view.close()

    def _commit_if_due(self) -> None:
        clock = self.context.environment.clock
        due = self._synced_at_s + self.options.sync_interval.total_seconds()
        if clock.monotonic_s() >= due and not self._holds_publishing:
            self.commit_path(None, durable=True)

    def _committed_heads(self, view: ShardView, ids: Int32s | None) -> Heads:
        if ids is not None:
            return self._heads.committed_for(ids)
        return all_heads(view, self._heads.committed_in_memory())

    @contextmanager
    def _appending(self) -> Iterator[None]:
        self._wait_for(self._append_lock, "append")
        try:
            self._refuse_if_unusable()
            yield
        finally:
            self._append_lock.release()

    @contextmanager
    def _committing(self, wanted: int) -> Iterator[bool]:
        """Hold the commit lock; yield whether `wanted` is not published yet."""
        self._wait_for(self._commit_lock, "commit")
        try:
            self._refuse_if_unusable()
            if self._marker.state.committed >= wanted:
                yield False
                return
            clock = self.context.environment.clock
            if self.options.sync == "interval":
                due = self._synced_at_s + self.options.sync_interval.total_seconds()
                clock.sleep(max(0.0, due - clock.monotonic_s()))
            with self._poisoning():
                yield True
            self._synced_at_s = clock.monotonic_s()
        finally:
            self._commit_lock.release()

    def _wait_for(self, lock: "threading.Lock | threading.RLock", purpose: str) -> None:  # type: ignore[valid-type]  # RLock is a function to mypy
        if not lock.acquire(timeout=self.options.wait_max.total_seconds()):
            message = f"waited {self.options.wait_max} to {purpose}; another call holds the shard"
            raise UnavailableError(
                message, stream=self.context.meta.name, shard=self.context.number
            )

    @contextmanager
    def _poisoning(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self._poison = error
            if isinstance(error, ShardlogError | OSError):
                raise self._poisoned(error) from error
            raise

    def _poisoned(self, error: BaseException) -> ShardPoisonedError:
        message = f"a durable write failed: {error}; reopen the stream to recover"
        return ShardPoisonedError(message, stream=self.context.meta.name, shard=self.context.number)

    def _refuse_if_unusable(self) -> None:
        self._refuse_if_closed()
        if self._poison is not None:
            raise self._poisoned(self._poison) from self._poison

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            message = "the shard is closed"
            raise ClosedError(message, stream=self.context.meta.name, shard=self.context.number)

    def _release(self) -> None:
        try:
            self._store.close()
        except ShardlogError:
            # A poisoned store reports its old failure again; the caller was told.
            if self._poison is None:
                raise
        finally:
            self._marker.close()
            self._lock.release()

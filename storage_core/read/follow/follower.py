"""A shard followed from another process, beside its writer.

It reads through a RocksDB secondary instance, whose directory is private and temporary. What
a secondary may and may not be trusted with decides the order here:

* the marker is read first, then the instance catches up twice: one catch-up can miss a WAL
  that was flushed meanwhile, and leaves a hole without an error;
* all iterators of a scan are opened together, with no catch-up between them;
* where that left a hole nonetheless, as a log that was cut does, the end of the chain of zones is
  proven before anything is asked (near_end.py);
* the generation is compared before and after; a new one means a new writer, and the old
  instance would go on showing what that one has dropped, so it is opened anew; so it is where
  another marker was put in the place of the one read before;
* zones form a chain and the tail names its end: a hole shows as a break, and leads to another
  catch-up, then to a new instance, and only after a bounded time to an error, never to rows.

Everything is clipped to the marker. Any thread may scan; one at a time refreshes.

A shard of which nothing was ever committed is empty whatever its store looks like: the first
writer may be about to make it, or may have died over it.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa

from storage_core.catalog.stream_file import StreamFiles
from storage_core.engine import stores
from storage_core.engine.commit_marker import MARKER_FILE, MarkerReader
from storage_core.engine.key_value import EmptyStoreSnapshot, StoreSnapshot
from storage_core.engine.open_files import READER_FILES, open_files
from storage_core.engine.private_directory import PrivateDirectory
from storage_core.errors import (
    ClosedError,
    CorruptionError,
    ForeignDataError,
    LostRangeError,
    ShardlogError,
    UnavailableError,
)
from storage_core.format.block import BlockPlace
from storage_core.format.keys import FAMILY_DEFAULT
from storage_core.format.marker_slot import MarkerState
from storage_core.format.part_entry import ShardParts
from storage_core.format.schema_entry import SchemaEntry
from storage_core.format.shard_state import STATE_RANGE, ShardState, decode_state
from storage_core.parts.snapshot import parts_in
from storage_core.platform.clock import Clock
from storage_core.platform.durable_file import reading_errors
from storage_core.platform.fork_guard import Home
from storage_core.read.answer import resumed, scan_snapshot, trimmed_rows_of
from storage_core.read.follow.followed_heads import FollowedHeads
from storage_core.read.follow.near_end import bytes_in_logs, files_of, log_sizes, prove_near_end
from storage_core.read.request import ReadRequest
from storage_core.read.schema_columns import schemas_in
from storage_core.read.shard_reader import ShardFacts
from storage_core.read.snapshot import ShardSnapshot

if TYPE_CHECKING:
    from storage_core.engine.rocksdb import RocksDbStore

_T = TypeVar("_T")
_TRIES_MAX: Final = 40
_TRIES_AT_ONCE: Final = 2
_RETRY_PAUSE_S: Final = 0.05
# NOTE: rocksdict (0.3.29) writes its own configuration beside the store at every opening, also when
# it opens one that another process writes.


@dataclass(slots=True)
class _Tries:
    """How often taking or reading a snapshot failed since one last answered."""

    failed: int = 0


class ShardFollower:
    """Answers reads of one shard that another process may be writing."""

    def __init__(self, files: StreamFiles, shard: int, clock: Clock) -> None:
        """Open the marker; the store follows when first needed."""
        self._meta = files.meta
        self._refuse_if_replaced = partial(files.refuse_if_replaced, shard)
        self._directory = files.shard_directory(shard)
        self._trimmed_rows_of = trimmed_rows_of(self._directory)
        self._place = BlockPlace(files.settings.lineages[shard], shard)
        self._born = files.born(shard)
        self._clock = clock
        try:
            self._marker = MarkerReader(self._directory / MARKER_FILE, clock)
        except ShardlogError as error:
            raise error.placed(files.meta.name, shard) from error
        self._lock = threading.Lock()
        self._store: RocksDbStore | None = None
        self._private: PrivateDirectory | None = None
        self._last_marker: MarkerState | None = None
        self._caught_up: MarkerState | None = None
        self._logs: dict[str, int] = {}
        self._proven: int | None = None
        self._tables = 0
        self._tables_counted_ns = 0
        self._marker_file = self._marker.file
        self._heads = FollowedHeads()
        self._is_closed = False
        self._stores = 0
        self._home = Home(files.meta.name, shard)

    @property
    def instance(self) -> int:
        """How often the store was left for a newer one.

        Rows read before the last time may be gone since, and their addresses be those of others: a
        new generation of the writer's, or a copy that was put in the place of the files, says so.
        """
        return self._stores

    def committed(self) -> int:
        """Return the exclusive end of the rows that reads return, by one reading of the marker."""
        return self._read_marker().committed

    def refresh(self) -> int:
        """Follow the writer to about now and return committed."""
        snapshot = self._snapshot()
        snapshot.close()
        return snapshot.committed

    def state(self) -> ShardFacts:
        """Follow the writer to about now and return what it says of the shard.

        It says so too where rows are gone that nobody knows as lost.
        """
        snapshot = self._snapshot(proves_end=False)
        snapshot.close()
        return ShardFacts.of(snapshot.state, snapshot.committed)

    def dead_letters(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield the committed dead letters of a range by address."""
        snapshot = self._snapshot()
        with closing(snapshot):
            yield from snapshot.committed_dead_letters(start, end)

    def expired(self, start: int, end: int, since: int) -> list[tuple[int, int]]:
        """Return the ranges whose blocks expired behind one that has not, after a generation."""
        zones = self.ask(lambda snapshot: list(snapshot.expired(start, end)))
        return [(zone.first, zone.end) for zone in zones if zone.gone_since > since]

    def schemas(self, registry_id: int | None = None) -> tuple[SchemaEntry, ...]:
        """Return the schemas that rows have or had, or those of an id, as they came."""
        return self.ask(lambda snapshot: tuple(schemas_in(snapshot, registry_id)))

    def parts(self) -> ShardParts:
        """Return the parts of the shard, and up to where its rows are in them."""
        return self.ask(parts_in)

    def ask(self, question: Callable[[ShardSnapshot], _T]) -> _T:
        """Return what a snapshot answers; one with a hole is replaced, and asked anew."""
        tries = _Tries()
        while True:
            snapshot = self._snapshot(tries)
            with closing(snapshot):
                try:
                    return question(snapshot)
                except CorruptionError as error:
                    tries.failed += 1
                    if tries.failed >= _TRIES_MAX:
                        raise self._placed(error) from error
                except UnavailableError as error:
                    raise self._placed(error) from error

    def snapshot(self) -> ShardSnapshot:
        """Return a snapshot that reaches the marker, whatever it lacks; who takes it closes it."""
        return self._snapshot(proves_end=False)

    def scan(self, request: ReadRequest) -> Iterator[pa.RecordBatch]:
        """Yield the rows asked for; a snapshot with a hole is replaced, and the scan goes on.

        Raises:
            LostRangeError: Acknowledged rows in the range are gone.
            CorruptionError: The hole did not go away in bounded time.
        """
        tries = _Tries()
        reached: int | None = None
        while True:
            snapshot = self._snapshot(tries)
            if request.end_address is None:
                # A scan that starts over still shows one snapshot.
                committed = max(snapshot.committed, request.start_address or 0)
                request = replace(request, end_address=committed)
            try:
                for batch, end in scan_snapshot(snapshot, request):
                    yield batch
                    reached, tries.failed = end, 0
            except LostRangeError:
                raise
            except CorruptionError:
                if reached is not None:
                    rest = resumed(request, reached)
                    if rest is None:
                        return
                    request, reached = rest, None
                tries.failed += 1
                if tries.failed >= _TRIES_MAX:
                    raise
            else:
                return
            finally:
                snapshot.close()

    def close(self) -> None:
        """Close everything; a second call closes what an interrupted one has left."""
        self._home.refuse_elsewhere()
        with self._lock:
            self._is_closed = True
            self._close_store()
            self._marker.close()

    # --- inside ----------------------------------------------------------------------------

    def _read_marker(self) -> MarkerState:
        """Read the marker and hold it to what it said before."""
        self._home.refuse_elsewhere()
        if self._is_closed:
            message = "the reader is closed"
            raise ClosedError(message, stream=self._meta.name, shard=self._place.shard)
        # IMPORTANT: in this order; another thread may see a newer state in between.
        last = self._last_marker
        try:
            state = self._marker.read()
        except ShardlogError as error:
            if isinstance(error, CorruptionError):
                self._refuse_if_replaced()
            raise self._placed(error) from error
        if state.lineage != self._place.lineage:
            message = "the marker belongs to another lineage; the shard was made anew or replaced"
            raise self._foreign(message)
        if last is not None and _went_back(last, state):
            raise self._set_back(state, last.committed)
        last = self._last_marker
        if last is None or _age(state) > _age(last):
            self._last_marker = state
        return state

    def _set_back(self, state: MarkerState, committed: int) -> CorruptionError:
        message = "the marker went back; the shard was replaced under this reader"
        return CorruptionError(
            message,
            stream=self._meta.name,
            shard=self._place.shard,
            start=state.committed,
            end=committed,
            path=self._directory / MARKER_FILE,
        )

    def _placed(self, error: ShardlogError) -> ShardlogError:
        """Return an error with the stream and the shard, which what reads a file does not know."""
        return error.placed(self._meta.name, self._place.shard)

    def _foreign(self, message: str) -> ForeignDataError:
        return ForeignDataError(
            message, stream=self._meta.name, shard=self._place.shard, path=self._directory
        )

    def _snapshot(self, tries: _Tries | None = None, *, proves_end: bool = True) -> ShardSnapshot:
        """Return a snapshot that reaches the marker.

        A snapshot that does not reach it, now or before, is followed by a
        stronger try: another catch-up, another instance, and then time for the writer.
        """
        tries = tries or _Tries()
        while tries.failed < _TRIES_MAX:
            if tries.failed > _TRIES_AT_ONCE:
                self._clock.sleep(_RETRY_PAUSE_S)
            self._home.refuse_elsewhere()
            with self._lock:
                if tries.failed:
                    self._caught_up = None
                if tries.failed > 1:
                    self._close_store()
                self._require_files()
                is_last = tries.failed == _TRIES_MAX - 1
                snapshot = self._try_to_snapshot(is_last=is_last, proves_end=proves_end)
            if snapshot is not None:
                return snapshot
            tries.failed += 1
        marker = self._read_marker()
        message = (
            "the store does not reach what the marker says is committed; "
            "opening the shard for writing tells what is lost"
        )
        raise CorruptionError(
            message,
            stream=self._meta.name,
            shard=self._place.shard,
            start=0,
            end=marker.committed,
            path=self._directory / "db",
        )

    def _try_to_snapshot(self, *, is_last: bool, proves_end: bool) -> ShardSnapshot | None:
        """Return a snapshot that reaches the marker, or None if it does not."""
        try:
            if self._store is None and not self._has_store():
                marker = self._read_marker()
                if marker.committed == self._born:
                    return self._empty_snapshot(marker)
            return self._snapshot_of_store(proves_end=proves_end)
        except (CorruptionError, UnavailableError) as error:
            last = self._last_marker
            if last is not None and last.committed == self._born:
                self._close_store()
                return self._empty_snapshot(last)
            # A file that the writer cleared away meanwhile looks like damage for a moment.
            if is_last:
                raise self._placed(error) from error
            return None

    def _has_store(self) -> bool:
        with reading_errors(self._directory / "db", "looking for a store"):
            return (self._directory / "db" / "CURRENT").exists()

    def _empty_snapshot(self, marker: MarkerState) -> ShardSnapshot:
        unborn = ShardState.unborn(self._born)
        return self._shard_snapshot(unborn, marker.committed, None, EmptyStoreSnapshot())

    def _snapshot_of_store(self, *, proves_end: bool) -> ShardSnapshot | None:
        # IMPORTANT: marker, then two catch-ups, then the snapshot, then the marker again.
        before = self._read_marker()
        is_same = self._caught_up is not None and self._caught_up.generation == before.generation
        if not is_same or self._marker_file != self._marker.file:
            self._close_store()
        self._marker_file = self._marker.file
        store = self._opened_store()
        if self._caught_up is None or self._caught_up.sequence != before.sequence:
            store.catch_up()
            store.catch_up()
        view = store.snapshot()
        is_good = False
        try:
            entries = list(view.items(FAMILY_DEFAULT, *STATE_RANGE))
            state = decode_state(entries, self._place.shard, self._born)
            self._refuse_foreign(state)
            is_good = before.committed <= state.tail.next
            after = self._read_marker()
            is_good = is_good and after.generation == before.generation
            if is_good and after.committed < state.heads_through:
                is_good = False
                raise self._set_back(after, state.heads_through)
        finally:
            if not is_good:
                view.close()
        if not is_good:
            return None
        # Heads on disk are of no row above the marker: where they end, it has been since.
        committed = max(before.committed, state.heads_through)
        self._caught_up = before
        snapshot = self._shard_snapshot(state, committed, store, view)
        if proves_end:
            self._prove_end(snapshot)
        return snapshot

    def _prove_end(self, snapshot: ShardSnapshot) -> None:
        if snapshot.state.tail.blocks_end == self._proven:
            return
        log_bytes = 0
        if self._proven is None:
            log_bytes = bytes_in_logs(self._logs, log_sizes(self._directory / "db"))
        try:
            self._proven = prove_near_end(snapshot, self._proven, log_bytes)
        except BaseException:
            snapshot.close()
            raise

    def _refuse_foreign(self, state: ShardState) -> None:
        if state.lineage is not None and state.lineage != self._place.lineage:
            message = "the store belongs to another lineage"
            raise self._foreign(message)

    def _shard_snapshot(
        self, state: ShardState, committed: int, store: "RocksDbStore | None", view: StoreSnapshot
    ) -> ShardSnapshot:
        heads_for = partial(self._heads.as_of, store, state.heads_through)
        return ShardSnapshot(
            self._place, self._meta, state, committed, view, self._trimmed_rows_of, heads_for
        )

    def _require_files(self) -> None:
        """Refuse what this process may not open as many files for; a reader needs them all."""
        try:
            changed_ns = (self._directory / "db").stat().st_mtime_ns
        except FileNotFoundError:
            # Nothing was written yet; reading the marker raises if something should be there.
            return
        if self._store is not None and changed_ns == self._tables_counted_ns:
            return
        tables = len(files_of(self._directory / "db", "*.sst"))
        require = partial(
            open_files().require_for_reader, stream=self._meta.name, shard=self._place.shard
        )
        if self._store is None:
            require(tables + READER_FILES, f"{tables} files to read")
        elif (more := tables - self._tables) > 0:
            require(more, f"{more} more files to read")
        self._tables, self._tables_counted_ns = tables, changed_ns

    def _opened_store(self) -> "RocksDbStore":
        if self._store is None:
            self._private = PrivateDirectory(self._clock)
            self._logs = log_sizes(self._directory / "db")
            try:
                self._store = stores.open_secondary(self._directory / "db", self._private.path)
            except BaseException:
                self._close_store()
                raise
            self._caught_up = None
        return self._store

    def _close_store(self) -> None:
        self._caught_up = None
        self._proven = None
        self._heads.forget()
        self._stores += 1
        if self._store is not None and self._is_closed:
            # Until then scans keep the instance they began with; it goes with the last.
            self._store.close()
        self._store = None
        if self._private is not None:
            self._private.remove()
        self._private = None


def _age(state: MarkerState) -> tuple[int, int]:
    """Return what rises with each writing of a marker."""
    return (state.generation, state.sequence)


def _went_back(last: MarkerState, state: MarkerState) -> bool:
    """Tell whether a marker says less than it did; a new generation may take rows back."""
    is_same_writer = state.generation == last.generation
    return _age(state) < _age(last) or (is_same_writer and state.committed < last.committed)

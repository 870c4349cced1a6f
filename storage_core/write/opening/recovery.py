"""Opening a shard for writing: from whatever a crash left to a state that can be trusted.

1. Lock the directory; then ask whoever opens it whether it still wants to.
2. Raise the generation in the marker, if it is this log's, so that readers let go of what they
   hold. Nothing is written to a shard of another lineage.
3. Open the store: strict WAL recovery, on refusal up to the point of damage.
4. Compare the tail with the marker. Above it: durable rows nobody was told of; adopt them.
   Below it: acknowledged rows are gone; record the lost range, never reuse its addresses.
5. Replay heads from the blocks above the last written heads. A block that cannot be read
   becomes a lost range, and the shard opens.
6. Publish: sync, then move the marker and raise the generation again, for readers that came
   while the store was being recovered; both slots are valid afterwards.

An unfinished transaction holds step 6 back: the stream finishes it first
(transactions/finish.py:finish_all), or is told to give it up, and then its rows above the marker
are removed here.

Nothing scans history, so the time to open does not grow with it.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from storage_core.catalog.options import StreamOptions
from storage_core.engine.commit_marker import MARKER_FILE, MarkerWriter
from storage_core.engine.key_value import Batch, KeyValueStore
from storage_core.engine.writer_lock import WriterLock
from storage_core.errors import CorruptionError, ForeignDataError, ShardlogError
from storage_core.format.head import decode_most
from storage_core.format.keys import FAMILY_DEFAULT, INT64_MIN, log_key
from storage_core.format.shard_state import (
    KEY_BORN,
    KEY_GENERATION,
    KEY_HEADS_MOST,
    KEY_LINEAGE,
    KEY_NEXT,
    KEY_START,
    KEY_TRANSACTIONS,
    STATE_RANGE,
    AddressRange,
    Ledger,
    ShardState,
    TransactionProgress,
    decode_state,
    encode_int,
    encode_ledger,
    encode_range_end,
    encode_tail,
    lost_key,
    says_nothing,
)
from storage_core.ids.heads.shard_heads import ShardHeads
from storage_core.platform.durable_file import sync_directory, taking_errors
from storage_core.read.answer import trimmed_rows_of
from storage_core.read.snapshot import ShardSnapshot
from storage_core.write.guard import in_full
from storage_core.write.opened_shard import OpenedShard, ShardContext
from storage_core.write.opening.give_up import (
    GiveUp,
    make_marker_anew,
    next_generation,
    remove_unfinished,
)
from storage_core.write.opening.head_recovery import replay_heads
from storage_core.write.shard import Shard

# What lets go of something that is open; a second call does what an interrupted one has left.
Undo = Callable[[], None]


def open_shard(context: ShardContext, options: StreamOptions, give_up: GiveUp) -> Shard:
    """Lock and recover one shard.

    IMPORTANT: what is opened is noted at once, and the shard is returned inside the `try`. No
    call lies between, so an interruption finds a thing not open yet, or closes it.

    Raises:
        ShardLockedError: Another writer has it.
        CorruptionError: It cannot be opened as it is; the message says what to do.
        ForeignDataError: The store belongs to another lineage.
    """
    undo: list[Undo] = []
    try:
        with taking_errors(context.directory, "locking the shard"):
            lock = WriterLock.acquire(
                context.directory,
                context.environment.clock,
                stream=context.meta.name,
                shard=context.number,
                purpose=context.environment.purpose,
            )
            undo.append(lock.release)
        context.environment.once_locked()
        try:
            with taking_errors(context.directory, "opening the shard"):
                opened = _recover(context, give_up, lock, undo)
        except ShardlogError as error:
            raise error.placed(context.meta.name, context.number) from error
        return Shard(context, options, opened)
    except BaseException:
        try:
            undo_all(undo)
        finally:
            # Nothing is left, but where an interruption came at the begin of that call.
            undo_all(undo)
        raise


def undo_all(undo: list[Undo]) -> None:
    """Let go of all in full, the last first; what went wrong before is raised already.

    What fails a second time is left, and the rest let go of.
    """
    tried: Undo | None = None

    def release() -> None:
        nonlocal tried
        while undo:
            is_again, tried = tried is undo[-1], undo[-1]
            try:
                tried()
            except (ShardlogError, OSError):
                pass
            except BaseException:
                if is_again:
                    undo.pop()
                raise
            undo.pop()

    in_full(release)


def _recover(
    context: ShardContext, give_up: GiveUp, lock: WriterLock, undo: list[Undo]
) -> OpenedShard:
    marker = _open_marker(context, give_up)
    undo.append(marker.close)
    # IMPORTANT: before anything is written; the stream may have been made anew since its
    # files were read.
    _refuse_foreign(context, marker.state.lineage)
    marker.write_both(next_generation(marker.state, 0))
    store = _open_store(context)
    undo.append(store.close)
    # RocksDB makes its directory but nobody else makes the directory's name durable.
    sync_directory(context.directory)
    state = _load_state(context, store, marker)
    _refuse_foreign(context, state.lineage)
    if marker.state.generation <= state.generation:
        marker.write_both(next_generation(marker.state, state.generation))
    if max(state.start, state.trimmed) > state.born:
        _free_expired(context, store, state)
    begun = _begun(state)
    if begun is not None and begun[0] in give_up.transactions:
        with closing(_view_of(context, store, state)) as view:
            state = remove_unfinished(view, store, state, _known_committed(state, marker))
    return _settle(context, lock, store, marker, state)


def _free_expired(context: ShardContext, store: KeyValueStore, state: ShardState) -> None:
    """Give back blocks that have expired or were trimmed, which a crash may have come before."""
    end = state.start
    with closing(_view_of(context, store, state)) as view:
        try:
            # A block that spans the start is still read.
            for zone in view.zones(state.start, state.start + 1):
                end = min(end, zone.first)
        except CorruptionError:
            # It is told to who reads there; until then nothing goes.
            return
    store.free([(log_key(state.born), log_key(max(end, state.trimmed)))], ())


def _refuse_foreign(context: ShardContext, lineage: bytes | None) -> None:
    if lineage != context.lineage:
        message = "the shard's store or marker belongs to another lineage"
        raise ForeignDataError(message, path=context.directory)


def _settle(
    context: ShardContext,
    lock: WriterLock,
    store: KeyValueStore,
    marker: MarkerWriter,
    state: ShardState,
) -> OpenedShard:
    """Steps 4 to 6 of the module's text."""
    committed, tail = _known_committed(state, marker), state.tail
    # IMPORTANT: raised once more, now that the store is recovered. A reader that came between
    # has opened it with rows that recovery has dropped, and would go on showing them.
    final = next_generation(marker.state, state.generation)
    batch = Batch()
    batch.put(KEY_GENERATION, encode_int(final.generation))
    lost = list(state.lost)
    if tail.next < committed:
        lost.append(AddressRange(tail.next, committed))
        tail = replace(tail, next=committed)
    publishable = committed if _begun(state) is not None else tail.next
    most = _largest_of_heads(store, state)
    heads = ShardHeads(store.get_many, lambda: marker.state.committed, publishable, most)
    state = replace(state, tail=tail)
    with closing(_view_of(context, store, state)) as view:
        lost.extend(replay_heads(view, heads))
    recorded = set(state.lost)
    for lost_range in lost:
        if lost_range not in recorded:
            batch.put(lost_key(lost_range.start), encode_range_end(lost_range.end))
    batch.put(KEY_NEXT, encode_tail(tail))
    store.write(batch)
    store.sync()
    marker.write_both(replace(final, committed=publishable))
    state = replace(state, generation=marker.state.generation, lost=tuple(sorted(set(lost))))
    return OpenedShard(lock, store, marker, state, publishable, heads)


def _largest_of_heads(store: KeyValueStore, state: ShardState) -> int:
    """Return a primary that no head on disk is above."""
    if not state.heads_through:
        return INT64_MIN
    (noted,) = store.get_many([KEY_HEADS_MOST])
    return decode_most(noted)


def _begun(state: ShardState) -> tuple[str, TransactionProgress] | None:
    """Return the transaction of which only a part is written."""
    assert state.ledger is not None, "a shard that is opened has a ledger"
    return state.ledger.begun


def _known_committed(state: ShardState, marker: MarkerWriter) -> int:
    """Return the end of what is known to be committed.

    A transaction commits what stands before it, so where it began counts too: of a damaged
    marker only the older slot is left, which speaks of a commit before.
    """
    begun = _begun(state)
    begin = 0 if begun is None else begun[1].begin
    return max(marker.state.committed, begin)


def _refuse_missing_current(context: ShardContext) -> None:
    """Refuse what RocksDB would take for a new store, and clear away.

    Raises:
        CorruptionError: There are a store's files, but not the one that names them.
    """
    directory = context.directory / "db"
    if (directory / "CURRENT").exists():
        return
    if any(directory.glob("*.sst")) or any(directory.glob("*.log")):
        message = "the store's CURRENT is missing; restore it from a backup or name the MANIFEST"
        raise CorruptionError(message, path=directory / "CURRENT")


def _open_marker(context: ShardContext, give_up: GiveUp) -> MarkerWriter:
    path = context.directory / MARKER_FILE
    if path.exists() or not give_up.marker:
        marker, _ = context.environment.open_marker(path)
        if marker is not None:
            return marker
    if not give_up.marker:
        message = (
            "no slot of the marker is valid, so what was committed is unknown; "
            "open with give_up_marker to take what the store still holds"
        )
        raise CorruptionError(message, path=path)
    with closing(_open_store(context)) as store:
        state, is_new = _read_state(context, store)
        if not is_new:
            _refuse_foreign(context, state.lineage)
    return make_marker_anew(context, path, state)


def _open_store(context: ShardContext) -> KeyValueStore:
    _refuse_missing_current(context)
    path = context.directory / "db"
    open_store = context.environment.open_store
    try:
        return open_store(path, "strict")
    except CorruptionError:
        # A torn tail is legitimate and refused too; the marker tells whether anything is gone.
        return open_store(path, "point_in_time")


def _read_state(context: ShardContext, store: KeyValueStore) -> tuple[ShardState, bool]:
    """Return what lies under `m`, and whether that is nothing."""
    with closing(store.snapshot()) as view:
        entries = list(view.items(FAMILY_DEFAULT, *STATE_RANGE))
    return decode_state(entries, context.number, context.born), says_nothing(entries)


def _load_state(context: ShardContext, store: KeyValueStore, marker: MarkerWriter) -> ShardState:
    """Return what lies under `m`, made first if the store is new or lost all it had."""
    state, is_new = _read_state(context, store)
    if not is_new:
        return state
    batch = Batch()
    batch.put(KEY_LINEAGE, context.lineage)
    batch.put(KEY_BORN, encode_int(state.born))
    batch.put(KEY_START, encode_int(state.start))
    batch.put(KEY_GENERATION, encode_int(marker.state.generation))
    batch.put(KEY_NEXT, encode_tail(state.tail))
    batch.put(KEY_TRANSACTIONS, encode_ledger(Ledger()))
    store.write(batch)
    store.sync()
    return replace(state, lineage=context.lineage)


def _view_of(context: ShardContext, store: KeyValueStore, state: ShardState) -> ShardSnapshot:
    """Return all that is written, committed or not."""
    blocks_for = trimmed_rows_of(context.directory)
    return ShardSnapshot(
        context.place, context.meta, state, state.tail.next, store.snapshot(), blocks_for
    )

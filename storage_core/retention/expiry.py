"""Expiry: what is older than a stream keeps goes, at a cost that follows what goes.

The floor is the primary below which all has expired. It never falls. Rows below it are hidden
from the moment it moves, and rows that come below it are expired as they come; what is stored of
them goes by whole windows and blocks (expired.py).
"""

from dataclasses import dataclass

from storage_core.catalog.stream_file import StreamFiles
from storage_core.errors import InvalidRequestError
from storage_core.format.keys import INT64_MAX, INT64_MIN
from storage_core.format.window import UNITS_PER_SECOND
from storage_core.platform.clock import Clock
from storage_core.retention.caps import Caps
from storage_core.retention.expired import find_removal, has_expired
from storage_core.retention.expiry_report import ShardExpiry
from storage_core.retention.hidden import count_hidden
from storage_core.retention.removal import Removal
from storage_core.write.log_sizes import LogSizes
from storage_core.write.shard import Shard


@dataclass(frozen=True, slots=True)
class ExpiryTerms:
    """What expires: all below a floor, if there is one, and what is above the caps of a shard."""

    floor: int | None
    caps: Caps


def expire_shard(shard: Shard, terms: ExpiryTerms, *, is_dry_run: bool) -> ShardExpiry:
    """Let everything below a floor expire, and what a cap takes; durable on return.

    1. Judge: raise the floor under the append lock. No row that comes from here on lies below it.
    2. Look: one seek tells whether any window reaches below it, a second one where rows have come
       ahead of the clock. If none does, and no cap takes anything, the floor goes to disk with the
       next batch, and this ends here.
    3. Find: in one view, under no lock, the windows, the log's start, dead blocks behind it.
    4. Write: all of it in one WriteBatch under the append lock, the standing moved before, so
       that no read speaks of what is not there.
    5. Publish: sync; write the marker, with a new generation if anything was deleted, so that
       readers in other processes reopen.
    6. Free: nothing durable refers to the blocks any more. Segments of which all have gone are
       unlinked, the rest is removed from RocksDB's files behind.

    A dry run does 2 and 3 for the floor that would be, and counts what reads would show no more. An
    interruption or a crash leaves all of 4 or nothing; another run finds what is left.

    Raises:
        UnavailableError: Something else held the shard for too long.
        ShardPoisonedError: The write failed, or an earlier one had.
        CorruptionError: The chain of zones is broken, or a block that must be looked into is.
    """
    return shard.guard.maintain(lambda: _expire(shard, terms, is_dry_run=is_dry_run))


def terms_of(files: StreamFiles, now: object, clock: Clock) -> ExpiryTerms:
    """Return what expires at a time in a stream's unit, or at the clock's if none is given.

    Raises:
        InvalidRequestError: It is none.
    """
    meta, options = files.meta, files.settings.options
    if now is None:
        now = clock.now_ns() // (10**9 // UNITS_PER_SECOND.get(meta.unit, 1))
    if type(now) is not int or not INT64_MIN <= now <= INT64_MAX:
        message = f"now {now!r} is not a time in {meta.unit} as a 64-bit integer"
        raise InvalidRequestError(message, stream=meta.name)
    return ExpiryTerms(options.floor_at(now), Caps.of_each(options, files.settings.lineages))


def _expire(shard: Shard, terms: ExpiryTerms, *, is_dry_run: bool) -> ShardExpiry:
    shard.guard.refuse_if_unusable()
    before = shard.state()
    floor = before.floor if terms.floor is None else max(terms.floor, before.floor)
    nothing = Removal(floor, before.start)
    if terms.floor is None and not terms.caps.are_any:
        return _report(before.floor, before.start, nothing, 0 if is_dry_run else None)
    if not is_dry_run:
        shard.commit_path.raise_floor(floor)  # 1
    view = shard.snapshots.committed()
    try:
        window, cut, rows = view.scheme.of(floor), view.state.cut, 0
        if terms.caps.are_any:
            cut, rows = shard.maintenance.log_sizes.cut(
                view, floor, terms.caps.records_max, terms.caps.bytes_max
            )
        is_kept = shard.commit_path.floor_written >= floor
        is_over = cut > view.state.cut
        if not is_over and not has_expired(view, window, is_floor_written=is_kept):  # 2
            return _report(before.floor, before.start, nothing, 0 if is_dry_run else None)
        removal = find_removal(view, floor, cut, rows)  # 3
        hidden = count_hidden(shard, view, floor, cut) if is_dry_run else None
    finally:
        view.close()
    if not is_dry_run:
        if removal.runs:
            shard.maintenance.log_sizes = LogSizes()
        shard.commit_path.apply_change(removal.change)  # 4, 5
        shard.free(removal.freed_blocks, removal.freed_segments)  # 6
    return _report(before.floor, before.start, removal, hidden)


def _report(
    floor_before: int, start_before: int, removal: Removal, hidden: int | None
) -> ShardExpiry:
    return ShardExpiry(
        _floor_or_none(floor_before),
        _floor_or_none(removal.floor),
        start_before,
        removal.start,
        removal.windows,
        removal.rows,
        removal.late_rows,
        removal.blocks,
        removal.bytes,
        len(removal.segments),
        hidden,
    )


def _floor_or_none(floor: int) -> int | None:
    return None if floor == INT64_MIN else floor

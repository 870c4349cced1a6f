"""The commit of a group: what many callers submitted becomes durable together.

1. Decide each unit in turn (group.py): EXPECT, IDEMPOTENCY, addresses.
2. Where the group must be stored at several places or at none, write it down, durably (journal.py).
3. Append one batch at each place, with counts and idempotency keys in the same WriteBatch.
4. Commit the streams.
5. Tell the units: positions, or an error.

A failure in 3 or 4 leaves open what is stored. Units at places that were committed have their
positions, the others are told that it is not known. The streams must be opened again then.
Belongs to the writer's thread.
"""

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from storage_core import Clock, InvalidRequestError, ShardlogError, UnavailableError
from typed_events.store.attached import IdempotencyKeys
from typed_events.store.context_counts import ContextCounts
from typed_events.store.group import Group, PlaceRows
from typed_events.store.journal import PlaceAppend, append_to_journal
from typed_events.store.options import EventStoreOptions
from typed_events.store.owned_streams import OwnedStreams
from typed_events.store.submission import Place, Unit

_COMMITTING_MAX: Final = 4
# After these a shard is as it was.
_UNCHANGED: Final = (UnavailableError, InvalidRequestError)
_log = logging.getLogger(__name__)


class GroupCommit:
    """Stores groups, one after the other."""

    def __init__(self, options: EventStoreOptions, clock: Clock) -> None:
        """Begin with nothing remembered."""
        self._clock = clock
        self._keys = IdempotencyKeys(options.idempotency_window)
        self._counts = ContextCounts(options.contexts_cached)
        self._pool: ThreadPoolExecutor | None = None

    def store(self, units: Sequence[Unit], streams: OwnedStreams) -> bool:
        """Store units; each has its positions or an error then.

        Returns:
            Whether the streams can go on; else they must be opened again.
        """
        group = Group(streams, self._counts, self._keys, self._clock.now_ns() // 1000)
        try:
            group.plan(units)  # 1
        except ShardlogError as error:
            # Nothing is written yet.
            _refuse_all(units, error)
            return isinstance(error, _UNCHANGED)
        written = {rows.place: rows for rows in group.written()}
        if not written:
            return True
        refused: dict[Place, ShardlogError] = {}
        stored: set[Place] = set()
        failure: Exception | None = None
        try:
            self._write(group, streams, refused, stored)
        except (ShardlogError, OSError) as error:
            _log.exception("a group of events has failed")
            failure = error
        for place in stored:
            self._accept(written[place], streams)
        unknown = None if failure is None else not_known(storing_failed(failure))
        errors = {place: refused.get(place) or unknown for place in written if place not in stored}
        _tell(units, errors)
        return failure is None

    def forget(self) -> None:
        """Forget what was remembered of streams that are opened again."""
        self._counts.clear()

    def close(self) -> None:
        """End the threads that commit."""
        if self._pool is not None:
            self._pool.shutdown()

    def _write(
        self,
        group: Group,
        streams: OwnedStreams,
        refused: dict[Place, ShardlogError],
        stored: set[Place],
    ) -> None:
        """Do 2 to 4; note the places that took nothing, and those whose rows are durable."""
        appends = {rows.place: self._append_of(rows, group, streams) for rows in group.written()}
        if group.needs_journal:
            try:
                append_to_journal(streams.journal, list(appends.values()))  # 2
            except _UNCHANGED as error:
                refused.update(dict.fromkeys(appends, error))
                return
            # From here on whoever opens the store next stores it.
            streams.journal.commit()
        for place, append in appends.items():
            try:
                append.append_to(streams.by_type[place.event_type])  # 3
            except _UNCHANGED as error:
                if group.needs_journal:
                    # It is written down: it must be stored, and will be.
                    raise
                refused[place] = error
        self._commit([place for place in appends if place not in refused], streams, stored)  # 4

    def _append_of(self, rows: PlaceRows, group: Group, streams: OwnedStreams) -> PlaceAppend:
        owned, shard = streams.by_type[rows.place.event_type], rows.place.shard
        if rows.keyed and owned.cleared.get(shard) != group.bucket:
            owned.stream.clear_attachments(shard, *self._keys.old(group.last))
            owned.cleared[shard] = group.bucket
        batch, schemas = rows.batch()
        attachments = rows.attachments(self._keys, group.bucket)
        lineage = owned.stream.lineage(shard) if group.needs_journal else ""
        return PlaceAppend(
            rows.place.event_type, shard, lineage, rows.first, batch, schemas, attachments
        )

    def _commit(self, places: Sequence[Place], streams: OwnedStreams, stored: set[Place]) -> None:
        """Commit the streams of places, side by side; raise what the first raised, behind all."""
        names = {place.event_type for place in places}

        def commit(name: str) -> None:
            streams.by_type[name].stream.commit()
            stored.update(place for place in places if place.event_type == name)

        if len(names) == 1:
            commit(*names)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_COMMITTING_MAX, "typed-events-commit")
        committing = [self._pool.submit(commit, name) for name in names]
        errors = [error for one in committing if (error := one.exception()) is not None]
        if errors:
            raise errors[0]

    def _accept(self, rows: PlaceRows, streams: OwnedStreams) -> None:
        """Remember what is durable."""
        owned = streams.by_type[rows.place.event_type]
        owned.tails[rows.place.shard] = rows.first + len(rows.rows)
        owned.last = max(owned.last, rows.primaries[-1])
        self._counts.put(rows.place, rows.counts)


def not_known(reason: str) -> ShardlogError:
    """Return what is said where it is open whether something was stored, as `reason` says."""
    message = (
        f"it is not known whether it was stored, as {reason}: send it again if it has an "
        "IDEMPOTENCY key, else look first"
    )
    return ShardlogError(message)


def storing_failed(error: BaseException) -> str:
    """Return a failure of storing as a reason, in one line."""
    reason = str(error).partition("\n")[0]
    return f"storing failed ({reason})"


def _refuse_all(units: Sequence[Unit], error: ShardlogError) -> None:
    for unit in units:
        unit.error, unit.positions = unit.error or error, ()


def _tell(units: Sequence[Unit], errors: Mapping[Place, ShardlogError | None]) -> None:
    """Take the positions from units of which something is at a place that has failed."""
    for unit in units if errors else ():
        for row in unit.rows:
            error = errors.get(row.place)
            if unit.error is None and error is not None:
                unit.error, unit.positions = error, ()

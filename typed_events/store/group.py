"""A group of units, planned: what each place gets, decided in the order in which they came.

Nothing is written here. A unit that is refused leaves no trace in the plan; what a later unit
expects counts those before it in the same group. Belongs to the writer's thread.

The group needs the journal where it must be stored at several places or at none: a unit that lies
at several, or one that expects a number to which an event of the group at another place counts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from storage_core import SchemaEntry, ShardlogError
from typed_events.answer import counted
from typed_events.errors import ConflictError
from typed_events.language.commands import Position
from typed_events.store.attached import (
    FAMILY,
    KEY_LAST,
    IdempotencyKeys,
    count_key,
    decode_first,
    decode_number,
    encode_counts,
    encode_first,
    encode_number,
)
from typed_events.store.context_counts import ContextCounts
from typed_events.store.owned_streams import OwnedStreams
from typed_events.store.submission import NOWHERE, Place, Row, Unit

# In the headers of a row of state stands its id, as a tombstone has nothing else to say it.
ROW_HEADER: Final = "row"
HEADERS: Final[pa.DataType] = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_untyped: Any = pa  # the stubs want to know what an array holds
_EVENTS: Final[pa.Schema] = _untyped.schema(
    {
        "primary": pa.int64(),
        "key": pa.binary(),
        "payload": pa.binary(),
        "version": pa.uint16(),
        "schema": pa.int32(),
    }
)
_STATE: Final[pa.Schema] = _EVENTS.append(pa.field("headers", HEADERS))
# A key of idempotency, of a context.
_Key = tuple[bytes, bytes]
_First = tuple[int, bytes]


@dataclass(slots=True)
class PlaceRows:
    """What a group adds at one place.

    Attributes:
        place: It.
        first: The address of the first row.
        rows: The events.
        primaries: Their times of storing.
        counts: How many events contexts have here, those of the group among them.
        firsts: Where the event of an idempotency key is, and the digest of its payload.
        touched: The contexts of the rows.
        keyed: The keys of idempotency of the rows.
    """

    place: Place
    first: int
    rows: list[Row] = field(default_factory=list)
    primaries: list[int] = field(default_factory=list)
    counts: dict[bytes, int] = field(default_factory=dict)
    firsts: dict[_Key, _First] = field(default_factory=dict)
    touched: set[bytes] = field(default_factory=set)
    keyed: list[_Key] = field(default_factory=list)

    def add(self, row: Row, primary: int) -> int:
        """Take a row; return its address."""
        rows, key = self.rows, row.key
        address = self.first + len(rows)
        rows.append(row)
        self.primaries.append(primary)
        if row.state_id is None:
            self.counts[key] += 1
            self.touched.add(key)
        if row.idempotency_key is not None:
            named = (key, row.idempotency_key)
            self.firsts[named] = (address, row.digest)
            self.keyed.append(named)
        return address

    def add_all(self, rows: Sequence[Row], primary: int) -> int:
        """Take rows without keys of idempotency; return the first one's address."""
        address = self.first + len(self.rows)
        self.rows += rows
        self.primaries += range(primary, primary + len(rows))
        if rows[0].state_id is None:
            # All of a place are events, or all are state.
            counts = self.counts
            for row in rows:
                counts[row.key] += 1
            self.touched.update([row.key for row in rows])
        return address

    def batch(self) -> tuple[pa.RecordBatch, list[SchemaEntry]]:
        """Return the rows as the log takes them, and their schemas."""
        rows = self.rows
        # All are of one type, of which each version has one schema.
        schemas = {row.version: row.schema for row in rows if row.schema is not None}
        numbers = {version: number for number, version in enumerate(schemas)}
        columns: list[Any] = [
            pa.array(self.primaries, pa.int64()),
            pa.array([row.key for row in rows], pa.binary()),
            pa.array([row.payload for row in rows], pa.binary()),
            pa.array([row.version for row in rows], pa.uint16()),
            pa.array(
                [None if row.schema is None else numbers[row.version] for row in rows], pa.int32()
            ),
        ]
        schema = _EVENTS
        if rows[0].state_id is not None:
            columns.append(pa.array([_headers(row) for row in rows], HEADERS))
            schema = _STATE
        return _untyped.RecordBatch.from_arrays(columns, schema=schema), list(schemas.values())

    def attachments(self, keys: IdempotencyKeys, bucket: int) -> list[tuple[str, bytes, bytes]]:
        """Return what is written beside the rows."""
        last = (FAMILY, KEY_LAST, encode_number(self.primaries[-1]))
        counts = encode_counts(FAMILY, {context: self.counts[context] for context in self.touched})
        firsts = [
            (FAMILY, keys.key(bucket, *key), encode_first(*self.firsts[key])) for key in self.keyed
        ]
        return [last, *counts, *firsts]


class Group:
    """The plan of a group.

    Attributes:
        places: What each place gets; also those without rows, whose counts were asked for.
        needs_journal: Whether it must be stored at all places or at none.
        last: The largest primary, of the store or of the group.
        bucket: In which its idempotency keys are stored.
    """

    def __init__(
        self, streams: OwnedStreams, counts: ContextCounts, keys: IdempotencyKeys, now_us: int
    ) -> None:
        """Begin without units, at a time."""
        self._streams = streams
        self._counts = counts
        self._keys = keys
        # Where the clock has stepped back, a row may be past its time before it is stored.
        self._begin = max(now_us, streams.last + 1, streams.floor)
        self.last = self._begin - 1
        self.bucket = keys.bucket(self._begin)
        self.places: dict[Place, PlaceRows] = {}
        self.needs_journal = False

    def plan(self, units: Sequence[Unit]) -> None:
        """Decide each unit in turn: it has positions or an error then."""
        self._load([unit for unit in units if self._has_places(unit)])
        place = NOWHERE
        run: list[Unit] = []
        for unit in units:
            if unit.error is not None:
                continue
            row = unit.rows[0]
            if len(unit.rows) > 1 or row.expect != "any" or row.idempotency_key is not None:
                self._take(run)
                run = []
                self._decide(unit)
                continue
            # Most are of one event that asks for nothing: those of one place are taken together.
            if row.place is not place:
                self._take(run)
                place, run = row.place, []
            run.append(unit)
        self._take(run)

    def _take(self, units: Sequence[Unit]) -> None:
        """Take units of one event each, which ask for nothing, and are of one place."""
        if not units:
            return
        rows = [unit.rows[0] for unit in units]
        place = rows[0].place
        first = self.places[place].add_all(rows, self.last + 1)
        self.last += len(rows)
        shard = place.shard
        for address, unit in enumerate(units, first):
            unit.positions = (Position(shard, address),)

    def written(self) -> list[PlaceRows]:
        """Return the places that get rows."""
        return [rows for rows in self.places.values() if rows.rows]

    def _has_places(self, unit: Unit) -> bool:
        by_type = self._streams.by_type
        try:
            for row in unit.rows:
                owned = by_type.get(row.event_type) or self._streams.stream_of(row.event_type)
                places, payload = owned.places, row.payload
                row.place = places[0] if len(places) == 1 else owned.place(row.key)
                # The log refuses a batch whole: here one too large takes no other with it.
                if payload is not None and len(payload) > owned.payload_bytes_max:
                    owned.refuse_large(payload)
        except ShardlogError as error:
            unit.error = error
        return unit.error is None

    def _load(self, units: Iterable[Unit]) -> None:
        """Read what decides, in one call a place."""
        wanted: dict[Place, dict[bytes, _Key | bytes]] = {}
        place, counts, young = NOWHERE, {}, self._counts.young(NOWHERE)
        for row in (row for unit in units for row in unit.rows):
            if row.place is not place:
                place = row.place
                counts, young = self._rows_at(place).counts, self._counts.young(place)
            context = row.key
            if row.expect != "any" or row.state_id is not None or row.idempotency_key is not None:
                self._want_all(row, wanted)
            elif context not in counts:
                # As most are, and of contexts that are remembered.
                count = young.get(context)
                if count is None:
                    self._want_count(place, context, wanted)
                else:
                    counts[context] = count
        for place, named in wanted.items():
            values = self._streams.attachments(place, list(named))
            rows = self.places[place]
            for meaning, value in zip(named.values(), values, strict=True):
                if isinstance(meaning, bytes):
                    rows.counts[meaning] = decode_number(value)
                elif value is not None:
                    rows.firsts[meaning] = decode_first(value)

    def _want_all(self, row: Row, wanted: dict[Place, dict[bytes, _Key | bytes]]) -> None:
        """Want what a row asks for: the counts of its context, and where its key may lie."""
        if row.state_id is None:
            self._want_count(row.place, row.key, wanted)
            if row.expect != "any":
                for place in self._streams.places(row.key):
                    self._want_count(place, row.key, wanted)
        if row.idempotency_key is not None:
            key = (row.key, row.idempotency_key)
            # The newer behind the older: it is the one that stays.
            for stored in reversed(self._keys.places(self._begin, *key)):
                wanted.setdefault(row.place, {})[stored] = key

    def _want_count(
        self, place: Place, context: bytes, wanted: dict[Place, dict[bytes, _Key | bytes]]
    ) -> None:
        rows = self.places.get(place) or self._rows_at(place)
        if context in rows.counts:
            return
        count = self._counts.get(place, context)
        if count is None:
            wanted.setdefault(place, {})[count_key(context)] = context
        else:
            rows.counts[context] = count

    def _rows_at(self, place: Place) -> PlaceRows:
        rows = self.places.get(place)
        if rows is None:
            tail = self._streams.by_type[place.event_type].tails[place.shard]
            rows = self.places[place] = PlaceRows(place, tail)
        return rows

    def _decide(self, unit: Unit) -> None:
        """Take a unit whole, or leave it with its error."""
        new: dict[int, Row] = {}
        addresses: list[int | None] = []
        keys: dict[tuple[Place, bytes | None], int] = {}
        again: dict[int, int] = {}
        new_events = 0
        try:
            for number, row in enumerate(unit.rows):
                address = self._stored_before(row)
                key = (row.place, row.idempotency_key)
                if address is None and row.idempotency_key is not None and key in keys:
                    again[number] = keys[key]
                    _refuse_other(row, unit.rows[keys[key]].digest)
                elif address is None:
                    self._check_expected(row, new_events)
                    new[number] = row
                    new_events += row.state_id is None
                    keys[key] = number
                addresses.append(address)
        except ConflictError as error:
            unit.error = error
            return
        if len({row.place for row in new.values()}) > 1:
            self.needs_journal = True
        for number, row in new.items():
            self.last += 1
            addresses[number] = self.places[row.place].add(row, self.last)
        unit.positions = [
            Position(row.place.shard, addresses[again.get(number, number)] or 0)
            for number, row in enumerate(unit.rows)
        ]

    def _stored_before(self, row: Row) -> int | None:
        if row.idempotency_key is None:
            return None
        first = self.places[row.place].firsts.get((row.key, row.idempotency_key))
        if first is None:
            return None
        _refuse_other(row, first[1])
        return first[0]

    def _check_expected(self, row: Row, new_events: int) -> None:
        """Refuse a row whose context has not as many events as it expects."""
        if row.expect == "any":
            return
        count = new_events
        for place in self._streams.places(row.key):
            rows = self.places[place]
            count += rows.counts[row.key]
            if place != row.place and row.key in rows.touched:
                self.needs_journal = True
        if count != row.expect:
            context = row.key.decode("utf-8", "replace")
            message = f"context {context} has {counted(count, 'event')}, not {row.expect}"
            raise ConflictError(message)


def _headers(row: Row) -> list[dict[str, object]] | None:
    return [{"key": ROW_HEADER, "value": row.state_id}] if row.state_id else None


def _refuse_other(row: Row, digest: bytes) -> None:
    """Refuse another payload under a key that was used.

    Raises:
        ConflictError: It is another.
    """
    if row.digest != digest:
        key = (row.idempotency_key or b"").decode("utf-8", "replace")
        message = (
            f'idempotency key "{key}" was used for another payload of this type and context: '
            "take another key"
        )
        raise ConflictError(message)

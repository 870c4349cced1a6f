"""The store of a log that begins from its table, written before anybody knows of the log.

It is what the store of a log would be whose blocks were all sealed, trimmed and forgotten: parts,
zones, windows, heads, and the copies of rows out of order; no block. Nothing of it counts before
the log is put in its place, so the order of what is written does not matter, only that all of it
is durable by then.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from storage_core.engine.key_value import Batch, KeyValueStore
from storage_core.format.counters import Counters
from storage_core.format.head import encode_heads, encode_most
from storage_core.format.keys import INT64_MIN, dead_letter_key, window_key, zone_key
from storage_core.format.part_entry import PartEntry
from storage_core.format.schema_entry import SchemaEntry
from storage_core.format.shard_state import (
    KEY_BORN,
    KEY_CUT,
    KEY_EXPIRED,
    KEY_FLOOR,
    KEY_GENERATION,
    KEY_HEADS,
    KEY_HEADS_MOST,
    KEY_LAKE_PREDECESSOR,
    KEY_LINEAGE,
    KEY_NEXT,
    KEY_REMOVED,
    KEY_SEALED,
    KEY_SOURCE,
    KEY_START,
    KEY_TRANSACTIONS,
    KEY_TRIMMED,
    AddressRange,
    Ledger,
    ShardState,
    Tail,
    encode_int,
    encode_ledger,
    encode_range_end,
    encode_source,
    encode_tail,
    gap_key,
    pass_key,
)
from storage_core.format.window import Window, encode_window
from storage_core.format.zone import Zone, encode_zone
from storage_core.ids.dictionaries.keys import put_new_keys
from storage_core.ids.dictionaries.schemas import put_new_schemas
from storage_core.lake.beginning.late_copies import Item
from storage_core.lake.beginning.shard_facts import LogHeads
from storage_core.parts.part_list import replace_parts

# What is put into one batch, of things that are many.
_ITEMS_AT_ONCE: Final = 2**17
# In the place of the owner's number where the table names none.
NO_OWNER: Final = -1


@dataclass(frozen=True, slots=True)
class BegunState:
    """Where a log that begins from its table stands.

    Attributes:
        lineage: Its random id.
        born: The first address that it can ever have had.
        start: The first address that it has.
        end: The address up to which the table has its rows.
        floor: The primary below which rows have expired.
        cut: The address below which they have.
        has_expired: Whether any have: of an address without a row nobody knows if it had one.
        owner: The number of the log that published them; None if the table names none.
        gaps: Addresses whose rows were given up.
        skipped: Addresses that the log passed over, since its source no longer had them.
    """

    lineage: bytes
    born: int
    start: int
    end: int
    floor: int
    cut: int
    has_expired: bool
    owner: int | None
    gaps: Sequence[AddressRange] = ()
    skipped: Sequence[AddressRange] = ()


class BegunStore:
    """Writes the store of a log that begins. One thread."""

    def __init__(self, store: KeyValueStore, state: BegunState) -> None:
        """Write into an empty store."""
        self._store = store
        self._state = state

    def put_parts(
        self,
        entries: Sequence[PartEntry],
        schemas: Sequence[SchemaEntry],
        keys: Any,  # noqa: ANN401 - an array
    ) -> None:
        """Write what rows of parts are read by: the part list, schemas and numbers of keys."""
        state, batch = self._state, Batch()
        end = encode_int(state.end)
        batch.put(KEY_LINEAGE, state.lineage)
        batch.put(KEY_GENERATION, encode_int(0))
        batch.put(KEY_BORN, encode_int(state.born))
        batch.put(KEY_START, encode_int(state.start))
        batch.put(KEY_CUT, encode_int(max(state.cut, state.born)))
        if state.floor > INT64_MIN:
            batch.put(KEY_FLOOR, encode_int(state.floor))
        for gap in state.gaps:
            batch.put(gap_key(gap.start), encode_range_end(gap.end, "given up"))
        for skipped in state.skipped:
            batch.put(pass_key(skipped.start), encode_range_end(skipped.end))
        for key in (KEY_SEALED, KEY_TRIMMED, KEY_HEADS):
            batch.put(key, end)
        batch.put(
            KEY_LAKE_PREDECESSOR, encode_int(NO_OWNER if state.owner is None else state.owner)
        )
        batch.put(KEY_REMOVED, b"")
        batch.put(KEY_SOURCE, encode_source({"next": state.end}))
        batch.put(KEY_TRANSACTIONS, encode_ledger(Ledger()))
        batch.put(KEY_NEXT, encode_tail(Tail(state.end, state.start, Counters())))
        replace_parts(batch, ShardState(), (), entries)
        put_new_schemas(batch, {schema: number for number, schema in enumerate(schemas)}, 0)
        self._store.write(batch)
        for first in range(0, len(keys), _ITEMS_AT_ONCE):
            batch = Batch()
            some = keys.slice(first, _ITEMS_AT_ONCE).to_pylist()
            put_new_keys(batch, {key: number for number, key in enumerate(some, first)}, first)
            self._store.write(batch)

    def put_heads(self, heads: LogHeads) -> None:
        """Write the heads."""
        for first in range(0, len(heads.ids), _ITEMS_AT_ONCE):
            end = first + _ITEMS_AT_ONCE
            batch = Batch()
            batch.put_many(*encode_heads(heads.ids[first:end], heads.values[first:end]))
            self._store.write(batch)
        batch = Batch()
        batch.put(KEY_HEADS_MOST, encode_most(heads.most))
        self._store.write(batch)

    def put_copies(self, copies: Sequence[Item], ahead: Sequence[bytes]) -> None:
        """Write copies of rows that were late or ahead, and the places of those ahead."""
        batch = Batch()
        batch.put_many([key for key, _ in copies], [value for _, value in copies])
        batch.put_many(list(ahead), [b""] * len(ahead))
        self._store.write(batch)

    def put_windows(self, windows: Mapping[int, Window]) -> None:
        """Write the windows."""
        batch = Batch()
        batch.put_many(
            [window_key(number) for number in windows],
            [encode_window(window) for window in windows.values()],
        )
        self._store.write(batch)

    def finish(
        self, zones: Iterable[Zone], dead_letters: Sequence[tuple[int, bytes]], payload_bytes: int
    ) -> None:
        """Write zones, dead letters and what is counted; all is durable on return."""
        state, batch = self._state, Batch()
        counters, reached, expired = Counters(), state.start, 0
        for zone in zones:
            batch.put(zone_key(zone.first), encode_zone(zone))
            reached = zone.end
            expired = zone.end if zone.is_expired else expired
            counters = counters.plus(_counts_of(zone))
        for address, raw in dead_letters:
            batch.put(dead_letter_key(address), raw)
        if expired:
            batch.put(KEY_EXPIRED, encode_int(expired))
        counters = counters._replace(
            dead_letters=len(dead_letters),
            payload_bytes=payload_bytes,
            skipped=sum(some.end - some.start for some in state.skipped),
        )
        batch.put(KEY_NEXT, encode_tail(Tail(state.end, reached, counters)))
        self._store.write(batch)
        self._store.flush()
        self._store.sync()


def _counts_of(zone: Zone) -> Counters:
    return Counters(
        records=zone.count,
        late_arrivals=zone.late,
        ahead=zone.ahead,
        expired=zone.expired,
        blocks=0 if zone.is_expired else 1,
    )

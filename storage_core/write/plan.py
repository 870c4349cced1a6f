"""Steps 1 and 2 of the commit path: from rows to one batch of puts.

`ShardWriting` is what a shard remembers of its rows between batches (heads, windows); `judge`
and `build` only read it and the state they are given, `accept` moves it once the batch is
written. One thread at a time (the shard's append lock).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np

from storage_core.catalog.options import StreamOptions
from storage_core.catalog.stream_meta import SCHEMA_DICTIONARY
from storage_core.engine.key_value import Batch
from storage_core.format.counters import ClearedDeadLetters, Counters
from storage_core.format.keys import (
    ADDRESS_MAX,
    INT32_MAX,
    INT64_MAX,
    ahead_key_of,
    dead_letter_key,
    saturating_add,
    window_key,
)
from storage_core.format.late_rows import encode_late_rows
from storage_core.format.record import Rows, State, no_rows
from storage_core.format.schema_entry import SchemaEntry
from storage_core.format.shard_state import (
    KEY_DISCARDED,
    KEY_DROPPED,
    KEY_FLOOR,
    KEY_NEXT,
    KEY_RETRIED,
    KEY_SOURCE,
    AddressRange,
    ShardState,
    Tail,
    encode_int,
    encode_range_end,
    encode_tail,
    pass_key,
)
from storage_core.format.window import (
    UNITS_PER_SECOND,
    Window,
    WindowScheme,
    encode_window,
    summarise,
)
from storage_core.format.zone import state_counts
from storage_core.ids.dictionaries.keys import KeyNumbers, Numbered, put_new_keys
from storage_core.ids.dictionaries.schemas import SchemaNumbers, put_new_schemas
from storage_core.ids.heads.grouping import Grouping, group
from storage_core.ids.heads.table import heads_after
from storage_core.write.cutting import put_blocks
from storage_core.write.entry import AppendReport, Entry, JudgedEntry, no_address_left
from storage_core.write.opened_shard import OpenedShard, ShardContext
from storage_core.write.states import StateRules, as_given, judge
from storage_core.write.window_table import WindowTable

_NO_SCHEMAS: Final[Mapping[SchemaEntry, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Plan:
    """One batch ready to be written, and what holds once it is."""

    batch: Batch
    judged: JudgedEntry
    state: ShardState
    windows: dict[int, Window]
    blocks: int
    has_heads: bool


class ShardWriting:
    """What a shard remembers between batches."""

    def __init__(self, context: ShardContext, opened: OpenedShard) -> None:
        self._place = context.place
        self._meta = context.meta
        self._clock_ns = context.environment.clock.now_ns
        self._heads = opened.heads
        self._windows = WindowTable(opened.store.get_many)
        self._keys = _key_numbers(context, opened)
        self._schemas = SchemaNumbers(opened.store.get_many, context.meta.name, context.number)
        self._name_features = context.name_features
        self.floor_written = opened.state.floor

    def judge(self, entry: Entry, state: ShardState, options: StreamOptions) -> JudgedEntry:
        """Step 1: choose the new rows; give keys and schemas numbers, rows addresses and states."""
        rows, addresses = entry.rows, entry.addresses
        if rows is None or not len(rows):
            report = AppendReport(duplicates=entry.duplicates, dead_letters=len(entry.dead_letters))
            return JudgedEntry(entry, no_rows(), np.empty(0, np.int64), None, None, report)
        numbered = Numbered(rows) if self._keys is None else self._keys.number(rows, state.keys)
        rows, schemas = numbered.rows, _NO_SCHEMAS
        if rows.schemas:
            with_schemas = self._schemas.number(rows, state.schemas)
            rows, schemas = with_schemas.rows, with_schemas.new
        groups = group(rows.secondary)
        # A number is given with the first row of its key.
        unused = INT32_MAX + 1 if self._keys is None else state.keys
        rules = self._rules(state, options)
        normal = (rules.floor, rules.ahead_limit)
        if entry.states is None:
            before = self._heads.find_for(groups, rows.primary, normal, none_from=unused)
            judged = judge(rows.primary, groups, before.primary, rules)
        else:
            before = self._heads.find(groups.ids, unused)
            arguments = entry.states, rows.primary, groups, before.primary, rules.jitter
            judged = as_given(*arguments)
        late, ahead, expired = state_counts(judged.states)
        if addresses is None:
            if expired and judged.states is not None:
                unexpired = np.flatnonzero(judged.states != State.EXPIRED)
                rows = rows.take(unexpired)
                states = judged.states[unexpired]
                judged = replace(judged, states=states if states.any() else None)
                groups = Grouping(groups.ids, groups.codes[unexpired])
            if state.tail.next + len(rows) > ADDRESS_MAX:
                raise no_address_left(self._meta.name, self._place.shard)
            addresses = np.arange(state.tail.next, state.tail.next + len(rows))
        report = AppendReport(
            len(rows),
            entry.duplicates,
            late,
            judged.absorbed,
            ahead,
            expired,
            len(entry.dead_letters),
        )
        heads = heads_after(before, groups, judged, rows.primary, addresses)
        new = numbered.new, schemas
        return JudgedEntry(entry, rows, addresses, judged.states, heads, report, *new)

    def build(self, judged: JudgedEntry, state: ShardState, options: StreamOptions) -> Plan:
        """Step 2: turn them into puts."""
        before, entry, report = state.tail, judged.entry, judged.report
        batch = Batch()
        if judged.new_schemas and not state.schemas:
            # IMPORTANT: durable before a row that programs without the feature would not read.
            self._name_features({SCHEMA_DICTIONARY})
        sizes = judged.rows.payload_sizes()
        now_ms = self._clock_ns() // 10**6
        blocks_end, blocks = put_blocks(
            batch,
            judged,
            self._place,
            previous_end=before.blocks_end,
            now_ms=now_ms,
            options=options,
        )
        _put_out_of_order(batch, judged, self._meta.scheme, now_ms)
        windows = self._windows.widen(
            summarise(
                self._meta.scheme, judged.rows.primary, judged.addresses, sizes, judged.states
            )
        )
        for number, window in windows.items():
            batch.put(window_key(number), encode_window(window))
        heads_through = self._heads.put_if_due(batch, state.heads_through)
        next_address = max(blocks_end if blocks else before.next, before.next)
        next_address = max(next_address, _put_beside(batch, entry))
        passed = _put_passed(batch, before.next, entry.passes_to)
        counters = before.counters.plus(
            Counters(
                report.appended,
                report.late,
                report.absorbed,
                report.ahead,
                report.expired,
                report.duplicates,
                blocks,
                int(sizes.sum()),
                self._count_strays(judged.rows),
                report.dead_letters,
                sum(one.end - one.start for one in passed),
                len(entry.cleared),
            )
        )
        tail = Tail(next_address, blocks_end, counters)
        batch.put(KEY_NEXT, encode_tail(tail))
        self.put_floor(batch, state)
        cleared = _put_cleared(batch, entry, state.cleared)
        after = replace(
            state,
            tail=tail,
            keys=put_new_keys(batch, judged.new_keys, state.keys),
            schemas=put_new_schemas(batch, judged.new_schemas, state.schemas),
            heads_through=state.heads_through if heads_through is None else heads_through,
            source=state.source if entry.source is None else entry.source.fields,
            passed=(*state.passed, *passed) if passed else state.passed,
            cleared=cleared,
        )
        return Plan(batch, judged, after, windows, blocks, heads_through is not None)

    def accept(self, plan: Plan) -> None:
        """Remember what was written."""
        self._windows.accept(plan.windows)
        if self._keys is not None:
            self._keys.accept(plan.judged.new_keys)
        self._schemas.accept(plan.judged.new_schemas)
        self.floor_written = plan.state.floor
        if plan.judged.heads is not None:
            self._heads.written(plan.state.tail.blocks_end, plan.judged.heads, plan.blocks)
        if plan.has_heads:
            self._heads.snapshot_written(plan.state.heads_through)

    def window(self, number: int) -> Window:
        """Return a window's summary as it stands, written or not."""
        return self._windows.widen({number: Window()})[number]

    def put_floor(self, batch: Batch, state: ShardState) -> None:
        """Add the floor to what is written, if it is not on disk: rows were judged by it."""
        if state.floor != self.floor_written:
            batch.put(KEY_FLOOR, encode_int(state.floor))

    def forget_windows(self, state: ShardState) -> None:
        """Forget windows, of which some are gone, once a change and its floor are written."""
        self._windows.forget()
        self.floor_written = state.floor

    def _rules(self, state: ShardState, options: StreamOptions) -> StateRules:
        ahead_max = options.resolved_ahead_max()
        limit = INT64_MAX
        if ahead_max is not None:
            now = INT64_MAX
            if self._meta.unit != "sequence":
                now = self._clock_ns() // (10**9 // UNITS_PER_SECOND[self._meta.unit])
            limit = saturating_add(now, ahead_max)
        return StateRules(state.floor, limit, self._meta.jitter)

    def _count_strays(self, rows: Rows) -> int:
        mask = self._meta.route_mask
        if not mask or not len(rows):
            return 0
        return int(np.count_nonzero((rows.secondary & mask) != self._place.shard))


def _key_numbers(context: ShardContext, opened: OpenedShard) -> KeyNumbers | None:
    if not context.meta.has_keys:
        return None
    return KeyNumbers(opened.store.get_many, context.meta.name, context.number)


def _put_out_of_order(batch: Batch, judged: JudgedEntry, scheme: WindowScheme, now_ms: int) -> None:
    """Put the late and ahead rows where reads in order of time find them."""
    states = judged.states
    if states is None:
        return
    positions = np.flatnonzero((states == State.LATE) | (states == State.AHEAD))
    rows, addresses = judged.rows.take(positions), judged.addresses[positions]
    for key, value in encode_late_rows(rows, states[positions], addresses, scheme, now_ms):
        batch.put(key, value)
        if value[0] == State.AHEAD:
            batch.put(ahead_key_of(key), b"")


def _put_cleared(batch: Batch, entry: Entry, before: ClearedDeadLetters) -> ClearedDeadLetters:
    """Count the dead letters that go, by what became of them; return the counts."""
    count, after = len(entry.cleared), before
    match entry.outcome:
        case "dropped":
            after = before._replace(dropped=before.dropped + count)
            batch.put(KEY_DROPPED, encode_int(after.dropped))
        case "retried":
            after = before._replace(retried=before.retried + count)
            batch.put(KEY_RETRIED, encode_int(after.retried))
        case "discarded":
            after = before._replace(discarded=before.discarded + count)
            batch.put(KEY_DISCARDED, encode_int(after.discarded))
    return after


def _put_beside(batch: Batch, entry: Entry) -> int:
    """Add what an entry brings beside its rows; return how far it moves the tail."""
    end = entry.passes_to
    if entry.source is not None:
        batch.put(KEY_SOURCE, entry.source.data)
        end = max(end, entry.source.next)
    for address, raw in entry.dead_letters:
        batch.put(dead_letter_key(address), raw)
        end = max(end, address + 1)
    for address in entry.cleared:
        batch.delete(dead_letter_key(address))
    if entry.attachments_cleared is not None:
        batch.delete_range(*entry.attachments_cleared)
    if entry.attachments:
        # All are of the default family (`checked_attachments`).
        _, keys, values = zip(*entry.attachments, strict=True)
        batch.put_many(keys, values)
    if entry.beside is not None:
        batch.puts.extend(entry.beside.puts)
        batch.puts_of_many.extend(entry.beside.puts_of_many)
        batch.deletes.extend(entry.beside.deletes)
    return end


def _put_passed(batch: Batch, start: int, end: int) -> tuple[AddressRange, ...]:
    """Record that the addresses from the tail to an end were passed over, if there are any."""
    if end <= start:
        return ()
    batch.put(pass_key(start), encode_range_end(end))
    return (AddressRange(start, end),)

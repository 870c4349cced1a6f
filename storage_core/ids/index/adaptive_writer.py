"""The sparse index of one shard open for writing: what waits for it, and how it gets to disk.

    handed over     rows of batches that were written, as the appender left them: bounded by rows
    waiting         entries chosen from them, in order of address: bounded by `queue_max`
    written         those of committed rows, so many at a time, in a batch of their own

The appender hands over and goes on; it never waits. What is above a bound is left out and counted:
entries after the first before firsts, and of handed rows as many entries as they would about have
had. No row is ever left out, and an entry that is missing costs a read some time.

An entry is written once its row is committed. So no crash, and no transaction that is given up,
leaves an entry of a row that is not there, whoever comes first to the store.

A write that fails poisons the shard like any other: nobody knows what the disk holds. Whatever else
fails in a run (memory that cannot be had) is reported once; the rows it had in hand are counted
like those left out, and the next run goes on.

Rows are handed over by appenders, one at a time. All the rest happens under `_write_lock`, by
the stream's index worker, or a test. Nothing here asks for a shard's locks.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

import numpy as np

from storage_core.catalog.index_options import IndexOptions
from storage_core.engine.key_value import Batch
from storage_core.errors import ShardlogError
from storage_core.format.counters import IndexCounts
from storage_core.format.keys import encode_index_keys
from storage_core.format.shard_state import KEY_INDEX, encode_index_counts
from storage_core.format.window import WindowScheme
from storage_core.ids.index.entries import (
    Entries,
    EntryChooser,
    WrittenRows,
    no_entries,
    normal_rows,
)
from storage_core.ids.index.spacing import AdaptiveSpacing

# More rows are not handed over; of a thousand a block the worker is hundreds of blocks behind.
ROWS_HANDED_MOST: Final = 2**19
# So many are looked at together; a worker that is awake is not woken again for fewer.
ROWS_AT_ONCE: Final = 2**16
# All that waits is written in batches of so many; each of them costs as much as many entries do.
_ENTRIES_AT_ONCE: Final = 2**11
_log: Final = logging.getLogger(__name__)


class ShardIndex:
    """The index of one shard."""

    def __init__(  # noqa: PLR0913 - what it needs of its shard
        self,
        name: str,
        scheme: WindowScheme,
        options: IndexOptions,
        counts: IndexCounts,
        *,
        write: Callable[[Batch], None],
        committed: Callable[[], int],
        floor: Callable[[], int],
        fail: Callable[[BaseException], None],
    ) -> None:
        """Go on where the shard was left.

        Args:
            name: The shard, as people are told of it.
            scheme: The windows.
            options: How it is kept.
            counts: What was counted before.
            write: Writes a batch, not yet durable.
            committed: Says the exclusive end of what is committed.
            floor: Says the primary below which everything has expired.
            fail: Is told of a write that failed.
        """
        self._write, self._committed, self._floor, self._fail = write, committed, floor, fail
        self._options = options
        self._spacing = AdaptiveSpacing(options, counts.spacing, counts.scale_up, counts.scale_down)
        self._name, self._scheme = name, scheme
        self._chooser = EntryChooser(scheme)
        self._handed: deque[WrittenRows] = deque()
        self._rows_handed = self._rows_woken = self._rows_taken = 0
        self._waiting = no_entries()
        self._entries, self._dropped = counts.entries, counts.dropped
        # Each counted by one thread at a time: what appenders leave out, and the rest.
        self._left_out = 0
        self._write_lock = threading.Lock()
        self._is_held = self._is_stopped = self._has_told = False
        self.wake: Callable[[], None] | None = None
        self.is_watched = False

    # --- the appender's side ---------------------------------------------------------------

    @property
    def is_on(self) -> bool:
        """Tell whether rows are to be handed over."""
        return self._options.is_on and not self._is_stopped

    def hand_over(self, rows: WrittenRows) -> None:
        """Take rows that were written; the shard's append lock is held."""
        count = len(rows.rows.secondary)
        if self._rows_handed - self._rows_taken > ROWS_HANDED_MOST:
            self._left_out += self._entries_of(count)
            return
        self._handed.append(rows)
        self._rows_handed += count
        is_much = self._rows_handed - self._rows_woken >= ROWS_AT_ONCE
        # IMPORTANT: looked at once the rows are there; a worker that goes to sleep looks again.
        if self.wake is not None and (is_much or not self.is_watched):
            self._rows_woken = self._rows_handed
            self.wake()

    def alter(self, options: IndexOptions) -> None:
        """Take over other options."""
        with self._write_lock:
            self._options = options
            self._spacing.alter(options)

    def stop(self) -> None:
        """Write nothing from here on; what was being written is written on return."""
        self._is_stopped = True
        with self._write_lock:
            self._handed.clear()
            self._waiting = no_entries()

    # --- the worker's side -----------------------------------------------------------------

    @property
    def is_stopped(self) -> bool:
        """Tell whether it has been stopped."""
        return self._is_stopped

    @property
    def is_quiet(self) -> bool:
        """Tell whether there is nothing to do before rows are handed over."""
        return not self._handed and not len(self._waiting) and self._spacing.is_least

    @property
    def has_rows(self) -> bool:
        """Tell whether rows were handed over that nobody has looked at."""
        return bool(self._handed)

    @property
    def tick_s(self) -> float:
        """How long a tick is where no block passes."""
        return self._options.tick.total_seconds()

    @property
    def has_entries(self) -> bool:
        """Tell whether any entry was ever written."""
        return self._entries > 0

    def counts(self) -> IndexCounts:
        """Return what was counted; any thread may ask."""
        return self._counted()._replace(queue=len(self._waiting))

    def hold(self, *, is_held: bool) -> None:
        """Write nothing before `drain`, or write again; a write under way is done on return."""
        with self._write_lock:
            self._is_held = is_held

    def take_rows(self, *, writes: bool) -> None:
        """Choose entries from what was handed over: a tick a block, and a batch a look."""
        with self._write_lock:
            self._take_rows(writes=writes and not self._is_held)

    def tick(self) -> None:
        """Let a tick pass without a block."""
        with self._write_lock:
            self._spacing.tick(len(self._waiting))

    def write_all(self) -> None:
        """Write all that waits and is committed, unless held."""
        with self._write_lock:
            while not self._is_held and self._write_some(_ENTRIES_AT_ONCE):
                pass

    def drain(self) -> None:
        """Choose and write, held or not, all entries of committed rows."""
        with self._write_lock:
            self._take_rows(writes=True)
            while self._write_some(_ENTRIES_AT_ONCE):
                pass

    def tell(self, error: Exception) -> None:
        """Report what a run failed with, the first time."""
        if not self._has_told:
            self._has_told = True
            _log.warning("entries are left out of the index of %s: %r", self._name, error)

    # --- inside ----------------------------------------------------------------------------

    def _take_rows(self, *, writes: bool) -> None:
        while self._handed and not self._is_stopped:
            parts, rows, blocks = [], 0, 0
            while self._handed and rows < ROWS_AT_ONCE:
                part = self._handed.popleft()
                parts.append(part.rows)
                rows += len(part.rows.secondary)
                blocks += part.blocks
            self._rows_taken += rows
            try:
                self._keep(self._chooser.choose(normal_rows(parts), self._spacing.spacing))
            except Exception:
                self._dropped += self._entries_of(rows)
                # What it remembers may be half of one moment and half of another.
                self._chooser = EntryChooser(self._scheme)
                raise
            self._spacing.tick(len(self._waiting), blocks)
            if writes:
                self._write_some()

    def _keep(self, entries: Entries) -> None:
        """Let entries wait; above the bound the last that are no firsts go, then the last."""
        if not len(entries):
            return
        waiting = np.concatenate((self._waiting, entries)) if len(self._waiting) else entries
        most = 2 * self._options.queue_max
        if len(waiting) > most:
            chosen = np.argsort(~waiting["is_first"], kind="stable")[:most]
            chosen.sort()
            self._waiting = waiting[chosen]
            self._dropped += len(waiting) - most
        else:
            self._waiting = waiting

    def _write_some(self, least: int = 0) -> bool:
        """Write a batch of entries of committed rows, so many if they are there; tell if any."""
        if self._is_stopped or not len(self._waiting):
            return False
        ready = int(self._waiting["address"].searchsorted(self._committed()))
        part = self._waiting[: min(ready, max(self._spacing.batch, least))]
        if not len(part):
            return False
        # IMPORTANT: each is written with what it is at this moment; what expires meanwhile
        # leaves an entry that bounds nothing wrongly, and that the next expiry takes along.
        alive = part[part["primary"] >= self._floor()]
        batch = Batch()
        keys = encode_index_keys(
            alive["window"], alive["secondary"], alive["primary"], alive["address"]
        )
        batch.put_many(keys, [b""] * len(keys))
        written = self._counted()._replace(entries=self._entries + len(alive))
        batch.put(KEY_INDEX, encode_index_counts(written))
        try:
            self._write(batch)
        except (ShardlogError, OSError) as error:
            self._is_stopped = True
            self._fail(error)
            return False
        self._entries += len(alive)
        self._waiting = self._waiting[len(part) :]
        return True

    def _entries_of(self, rows: int) -> int:
        """Return about how many entries so many rows would have had."""
        return -(-rows // self._spacing.spacing)

    def _counted(self) -> IndexCounts:
        spacing = self._spacing
        dropped = self._dropped + self._left_out
        return IndexCounts(self._entries, dropped, spacing.ups, spacing.downs, spacing.spacing)

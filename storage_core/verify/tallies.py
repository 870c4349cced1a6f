"""Heads, windows and counters added up from blocks, to compare with the stored ones.

Heads and windows are as many as there are ids and windows, so one pass over the blocks takes
the lowest of them only, up to a bound, and says where the next pass begins. Heads are noted
where those on disk stand, and where the committed ones do.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import numpy as np

from storage_core.format.block import Block
from storage_core.format.counters import Counters
from storage_core.format.head import decode_heads
from storage_core.format.keys import (
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    PREFIX_HEAD,
    head_key,
    prefix_end,
)
from storage_core.format.record import State
from storage_core.format.window import Window, WindowScheme, summarise
from storage_core.ids.heads.grouping import Grouping, group
from storage_core.ids.heads.replay import replay_rows
from storage_core.ids.heads.table import Heads, HeadTable
from storage_core.platform.arrow import binary_sizes
from storage_core.read.snapshot import ShardSnapshot
from storage_core.write.states import StateRules, judge

HEADS_AT_ONCE: Final = 2**22
WINDOWS_AT_ONCE: Final = 2**17
_CHUNK: Final = 2**14


@dataclass(slots=True)
class HeadTally:
    """Heads of the ids from `first` to before `limit`, replayed over all blocks.

    Attributes:
        first: Least id of this pass.
        marks: Addresses at which the heads are noted.
        jitter: The stream's.
        at_once: How many ids a pass takes at most.
        judges_late: Whether a late row must stand behind one that makes it so. Retried dead letters
            were late where they came from, and those rows are elsewhere.
    """

    first: int
    marks: tuple[int, ...]
    jitter: int
    at_once: int = HEADS_AT_ONCE
    judges_late: bool = True
    limit: int = INT32_MAX + 1
    absorbed: int = 0
    noted: dict[int, Heads] = field(default_factory=dict)
    _table: HeadTable = field(default_factory=lambda: HeadTable(capacity=2**62))

    def add(self, block: Block) -> list[int]:
        """Take a block; return the addresses of rows whose state does not follow from the heads."""
        self._note(block.first)
        ids = block.secondaries
        states, primaries, addresses = block.states, block.primaries, block.addresses
        mine = (ids >= self.first) & (ids < self.limit)
        if not mine.all():
            ids, primaries, addresses = ids[mine], primaries[mine], addresses[mine]
            states = None if states is None else states[mine]
        if not len(ids):
            return []
        groups = group(ids)
        before, _ = self._table.find(groups.ids)
        misjudged = self._misjudged(states, primaries, addresses, groups, before)
        self._table.put(replay_rows(states, primaries, addresses, groups, before))
        if len(self._table) > self.at_once:
            self._shrink()
        return misjudged

    def finish(self) -> None:
        """Note the heads of marks behind the last block."""
        self._note(INT64_MAX)

    def _note(self, reached: int) -> None:
        for mark in self.marks:
            if mark <= reached and mark not in self.noted:
                heads = self._table.heads
                self.noted[mark] = heads.where(heads.last >= 0)

    def _shrink(self) -> None:
        """Leave the upper half of the ids to a later pass."""
        heads = self._table.heads
        self.limit = int(heads.ids[len(heads.ids) // 2])
        self._table = HeadTable(capacity=2**62)
        self._table.put(heads.where(heads.ids < self.limit))
        for mark, noted in self.noted.items():
            self.noted[mark] = noted.where(noted.ids < self.limit)

    def _misjudged(
        self,
        states: np.ndarray[tuple[int], np.dtype[np.uint8]] | None,
        primaries: np.ndarray[tuple[int], np.dtype[np.int64]],
        addresses: np.ndarray[tuple[int], np.dtype[np.int64]],
        groups: Grouping,
        before: Heads,
    ) -> list[int]:
        """Judge normal and late rows anew; what is ahead or expired, clock and floor decided."""
        most = State.LATE if self.judges_late else State.NORMAL
        if states is not None and (states > most).any():
            judgeable = states <= most
            primaries, addresses, states = (
                primaries[judgeable],
                addresses[judgeable],
                states[judgeable],
            )
            groups = Grouping(groups.ids, groups.codes[judgeable])
            if not len(primaries):
                return []
        rules = StateRules(INT64_MIN, INT64_MAX, self.jitter)
        judged = judge(primaries, groups, before.primary, rules)
        self.absorbed += judged.absorbed
        if states is None and judged.states is None:
            return []
        stored, expected = (
            np.zeros(len(primaries), np.uint8) if values is None else values
            for values in (states, judged.states)
        )
        misjudged: list[int] = addresses[stored != expected].tolist()
        return misjudged


@dataclass(slots=True)
class WindowTally:
    """Windows from `first` to before `limit`, added up from all blocks."""

    first: int
    scheme: WindowScheme
    at_once: int = WINDOWS_AT_ONCE
    limit: int = INT64_MAX
    windows: dict[int, Window] = field(default_factory=dict)

    def add(self, block: Block) -> None:
        """Take a block."""
        sizes = binary_sizes(block.batch.column("payload"))
        added = summarise(self.scheme, block.primaries, block.addresses, sizes, block.states)
        for number, window in added.items():
            if self.first <= number < self.limit:
                self.windows[number] = self.windows.get(number, Window()).widened(window)
        if len(self.windows) > self.at_once:
            numbers = sorted(self.windows)
            self.limit = numbers[len(numbers) // 2]
            self.windows = {n: w for n, w in self.windows.items() if n < self.limit}


def counts_of(block: Block, shard: int, route_mask: int | None) -> Counters:
    """Return what a block's rows add to the shard's counters, as far as they tell."""
    states = block.states
    of_state = [0] * 4 if states is None else np.bincount(states, minlength=4).tolist()
    strays = 0
    if route_mask:
        strays = int(np.count_nonzero((block.secondaries & route_mask) != shard))
    return Counters(
        records=len(block),
        late_arrivals=of_state[State.LATE],
        ahead=of_state[State.AHEAD],
        expired=of_state[State.EXPIRED],
        blocks=1,
        payload_bytes=int(binary_sizes(block.batch.column("payload")).sum(dtype=np.int64)),
        strays=strays,
    )


def stored_heads(view: ShardSnapshot, first: int, limit: int) -> Iterator[Heads]:
    """Yield the heads on disk of the ids from `first` to before `limit`, some at a time."""
    end = head_key(limit) if limit <= INT32_MAX else prefix_end(PREFIX_HEAD)
    items = view.meta_items(head_key(max(first, INT32_MIN)), end)
    while taken := list(islice(items, _CHUNK)):
        yield Heads(*decode_heads(taken))


def parts_of(heads: Heads) -> Iterator[Heads]:
    """Yield heads, some at a time."""
    for start in range(0, len(heads.ids), _CHUNK):
        yield heads.where(slice(start, start + _CHUNK))


def differing(
    expected: Heads, stored: Iterable[Heads], *, is_exact: bool
) -> Iterator[tuple[int, int, bool]]:
    """Yield id, expected address (-1: none) and whether it is behind, of heads that are wrong.

    Where the heads may rest on rows that are gone only those that are behind are wrong.
    """
    seen = np.zeros(len(expected.ids), dtype=np.bool_)
    for heads in stored:
        positions = np.searchsorted(expected.ids, heads.ids)
        near = np.minimum(positions, max(0, len(expected.ids) - 1))
        is_match = np.zeros(len(near), np.bool_)
        if len(expected.ids):
            is_match = expected.ids[near] == heads.ids
        ours, theirs = expected.where(near[is_match]), heads.where(is_match)
        seen[near[is_match]] = True
        behind = (theirs.primary < ours.primary) | (theirs.last < ours.last)
        wrong = behind
        if is_exact:
            wrong = (theirs.values != ours.values).any(axis=1)
            for secondary in heads.ids[~is_match & (heads.last >= 0)].tolist():
                yield secondary, -1, False
        for row in np.flatnonzero(wrong).tolist():
            yield int(ours.ids[row]), int(ours.address[row]), bool(behind[row])
    for row in np.flatnonzero(~seen).tolist():
        yield int(expected.ids[row]), int(expected.address[row]), True

"""Verify: read every block of a shard and compare all that follows from them.

What is compared: blocks with their zones and each state with the heads before it; late and
ahead rows with their ordered copies, content and all; windows, heads (on disk and as `latest`
has them) and counters with what the blocks add up to; dead letters, source and tail with each
other; the ids of transactions with their places; keys and schemas with their numbers; entries of
the index with the rows that they name; and that no key is none of the log's. What is not looked
at, or not exactly, is told in the report.

All of it is of one moment, with the rows that are written and not committed. It goes on behind
a block that cannot be read; behind a broken chain of zones it cannot. Memory is bounded: of
ids, windows and problems it holds so many, and reads the blocks again for the rest.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from storage_core.catalog.origin import RETRY_SHARDS_FROM
from storage_core.errors import CorruptionError
from storage_core.format.block import Block
from storage_core.format.counters import Counters
from storage_core.format.keys import (
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    head_key,
    window_key,
)
from storage_core.format.shard_state import AddressRange
from storage_core.format.window import Window
from storage_core.format.zone import Zone
from storage_core.ids.heads.grouping import Int32s
from storage_core.parts.part_home import uncached_opener_of
from storage_core.parts.snapshot import PartIndex
from storage_core.read.answer import trimmed_rows_of
from storage_core.read.block_proof import disagreement
from storage_core.read.snapshot import ShardSnapshot
from storage_core.verify.block_checks import CopyCheck
from storage_core.verify.blocks_together import blocks_together
from storage_core.verify.findings import PROBLEMS_MAX, Findings, Problem
from storage_core.verify.index_checks import check_index
from storage_core.verify.key_checks import DictionaryCheck
from storage_core.verify.part_checks import away_parts, check_parts
from storage_core.verify.schema_checks import FingerprintOf, SchemaCheck
from storage_core.verify.state_checks import (
    DeadLetterCheck,
    check_counters,
    check_keys,
    check_largest_of_heads,
    check_places,
    check_tail,
)
from storage_core.verify.tallies import (
    HEADS_AT_ONCE,
    WINDOWS_AT_ONCE,
    HeadTally,
    WindowTally,
    counts_of,
    differing,
    parts_of,
    stored_heads,
)
from storage_core.write.shard import Shard

NEVER_CHECKED: Final = (
    "counts of duplicates and of expired rows without an address: nothing else records them",
    "attachments, contents of dead letters, and fields of a source other than `next`",
    "staged rows: they are verified when their transaction is finished",
    "blocks without a zone: no read uses them",
)
UNCHECKED_SUMS: Final = (
    "counters, windows, heads and states only by their lower bounds: some rows are gone"
)
UNCHECKED_COUNTS: Final = (
    "counters and windows only by their lower bounds: rows of a transaction were given up"
)
UNCHECKED_LAKE: Final = (
    "rows that only the lake has, nor counters, windows, heads and states but by their lower "
    "bounds: `--lake` reads them"
)
UNCHECKED_BEGUN: Final = (
    "counters, windows, heads and states only by their lower bounds: the log began from the lake"
)
UNCHECKED_CHAIN: Final = "everything derived from blocks: the chain of zones is broken"
_BLOCKS_PER_PROGRESS: Final = 64

Progress = Callable[[int, int, int], None]
WithHeads = Callable[[Int32s], ShardSnapshot]


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What was read, and what is wrong with it.

    Attributes:
        blocks: Blocks of the log that were read.
        rows: Rows in them, and in the blocks that were made again of parts, as they were trimmed.
        late_rows: Late and ahead rows among them.
        problems: What is wrong; the first thousand of each shard.
        left_out: How many more problems there are.
        unchecked: What was not looked at, or not exactly, each with its reason.
        parts: Files of parts that were read.
        parts_in_lake: Files that were not, since only the lake has them; it was asked whether they
            are there.
    """

    blocks: int = 0
    rows: int = 0
    late_rows: int = 0
    problems: tuple[Problem, ...] = ()
    left_out: int = 0
    unchecked: tuple[str, ...] = ()
    parts: int = 0
    parts_in_lake: int = 0

    @property
    def is_clean(self) -> bool:
        """Tell whether nothing is wrong."""
        return not self.problems

    def plus(self, other: "VerifyReport") -> "VerifyReport":
        """Return both reports as one."""
        return VerifyReport(
            self.blocks + other.blocks,
            self.rows + other.rows,
            self.late_rows + other.late_rows,
            self.problems + other.problems,
            self.left_out + other.left_out,
            tuple(dict.fromkeys((*self.unchecked, *other.unchecked))),
            self.parts + other.parts,
            self.parts_in_lake + other.parts_in_lake,
        )


@dataclass(frozen=True, slots=True)
class VerifyLimits:
    """How much verify holds in memory at once, and whether it reads what only the lake has."""

    heads: int = HEADS_AT_ONCE
    windows: int = WINDOWS_AT_ONCE
    reads_lake: bool = False


def verify_shard(
    shard: Shard,
    progress: Progress | None = None,
    limits: VerifyLimits = VerifyLimits(),
    fingerprint_of: FingerprintOf | None = None,
) -> VerifyReport:
    """Verify one shard that is open for writing; blocks that cannot be read become lost.

    Args:
        shard: The shard.
        progress: Called every so many blocks with the shard, the address that was reached and
            the exclusive end; once more for each further pass over the blocks.
        limits: How much to hold in memory.
        fingerprint_of: Says the fingerprint of a schema's text; without it texts are not compared.
    """
    committed = shard.committed()
    view = shard.snapshots.whole()
    check = ViewCheck(view, committed, shard.context.directory, fingerprint_of)
    try:
        report = check.run(progress, limits, shard.snapshots.with_heads)
    finally:
        view.close()
    shard.note_lost([block for block in view.unreadable if block.end <= committed])
    return report


class ViewCheck:
    """All passes over one view of a shard, whoever made it."""

    def __init__(
        self,
        view: ShardSnapshot,
        committed: int,
        directory: Path,
        fingerprint_of: FingerprintOf | None,
    ) -> None:
        """Check a view of what lies in a shard's directory; `committed` was read before it."""
        findings = Findings(view.shard, str(directory / "db"))
        self._directory = directory
        self._view = view
        self._state = state = view.state
        self._committed = committed
        self._findings = findings
        self._copies = CopyCheck(view, findings)
        self._dead = DeadLetterCheck(view, state, findings)
        self._dictionary = DictionaryCheck(view, findings)
        self._schemas = SchemaCheck(view, findings, fingerprint_of)
        self._counts = Counters()
        self._has_begun_from_lake = state.lake_predecessor is not None
        self._is_whole = state.start == state.born and not self._has_begun_from_lake
        self._is_broken = False
        self._is_all_here = True
        self._away = PartIndex([])
        self._made_again = 0
        self._reported_heads: set[int] = set()
        for lost in state.lost:
            findings.add("lost", "acknowledged rows are lost", lost.start, lost.end)

    def run(
        self, progress: Progress | None, limits: VerifyLimits, with_heads: WithHeads
    ) -> VerifyReport:
        """Read the blocks as often as it takes, then the parts; return what is wrong.

        Args:
            progress: As for `verify_shard`.
            limits: How much to hold in memory.
            with_heads: Returns a view of what is committed with the heads of ids; it is closed.
        """
        if limits.reads_lake:
            # What a cache of this machine has of the lake's files says nothing of these.
            self._view.rebuild_by(trimmed_rows_of(self._directory, uncached_opener_of))
        self._compare(progress, limits, with_heads)
        parts = check_parts(
            self._view, self._directory, self._findings, reads_lake=limits.reads_lake
        )
        return replace(self._report(), parts=parts.read, parts_in_lake=parts.in_lake)

    def _compare(
        self, progress: Progress | None, limits: VerifyLimits, with_heads: WithHeads
    ) -> None:
        if not limits.reads_lake and self._state.trimmed > self._state.start:
            # A damaged part list is reported with the parts.
            with suppress(CorruptionError):
                self._away = away_parts(self._view, self._directory)
        state, view, findings = self._state, self._view, self._findings
        marks = (state.heads_through, self._committed)
        first_id, first_window, is_first = INT32_MIN, INT64_MIN, True
        judges_late = view.shard < RETRY_SHARDS_FROM
        while is_first or first_id <= INT32_MAX or first_window < INT64_MAX:
            heads = HeadTally(first_id, marks, view.jitter, limits.heads, judges_late)
            windows = WindowTally(first_window, view.scheme, limits.windows)
            self._pass(heads, windows, progress, is_first=is_first)
            if self._is_broken:
                return
            self._counts = self._counts.plus(Counters(jitter_absorbed=heads.absorbed))
            self._compare_stored_heads(heads)
            self._compare_visible_heads(heads, with_heads)
            self._compare_windows(windows)
            first_id, first_window, is_first = heads.limit, windows.limit, False
        self._copies.finish(is_whole=self._is_whole)
        end = self._dead.finish()
        check_counters(state, self._counts, self._dead.count, findings, is_exact=self._is_exact)
        check_tail(state, view.place.lineage, end, findings)
        check_places(view, state, findings)
        self._dictionary.finish()
        self._schemas.finish()
        check_index(view, state, findings)
        check_keys(view, findings)

    def _report(self) -> VerifyReport:
        """Return what was read and what is wrong."""
        unchecked = list(NEVER_CHECKED)
        if self._is_broken:
            unchecked.append(UNCHECKED_CHAIN)
        elif not self._is_all_here:
            unchecked.append(UNCHECKED_LAKE)
        elif self._has_begun_from_lake:
            unchecked.append(UNCHECKED_BEGUN)
        elif not self._is_whole:
            unchecked.append(UNCHECKED_SUMS)
        elif not self._is_exact:
            unchecked.append(UNCHECKED_COUNTS)
        return VerifyReport(
            self._counts.blocks - self._made_again,
            self._counts.records,
            self._copies.rows,
            self._findings.problems,
            self._findings.left_out,
            tuple(unchecked),
        )

    @property
    def _is_exact(self) -> bool:
        """Tell whether what was counted when rows came is what the blocks still hold."""
        return self._is_whole and not self._state.has_removed

    def _pass(
        self, heads: HeadTally, windows: WindowTally, progress: Progress | None, *, is_first: bool
    ) -> None:
        view, end = self._view, self._state.tail.next
        reached = self._state.start
        try:
            for number, (zone, blocks, joined) in enumerate(
                blocks_together(view, self._zones_here(reached, end), heads.marks)
            ):
                if progress is not None and (blocks > 1 or number % _BLOCKS_PER_PROGRESS == 0):
                    progress(view.shard, zone.first, end)
                # A zone that is given up is not shown; the next one names its end all the same.
                self._is_whole &= zone.previous_end <= reached
                reached = zone.end
                pieces = self._read(zone, is_first=is_first) if joined is None else iter((joined,))
                count = 0
                for count, block in enumerate(pieces, start=1):
                    if is_first:
                        is_compared = joined is not None or zone.is_wide
                        of_blocks = blocks if count == 1 else 0
                        self._compare_block(None if is_compared else zone, block, of_blocks)
                    self._take(block, heads, windows)
                if is_first:
                    self._made_again += count > 0 and zone.end <= self._state.trimmed
        except CorruptionError as error:
            self._is_broken = True
            self._findings.add("zone", error.message, error.start, error.end)
        self._is_whole &= reached >= self._state.tail.blocks_end
        heads.finish()

    def _take(self, block: Block, heads: HeadTally, windows: WindowTally) -> None:
        misjudged = heads.add(block)
        windows.add(block)
        if self._is_whole and misjudged:
            message = f"{len(misjudged)} rows have another state than the rows before them imply"
            self._findings.add("block", message, misjudged[0], misjudged[-1] + 1)

    def _zones_here(self, start: int, end: int) -> Iterator[Zone]:
        """Yield the zones of a range, without those whose rows only the lake has."""
        for zone in self._view.zones(start, end):
            if zone.end <= self._state.trimmed and self._away.overlapping(zone.first, zone.end):
                self._is_whole, self._is_all_here = False, False
            else:
                yield zone

    def _read(self, zone: Zone, *, is_first: bool) -> Iterator[Block]:
        """Yield the block of a zone, of a wide one its pieces, as far as it can be read."""
        if any(lost.overlaps(zone.first, zone.end) for lost in self._state.lost):
            self._is_whole = False
            return
        if self._view.ranges_of(zone) != [AddressRange(zone.first, zone.end)]:
            self._is_whole = False
        try:
            for _, block in self._view.pieces(zone):
                yield block
        except CorruptionError as error:
            self._is_whole = False
            if is_first:
                self._findings.add("block", error.message, zone.first, zone.end)

    def _compare_block(self, zone: Zone | None, block: Block, blocks: int) -> None:
        """Compare a block with its zone, unless it was, and with what is kept beside it."""
        view = self._view
        if zone is not None and (message := disagreement([zone], block)) is not None:
            self._findings.add("zone", message, zone.first, zone.end)
        self._copies.compare(block)
        self._dead.compare(block)
        self._dictionary.compare(block)
        self._schemas.compare(block)
        counts = counts_of(block, view.shard, view.route_mask)
        self._counts = self._counts.plus(counts._replace(blocks=blocks))

    def _compare_stored_heads(self, tally: HeadTally) -> None:
        """Compare the heads on disk with those of the blocks below where they stand."""
        expected = tally.noted[self._state.heads_through]
        stored = stored_heads(self._view, tally.first, tally.limit)
        for secondary, address, is_behind in differing(expected, stored, is_exact=self._is_whole):
            if len(self._reported_heads) < PROBLEMS_MAX:
                self._reported_heads.add(secondary)
            self._add_head(secondary, address, is_behind=is_behind)
        if len(expected.ids):
            largest = int(expected.primary.max())
            check_largest_of_heads(self._view, largest, self._findings)

    def _compare_visible_heads(self, tally: HeadTally, with_heads: WithHeads) -> None:
        """Compare the heads that answer `latest`; they may have moved on, and never go back."""
        for expected in parts_of(tally.noted[self._committed]):
            view = with_heads(expected.ids)
            try:
                heads, is_still = view.heads(expected.ids), view.committed == self._committed
            except CorruptionError:
                # A reader makes them of blocks; those that cannot be read were told.
                return
            finally:
                view.close()
            is_exact = is_still and self._is_whole
            for secondary, address, is_behind in differing(expected, [heads], is_exact=is_exact):
                if secondary not in self._reported_heads:
                    self._add_head(secondary, address, is_behind=is_behind)

    def _add_head(self, secondary: int, address: int, *, is_behind: bool) -> None:
        if address < 0:
            self._findings.add(
                "head", f"id {secondary} has a head, but no normal row", key=head_key(secondary)
            )
            return
        message = (
            f"the head of id {secondary} {'is behind' if is_behind else 'differs from its rows'}"
        )
        self._findings.add("head", message, address, address + 1, head_key(secondary))

    def _compare_windows(self, tally: WindowTally) -> None:
        # Those before the floor's are there until expiry comes to them, or are not.
        first = max(tally.first, self._view.scheme.of(self._state.floor))
        expected = {number: window for number, window in tally.windows.items() if number >= first}
        missing = set(expected)
        if first >= tally.limit:
            return
        for number, stored in self._view.windows(first, tally.limit - 1):
            missing.discard(number)
            self._compare_window(number, expected.get(number), stored)
        for number in sorted(missing):
            self._compare_window(number, expected[number], Window())

    def _compare_window(self, number: int, expected: Window | None, stored: Window) -> None:
        key = window_key(number)
        if expected is None:
            if self._is_exact:
                self._findings.add("window", f"window {number} has no rows", key=key)
            return
        place = (min(expected.address_min, expected.address_last + 1), expected.address_last + 1)
        if stored.widened(_bounds_of(expected)) != stored:
            self._findings.add("window", f"window {number} does not cover its rows", *place, key)
        elif self._has_begun_from_lake:
            # Of each window the files tell what it may have, not how much of it.
            return
        elif stored != expected and (self._is_exact or _counts_less(stored, expected)):
            self._findings.add("window", f"window {number} differs from its rows", *place, key)


def _bounds_of(window: Window) -> Window:
    """Return a window's bounds without its counts."""
    return Window(window.address_min, window.address_last)


def _counts_less(stored: Window, expected: Window) -> bool:
    return (
        stored.records < expected.records
        or stored.late_records < expected.late_records
        or stored.payload_bytes < expected.payload_bytes
    )

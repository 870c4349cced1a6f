"""What makes a shard's files in a table those of its part list: compared by their names alone.

Each file of the table names the part of which it has rows. A part that has files has all of them
with its visible rows, since they came in one commit; so three things tell what is to be done:

* A listed part above the published address is new.
* A listed part below it without a file, where files of parts that are listed no more have the same
  addresses, was merged of those, and takes their place. Without such files it has no visible row:
  what it was merged of had none either, and rows that are hidden stay so.
* A file of a part that is listed no more goes: other parts have its rows, or they have expired.

Files and parts with addresses in common change in one commit, so that no version of the table
lacks a row or has one twice. Where a part reaches over the published address it becomes two files:
one with rows that the table had, and one with new ones.

Below the log's first address the table has what another owner of the shard published. That stays,
and with it the whole of a file that reaches above it.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from storage_core.format.part_entry import PartEntry, ShardParts
from storage_core.format.shard_state import AddressRange
from storage_core.lake.image_names import ImageName

# What one commit adds, unless parts with addresses in common are more.
STEP_PARTS_MAX: Final = 16
STEP_ROWS_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class ShardListing:
    """A shard's part list at one moment, and its files in a table.

    Attributes:
        entries: The parts.
        sealed: Rows below this address are in parts.
        born: The first address that the log can ever have had.
        begin: The published address: rows below it are in the table.
        files: The files of the shard in the table, by path.
        missing: Digests of parts below the published address that have visible rows, and no file.
    """

    entries: tuple[PartEntry, ...]
    sealed: int
    born: int
    begin: int
    files: Mapping[str, ImageName]
    missing: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class AddedPart:
    """A part of which the table gets files.

    Attributes:
        entry: The part.
        pieces: A file for each: of addresses that were published, and of those that were not.
    """

    entry: PartEntry
    pieces: tuple[AddressRange, ...]


@dataclass(frozen=True, slots=True)
class MirrorStep:
    """What one commit changes.

    Attributes:
        adds: The parts of which the table gets files.
        removes: The paths of files that go.
        end: The address that is published then.
    """

    adds: tuple[AddedPart, ...]
    removes: tuple[str, ...]
    end: int


@dataclass(frozen=True, slots=True)
class StepLimits:
    """How much a step does at most, if addresses allow it."""

    parts: int = STEP_PARTS_MAX
    rows: int = STEP_ROWS_MAX


_USUAL: Final = StepLimits()


@dataclass(slots=True)
class _Run:
    """Parts and files with addresses in common, which change together."""

    first: int
    last: int
    adds: list[AddedPart]
    removes: list[str]

    @property
    def rows(self) -> int:
        return sum(part.entry.rows for part in self.adds)

    def take(self, other: "_Run") -> None:
        self.last = max(self.last, other.last)
        self.adds += other.adds
        self.removes += other.removes


def next_step(shard: ShardListing, limits: StepLimits = _USUAL) -> MirrorStep | None:
    """Return what the next commit changes; None where the table is as the part list.

    New rows go first, in the order of addresses and without a hole; what was merged or has expired
    is brought along as far as the limits allow.

    Args:
        shard: The part list, and the table.
        limits: How much to do at once.
    """
    if shard.sealed < shard.begin:
        # Another owner has published more than this log has: what it has is old.
        return None
    runs = list(_runs(shard))
    new = [run for run in runs if run.last >= shard.begin]
    old = [run for run in runs if run.last < shard.begin]
    chosen = _within(new, limits, ())
    end = shard.sealed if len(chosen) == len(new) else new[len(chosen)].first
    if len(chosen) == len(new):
        chosen += _within(old, limits, chosen)
    if not chosen and end == shard.begin:
        return None
    return MirrorStep(
        tuple(part for run in chosen for part in run.adds),
        tuple(path for run in chosen for path in run.removes),
        end,
    )


def base_of(shard: ShardListing) -> int:
    """Return the address below which the table has what another owner published."""
    listed = {entry.digest.hex() for entry in shard.entries}
    names = shard.files.values()
    return _base(shard.born, [name for name in names if name.entry_digest not in listed])


def parts_without_files(
    parts: ShardParts, files: Mapping[str, ImageName], base: int, begin: int
) -> list[PartEntry]:
    """Return the parts below what is published of which the table has nothing at all.

    Args:
        parts: The part list.
        files: The files of the shard by path.
        base: The address below which the table has what another owner published.
        begin: The published address.
    """
    listed = {entry.digest.hex() for entry in parts.entries}
    with_files = {name.entry_digest for name in files.values()}
    # Files of parts that were merged since, which the next publish replaces.
    replaced = _Ranges(
        (name.first, name.last) for name in files.values() if name.entry_digest not in listed
    )
    return [
        entry
        for entry in parts.entries
        if entry.digest.hex() not in with_files
        and max(entry.first, base) < min(entry.last + 1, begin)
        and not replaced.overlap(max(entry.first, base), min(entry.last, begin - 1))
    ]


def _within(runs: list[_Run], limits: StepLimits, begun: Iterable[_Run]) -> list[_Run]:
    """Return the first of some runs that fit in a step with others; one where there is no other."""
    parts = sum(len(run.adds) for run in begun)
    rows = sum(run.rows for run in begun)
    chosen: list[_Run] = []
    for run in runs:
        parts += len(run.adds)
        rows += run.rows
        if (parts > limits.parts or rows > limits.rows) and (chosen or parts > len(run.adds)):
            break
        chosen.append(run)
    return chosen


def _runs(shard: ShardListing) -> Iterator[_Run]:
    """Yield what is to be changed, by address."""
    listed = {entry.digest.hex() for entry in shard.entries}
    obsolete = {path: name for path, name in shard.files.items() if name.entry_digest not in listed}
    base = _base(shard.born, obsolete.values())
    changes = [
        _Run(name.first, name.last, [], [path])
        for path, name in obsolete.items()
        if name.first >= base
    ]
    replaced = _Ranges((run.first, run.last) for run in changes)
    imaged = {name.entry_digest for name in shard.files.values()}
    for entry in shard.entries:
        first = max(entry.first, base)
        if entry.digest.hex() in imaged or entry.last < first:
            continue
        is_due = entry.last >= shard.begin or entry.digest.hex() in shard.missing
        if is_due or replaced.overlap(first, entry.last):
            part = AddedPart(entry, tuple(_pieces(first, entry.last + 1, shard.begin)))
            changes.append(_Run(first, entry.last, [part], []))
    yield from _united(changes)


def _base(born: int, names: Iterable[ImageName]) -> int:
    """Return the address from which on files that nothing lists are to go.

    Those below it are another owner's.
    """
    base = born
    for name in sorted(names, key=lambda name: name.first):
        if name.first < base:
            base = max(base, name.last + 1)
    return base


def _pieces(first: int, end: int, begin: int) -> Iterator[AddressRange]:
    """Yield an address range, cut in two where an address lies within."""
    if first < begin < end:
        yield AddressRange(first, begin)
        yield AddressRange(begin, end)
    else:
        yield AddressRange(first, end)


def _united(changes: list[_Run]) -> Iterator[_Run]:
    """Yield changes by address, those with addresses in common as one."""
    run: _Run | None = None
    for change in sorted(changes, key=lambda change: (change.first, change.last)):
        if run is not None and change.first <= run.last:
            run.take(change)
            continue
        if run is not None:
            yield run
        run = change
    if run is not None:
        yield run


class _Ranges:
    """Closed ranges of addresses, to be asked whether one overlaps any of them."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        apart: list[tuple[int, int]] = []
        for first, last in sorted(ranges):
            if apart and first <= apart[-1][1]:
                apart[-1] = (apart[-1][0], max(apart[-1][1], last))
            else:
                apart.append((first, last))
        self._firsts = [first for first, _ in apart]
        self._lasts = [last for _, last in apart]

    def overlap(self, first: int, last: int) -> bool:
        """Tell whether a range has addresses in common with one of them."""
        index = bisect_left(self._lasts, first)
        return index < len(self._firsts) and self._firsts[index] <= last

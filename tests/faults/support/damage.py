"""Ways to spoil one file of a store, and the choice of what to spoil.

A `Damage` names a file and what happens to it; it can be printed and done again. `plan_damages`
gives for each kind of file as many random ones as wanted (a flipped bit, 4 KiB of zeros, a
truncation) and every damage of which there are only a few: the file gone, WAL and MANIFEST cut at
each end of a record, blocks of an SST or of a segment exchanged.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Literal, get_args

from tests.faults.support.file_formats import (
    Span,
    blocks_of_segment,
    data_blocks,
    family_of,
    is_whole_table,
    record_ends,
    values,
)
from tests.faults.support.known_store import STREAM
from tests.thin import thin

FileKind = Literal[
    "WAL",
    "MANIFEST",
    "CURRENT",
    "log SST",
    "default SST",
    "segment",
    "marker",
    "stream.json",
    "options.json",
]
PAGE = 4096
# Of the damages that one kind of file alone has, as cuts at each of its records.
OF_KIND = 3
_SST_END_BYTES = 3000
_SLOT_BYTES = 60


@dataclass(frozen=True, slots=True)
class Damage:
    """What happens to one file, `path` from the root on."""

    path: Path
    change: Literal["flip", "zero", "cut", "remove", "exchange"]
    offset: int = 0
    bit: int = 0
    spans: tuple[Span, ...] = ()

    def inflict(self, root: Path) -> None:
        """Do it to a copy of the store."""
        path = root / self.path
        if self.change == "remove":
            path.unlink()
        elif self.change == "cut":
            os.truncate(path, self.offset)
        else:
            data = bytearray(path.read_bytes())
            self._spoil(data)
            path.write_bytes(data)

    def _spoil(self, data: bytearray) -> None:
        if self.change == "flip":
            data[self.offset] ^= 1 << self.bit
        elif self.change == "zero":
            end = min(self.offset + PAGE, len(data))
            data[self.offset : end] = bytes(end - self.offset)
        else:
            first, other = self.spans
            first_bytes = data[first.start : first.end]
            data[first.start : first.end] = data[other.start : other.end]
            data[other.start : other.end] = first_bytes


def plan_damages(root: Path, kind: FileKind, count: int, chance: Random) -> list[Damage]:
    """Choose what to do to the files of one kind: `count` damages, and some that it alone has."""
    files = sorted(path for path in files_of(root, kind) if path.stat().st_size)
    assert files, f"the known store has no {kind}"
    # Where there are few of each, some kinds of file have the one half of ways, and some the other.
    first = 2 * get_args(FileKind).index(kind)
    damages = [
        _random_damage(root, chance.choice(files), number, chance)
        for number in range(first, first + count)
    ]
    of_kind = [
        replace(damage, path=path.relative_to(root))
        for path in files
        for damage in _few_damages(path, kind, chance)
    ]
    return damages + thin(of_kind, OF_KIND)


def files_of(root: Path, kind: FileKind) -> list[Path]:
    """Return the files of one kind."""
    stream = root / STREAM
    match kind:
        case "WAL":
            return list(stream.glob("shard-*/db/*.log"))
        case "MANIFEST":
            return list(stream.glob("shard-*/db/MANIFEST-*"))
        case "log SST" | "default SST":
            tables = filter(is_whole_table, stream.glob("shard-*/db/*.sst"))
            return [path for path in tables if family_of(path) == kind.removesuffix(" SST")]
        case "segment":
            return list(stream.glob("shard-*/db/segments/*"))
        case "CURRENT" | "marker":
            return [path for path in stream.glob("shard-*/**/*") if path.name == kind]
        case "stream.json" | "options.json":
            return [stream / kind]


def _random_damage(root: Path, path: Path, number: int, chance: Random) -> Damage:
    size = path.stat().st_size
    relative = path.relative_to(root)
    match number % 4:
        case 0:
            return Damage(relative, "flip", chance.randrange(size), chance.randrange(8))
        case 1:
            return Damage(relative, "flip", _tender_place(path, chance), chance.randrange(8))
        case 2:
            return Damage(relative, "zero", chance.randrange(size) // PAGE * PAGE)
        case _:
            return Damage(relative, "cut", chance.randrange(size))


def _tender_place(path: Path, chance: Random) -> int:
    """Return a place in a marker's slot, or near the end, where an SST names the rest."""
    size = path.stat().st_size
    if path.name == "marker":
        return chance.choice([0, PAGE]) + chance.randrange(_SLOT_BYTES)
    return size - 1 - chance.randrange(min(size, _SST_END_BYTES))


def _few_damages(path: Path, kind: FileKind, chance: Random) -> Iterator[Damage]:
    yield Damage(path, "remove")
    yield Damage(path, "cut", 0)
    if kind in ("WAL", "MANIFEST"):
        ends = record_ends(path)
        for end in ends[:-1]:
            yield Damage(path, "cut", end)
    if kind == "log SST":
        blocks = data_blocks(path)
        yield from _exchange(path, blocks, chance)
        yield from _exchange(path, [v for block in blocks for v in values(path, block)], chance)
    if kind == "segment":
        yield from _exchange(path, blocks_of_segment(path), chance)


def _exchange(path: Path, spans: list[Span], chance: Random) -> Iterator[Damage]:
    """Exchange two pieces of equal length, if there are such."""
    sizes: dict[int, list[Span]] = {}
    for span in spans:
        sizes.setdefault(span.end - span.start, []).append(span)
    alike = [group for group in sizes.values() if len(group) > 1]
    if alike:
        first, other = chance.sample(chance.choice(alike), 2)
        yield Damage(path, "exchange", spans=(first, other))

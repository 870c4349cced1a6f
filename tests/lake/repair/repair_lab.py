"""The lab: a stream with its own lake, whose files are damaged here and there, and repaired.

lab.damage(part)          the part's file on this machine has other bytes, of the same number
lab.lose(part)            it is gone
lab.damage_stored(part)   the store's file has other bytes
lab.lose_stored(part)     it is gone
lab.damage_log(1, how)    the log of a shard is damaged, and nobody has it open
lab.repair()              what was done, as (kind, file)
lab.check()               reads, the table and other programs show each row once
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pyarrow.dataset as ds

from storage_core import Part, StreamReader
from storage_core.lake import LakeRepair, check_lake, repair_lake
from storage_core.lake.absent.lake_parts import LakeParts, lake_cache
from storage_core.lake.app_id import stream_of
from storage_core.lake.image_names import whole_image_name
from storage_core.lake.publish import publish_stream
from storage_core.lake.repair.local_repair import LocalRepair
from storage_core.lake.repair.part_copies import PartCopies
from storage_core.lake.table import LakeTable
from storage_core.platform.overriding import override
from tests.lake.publish.publish_lab import PublishLab
from tests.lake.support.stores import DirectoryStore, Store
from tests.log.parts.parts_lab import NAME


class RepairLab(PublishLab):
    """A stream, its lake, in a directory unless told otherwise, and what was lost of both."""

    def __init__(self, place: Path, store: Store | None = None, **options: Any) -> None:
        self.store = store or DirectoryStore(place)
        self._place = place
        super().__init__(place, self.store, lake=self.store.target().uri, **options)

    def fill_and_publish(self) -> Self:
        """Publish some parts."""
        self.fill(60)
        publish_stream(self.root, NAME)
        return self

    def part(self) -> Part:
        """Return a part that the table has as it lies."""
        stored = self.store.paths(self.target)
        return next(part for part in self.stream.parts() if path_of(part) in stored)

    def damage(self, part: Part) -> None:
        part.path.write_bytes(flipped(part.path.read_bytes()))

    def lose(self, part: Part) -> None:
        part.path.unlink()

    def damage_stored(self, part: Part) -> None:
        data = self.store.read(self.target, path_of(part))
        self.store.write(self.target, path_of(part), flipped(data))

    def lose_stored(self, part: Part) -> None:
        self.store.delete(self.target, path_of(part))

    def damage_log(self, shard: int, how: Callable[[Path], None]) -> Path:
        """Damage the log of a shard; return its directory."""
        self.stream.close()
        directory = self.root / NAME / f"shard-{shard:04}"
        how(directory)
        return directory

    def copied_root(self, name: str = "copy") -> Path:
        """Return a copy of the root, as a backup or a predecessor has the files."""
        copy = self._place / name
        shutil.copytree(self.root, copy)
        return copy

    def repair(self, **named: Any) -> list[tuple[str, str]]:
        """Repair; return what was done with which file, where nothing is left to do."""
        done = self.try_repair(**named)
        assert done.is_clean, (done.left.problems, done.errors)
        return [(file.kind, file.file) for file in done.repaired]

    def try_repair(self, **named: Any) -> LakeRepair:
        return repair_lake(self.root, NAME, **named)

    @contextmanager
    def copies_found(self, part: Part, *roots: Path) -> Iterator[Callable[[], None]]:
        """Find copies of a part in other roots, and give what repairs its shard by them then."""
        with StreamReader.open(self.root, NAME) as reader:
            table = LakeTable.open(self.target, stream_of(reader))
            assert table is not None
            copies = PartCopies(self.root, NAME, roots)
            assert len(list(copies.candidates(part))) == len(roots)
            lake = LakeParts(self.target, lake_cache(self.root.absolute()))
            repair = LocalRepair(reader, table, lake, copies, set(), set())
            yield lambda: repair.repair(part.shard, [part.entry])

    def problems(self, *, read: bool = True) -> list[tuple[str, str | None]]:
        """Return what a check finds: what is wrong with which file."""
        problems = check_lake(self.root, NAME, read=read).problems
        return [(problem.kind, problem.file) for problem in problems]

    @override
    def check(self) -> None:
        assert self.problems() == []
        visible = self.visible()
        assert self.places() == sorted(visible)
        with StreamReader.open(self.root, NAME) as reader:
            parts = {(part.shard, part.entry.number): part for part in reader.parts()}
        visible_files = list(self.root.rglob("parts/*.parquet"))
        here = [part for part in parts.values() if part.path.exists()]
        assert len(visible_files) == len(here)
        rows = (
            ds.dataset([str(path) for path in visible_files]).count_rows() if visible_files else 0
        )
        assert rows == sum(part.entry.rows for part in here)


def path_of(part: Part) -> str:
    """Return where the table has a part as it lies."""
    return whole_image_name(part.shard, part.entry)


def flipped(data: bytes) -> bytes:
    """Return other bytes of the same number."""
    return data[:100] + bytes(byte ^ 255 for byte in data[100:104]) + data[104:]

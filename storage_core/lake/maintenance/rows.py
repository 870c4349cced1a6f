"""A shard's files in a table, read whole, beside the rows that its parts show.

Files and parts that have addresses in common are compared together: each visible row of the parts
is in one of the files, and in no two. Rows that only the files have were hidden, or their parts
deleted, since they were published. So at once the addresses of one such group are in memory.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from storage_core.errors import CorruptionError
from storage_core.format.part_entry import PartEntry
from storage_core.lake.maintenance.addresses import Addresses, file_addresses
from storage_core.lake.maintenance.missing_parts import MissingParts, Outcome
from storage_core.lake.maintenance.names import LakeFile
from storage_core.lake.maintenance.report import LakeProblem
from storage_core.lake.maintenance.unread import UnreadFileError, one_file_alone
from storage_core.lake.table import LakeFileGoneError, LakeTable
from storage_core.parts.part_proof import digest_of
from storage_core.parts.progress import OnRows
from storage_core.parts.snapshot import Part

_DOWNLOADED: Final = "file.parquet"


@dataclass(slots=True)
class _Group:
    """Files and parts with addresses in common."""

    last: int
    files: list[LakeFile] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)

    @property
    def shard(self) -> int:
        """The shard that they are of."""
        return self.files[0].name.shard if self.files else self.parts[0].shard


class RowCheck:
    """Reads the files of a table, and compares them with parts. One thread."""

    def __init__(self, table: LakeTable, scratch: Path, on_rows: OnRows) -> None:
        """Read nothing yet.

        Args:
            table: The table.
            scratch: A directory with room for a file.
            on_rows: Called again and again with how many rows were read so far.
        """
        self._table = table
        self.scratch = scratch
        self._file = scratch / _DOWNLOADED
        self._on_rows = on_rows
        self.rows = 0
        self.bytes_read = 0

    def problems(
        self,
        files: Iterable[LakeFile],
        listed: Iterable[Part],
        lacking: MissingParts,
    ) -> Iterator[Outcome]:
        """Yield what is wrong, as texts what could not be compared, and parts that are nowhere.

        A part whose file only the lake has is proven by that file's digest. Beside a file that is
        not what it is to be, or cannot be read, parts are compared by names alone.

        Args:
            files: The files of a shard that the store has.
            listed: Its parts.
            lacking: Which of them the table lacks, and what of each it is to have.
        """
        for group in _groups(files, listed):
            addresses = []
            is_proven = True
            for file in group.files:
                try:
                    addresses.append(self._read(file))
                except _DifferentFileError as different:
                    is_proven = False
                    yield different.problem
            published = np.concatenate([np.empty(0, np.int64), *addresses])
            yield from _twice(group, published)
            if is_proven:
                yield from _compared(group, published, lacking)
            else:
                yield from lacking.among(group.parts)

    def file_problems(self, files: Iterable[LakeFile]) -> Iterator[LakeProblem]:
        """Yield what is wrong with files of a shard beside their names alone."""
        for file in files:
            try:
                self._read(file)
            except _DifferentFileError as different:
                yield different.problem

    def _read(self, file: LakeFile) -> Addresses:
        """Return the addresses of a file that is what its name says."""
        name = file.name
        try:
            with one_file_alone(self._table):
                self._table.get(file.path, self._file)
        except LakeFileGoneError as error:
            raise _DifferentFileError(file.problem("gone", error.message)) from error
        except UnreadFileError as error:
            raise _DifferentFileError(file.problem("unread", str(error))) from error
        self.bytes_read += self._file.stat().st_size
        if digest_of(self._file).hex() != (name.rewritten_digest or name.entry_digest):
            message = "its bytes do not have the digest that its name tells"
            raise _DifferentFileError(file.problem("digest", message))
        try:
            addresses = file_addresses(self._file)
        except CorruptionError as error:
            raise _DifferentFileError(file.problem("digest", error.message)) from error
        self.rows += len(addresses)
        self._on_rows(self.rows)
        if file.rows not in (None, len(addresses)):
            message = f"it has {len(addresses):,} rows, the table counts {file.rows:,}"
            raise _DifferentFileError(file.problem("rows", message))
        if len(addresses) and (addresses.min(), addresses.max()) != (name.first, name.last):
            message = f"its rows have the addresses [{addresses.min()}, {addresses.max() + 1})"
            raise _DifferentFileError(file.problem("name", message))
        return addresses


class _DifferentFileError(Exception):
    """A file is not what its name and the table say, or cannot be read."""

    def __init__(self, problem: LakeProblem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def _groups(files: Iterable[LakeFile], listed: Iterable[Part]) -> Iterator[_Group]:
    """Yield files and parts with addresses in common, by address."""
    places: list[tuple[int, int, LakeFile | Part]] = [
        *((file.name.first, file.name.last, file) for file in files),
        *((part.entry.first, part.entry.last, part) for part in listed),
    ]
    group: _Group | None = None
    for first, last, member in sorted(places, key=lambda place: place[:2]):
        if group is None or first > group.last:
            if group is not None:
                yield group
            group = _Group(last)
        group.last = max(group.last, last)
        if isinstance(member, Part):
            group.parts.append(member)
        else:
            group.files.append(member)
    if group is not None:
        yield group


def _twice(group: _Group, published: Addresses) -> Iterator[LakeProblem]:
    """Yield the rows that several files of a group have."""
    distinct, counts = np.unique(published, return_counts=True)
    if len(distinct) < len(published):
        yield _rows_problem(group.shard, distinct[counts > 1], "twice")


def _compared(group: _Group, published: Addresses, lacking: MissingParts) -> Iterator[Outcome]:
    """Yield the rows of a group's parts that its files lack."""
    proven = {file.name.entry_digest for file in group.files}
    for part in group.parts:
        visible = lacking.visible(part)
        if isinstance(visible, str):
            yield visible
        elif isinstance(visible, PartEntry):
            if visible.digest.hex() not in proven:
                yield visible
        else:
            missing = np.setdiff1d(visible, published)
            if len(missing):
                yield _rows_problem(group.shard, missing, "missing")


def _rows_problem(shard: int, addresses: Addresses, kind: str) -> LakeProblem:
    start, end = int(addresses.min()), int(addresses.max()) + 1
    count = f"{len(addresses):,} rows" if len(addresses) > 1 else "1 row"
    if kind == "twice":
        return LakeProblem(shard, start, end, "twice", f"the table has {count} twice", None)
    return LakeProblem(shard, start, end, "missing", f"the table lacks {count} of the parts", None)

"""Each step of maintenance over a stream's older rows, and what must be there to give it work."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from storage_core.tiering.limits import NEIGHBOURS_MAX
from tests.faults.support.cold_rows import SHORT_LIVED, ColdStream


@dataclass(frozen=True, slots=True)
class Maintenance:
    """A step, and what is promised before it; the options of a stream that it is taken in."""

    prepare: Callable[[ColdStream], None]
    work: Callable[[ColdStream], object]
    options: Mapping[str, Any] = field(default_factory=dict)


def _appended(rows: ColdStream) -> None:
    rows.append(40)


def _sealed(rows: ColdStream) -> None:
    rows.append(40)
    rows.stream.seal()


def _in_many_parts(rows: ColdStream) -> None:
    for _ in range(NEIGHBOURS_MAX + 1):
        rows.append(12)
        rows.stream.seal()


def _damaged(rows: ColdStream) -> None:
    _sealed(rows)
    for part in rows.stream.parts()[-4:]:
        with part.path.open("r+b") as file:
            file.truncate(part.entry.size // 2)
            os.fsync(file.fileno())


def _outlived(rows: ColdStream) -> None:
    _sealed(rows)
    rows.stream.trim()
    rows.outlive()
    rows.append(12)


MAINTENANCE: Final = {
    "seal": Maintenance(_appended, lambda rows: rows.stream.seal()),
    "trim": Maintenance(_sealed, lambda rows: rows.stream.trim()),
    "compaction": Maintenance(_in_many_parts, lambda rows: rows.stream.compact()),
    "rebuilding": Maintenance(_damaged, lambda rows: rows.stream.seal(rebuild=True)),
    "expiry": Maintenance(_outlived, ColdStream.expire, {"retention": SHORT_LIVED}),
}

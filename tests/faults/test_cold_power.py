"""Goal: power that goes while parts are made, joined or mended, or blocks go, costs no row.

Method: as in `test_power`, on a disk that drops what was not synced, files of parts and their
names among it, or keeps some of it. Rows of every kind are promised, then power goes instead of one
change after the other of a seal, a trim, a compaction or a mending. What is left is opened: each
row is there once, in order, by every read; each part of the catalogue is whole; the same upkeep
does then what was left to do.

`make test` cuts at a few changes, and chance picks what survives; with SHARDLOG_FAULT_COLD each
change has its turn, three times: nothing survives, some of it, all.

The control: what a seal makes on a disk that ignores every fsync must be missed, once its blocks
were trimmed for good.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from storage_core import ShardlogError, Stream
from storage_core.parts.compact import FEW
from tests.faults.campaign import fault_seed, naming_seed
from tests.faults.cold_rows import ColdStream
from tests.faults.lossy_mount import LossyMount

pytestmark = pytest.mark.fuse

CHANGES_MAX = 600
# With the variable set each change has its turn; else a few, spread over them.
EACH = bool(os.environ.get("SHARDLOG_FAULT_COLD"))
STEP = 1 if EACH else 31
SURVIVORS = ["nothing", "some", "everything"] if EACH else ["any"]
Before = Callable[[ColdStream], None]
Work = Callable[[Stream], object]


def appended(rows: ColdStream) -> None:
    rows.append(40)


def sealed(rows: ColdStream) -> None:
    rows.append(40)
    rows.stream.seal()


def in_many_parts(rows: ColdStream) -> None:
    for _ in range(FEW + 1):
        rows.append(12)
        rows.stream.seal()


def damaged(rows: ColdStream) -> None:
    sealed(rows)
    for part in rows.stream.parts()[-4:]:
        with part.path.open("r+b") as file:
            file.truncate(part.entry.size // 2)
            os.fsync(file.fileno())


# What is promised before, and what power goes in.
UPKEEP: dict[str, tuple[Before, Work]] = {
    "seal": (appended, Stream.seal),
    "trim": (sealed, Stream.trim),
    "compaction": (in_many_parts, Stream.compact),
    "mending": (damaged, lambda stream: stream.seal(mend=True)),
}


def cut(
    disk: LossyMount, rows: ColdStream, change: int, upkeep: tuple[Before, Work], kept: Any
) -> bool:
    """Let power go at a change of some work; say whether it did."""
    before, work = upkeep
    with rows.opened() as stream:
        before(rows)
        disk.order(cut_after=change, survivors=kept)
        with suppress(ShardlogError, OSError):
            work(stream)
        was_cut = bool(disk.order(cut_after=None, survivors=None)["is_down"])
        disk.cut_power(kept)
    disk.restore_power()
    return was_cut


@pytest.mark.parametrize("survivors", SURVIVORS)
@pytest.mark.parametrize("what", UPKEEP)
def test_power_that_goes_at_any_change_of_upkeep_costs_no_row(
    disk: LossyMount, what: str, survivors: str
) -> None:
    seed = fault_seed()
    chance, upkeep = Random(seed), UPKEEP[what]
    with naming_seed(seed):
        rows = ColdStream(disk.path / "root", seed)
        for change in range(seed % STEP + 1, CHANGES_MAX, STEP):
            of_each = {"nothing": None, "some": chance.randrange(2**32), "everything": "everything"}
            kept = of_each[chance.choice([*of_each]) if survivors == "any" else survivors]
            was_cut = cut(disk, rows, change, upkeep, kept)
            # What was damaged before may still be, and is told: that is not of the power.
            rows.expect(is_sound=what != "mending")
            with rows.opened() as stream:
                upkeep[1](stream)
            rows.expect()
            if not was_cut:
                return
    pytest.fail(f"{what} takes {CHANGES_MAX} changes or more")


def test_control_without_syncs_is_caught(disk: LossyMount) -> None:
    seed = fault_seed()
    with naming_seed(seed):
        rows = ColdStream(disk.path / "root", seed)
        with rows.opened() as stream:
            rows.append(40)
            disk.order(ignore_syncs=True)
            stream.seal()
            # The blocks go on a disk that keeps what it is told, and nothing else survives.
            disk.order(ignore_syncs=False)
            stream.trim()
            disk.cut_power()
        disk.restore_power()
        with pytest.raises((AssertionError, ShardlogError)):
            rows.expect()

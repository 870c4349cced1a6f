"""Goal: power that goes while parts are made, merged or rebuilt, or blocks or rows go, costs none.

Method: as in `test_power`, on a disk that drops what was not synced, files of parts and their
names among it, or keeps some of it. Rows of every kind are promised, then power goes instead of one
change after the other of a seal, a trim, a compaction, a rebuild, or an expiry of rows that parts
alone have. What is left is opened: each row is there once, in order, by every read, those that were
to expire all of a shard or none; each part of the list is whole; the same step does then what was
left to do.

`make test` cuts at a few changes, and chance picks what survives; with SHARDLOG_FAULT_COLD each
change has its turn, three times: nothing survives, some of it, all.

The control: what a seal makes on a disk that ignores every fsync must be missed, once its blocks
were trimmed for good.
"""

import os
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from storage_core import ShardlogError
from tests.faults.lossy.mount import LossyMount
from tests.faults.support.campaign import fault_seed, naming_seed
from tests.faults.support.cold_maintenance import MAINTENANCE, Maintenance
from tests.faults.support.cold_rows import ColdStream

pytestmark = pytest.mark.fuse

CHANGES_MAX = 600
# With the variable set each change has its turn; else a few, spread over them.
EACH = bool(os.environ.get("SHARDLOG_FAULT_COLD"))
STEP = 1 if EACH else 61
SURVIVORS = ["nothing", "some", "everything"] if EACH else ["any"]


def cut(disk: LossyMount, rows: ColdStream, change: int, step: Maintenance, surviving: Any) -> bool:
    """Let power go at a change of some work; say whether it did."""
    with rows.opened():
        step.prepare(rows)
        disk.order(cut_after=change, survivors=surviving)
        with suppress(ShardlogError, OSError):
            step.work(rows)
        was_cut = bool(disk.order(cut_after=None, survivors=None)["is_down"])
        disk.cut_power(surviving)
    disk.restore_power()
    return was_cut


@pytest.mark.parametrize("survivors", SURVIVORS)
@pytest.mark.parametrize("step_name", MAINTENANCE)
def test_power_that_goes_at_any_change_of_maintenance_costs_no_row(
    disk: LossyMount, step_name: str, survivors: str
) -> None:
    seed = fault_seed()
    chance, step = Random(seed), MAINTENANCE[step_name]
    with naming_seed(seed):
        rows = ColdStream(disk.path / "root", seed, **step.options)
        for change in range(seed % STEP + 1, CHANGES_MAX, STEP):
            of_each = {"nothing": None, "some": chance.randrange(2**32), "everything": "everything"}
            surviving = of_each[chance.choice([*of_each]) if survivors == "any" else survivors]
            was_cut = cut(disk, rows, change, step, surviving)
            # What was damaged before may still be, and is told: that is not of the power.
            rows.expect(is_sound=step_name != "rebuilding")
            with rows.opened():
                step.work(rows)
            rows.expect()
            if not was_cut:
                return
    pytest.fail(f"{step_name} takes {CHANGES_MAX} changes or more")


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

"""Goal: what an operator has paused or resumed holds though power goes right behind the command.

Method: a file system that drops what was not synced.
"""

from pathlib import Path

import pytest

from connectors.group import WHOLE_TOPIC, Pause, Pauses
from storage_core import Stream, StreamOptions
from tests.faults.lossy.mount import LossyMount

pytestmark = pytest.mark.fuse

PAUSES = [Pause("t", WHOLE_TOPIC, 5, "all of it"), Pause("t", 3, 6, "one")]


def root_on(disk: LossyMount) -> Path:
    return disk.path / "root"


def test_pauses_outlast_a_power_loss_and_so_does_their_end(disk: LossyMount) -> None:
    Stream.create(root_on(disk), "t", StreamOptions()).close()
    for pause in PAUSES:
        Pauses(root_on(disk)).write(pause)
        disk.cut_and_restore()
    assert Pauses(root_on(disk)).read() == PAUSES
    assert Pauses(root_on(disk)).remove(PAUSES[0].partition)
    disk.cut_and_restore()
    assert Pauses(root_on(disk)).read() == PAUSES[1:]

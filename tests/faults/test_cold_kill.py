"""Goal: a writer killed while its rows become parts loses, doubles and reorders nothing.

Method: the campaigns of `test_kill` and `test_power`, with writers whose rows are sealed, joined,
rebuilt and trimmed all the time beside their appends, by themselves and with builders that are
killed too; a reader in another process follows over all of it. Each listed part is whole.
"""

from pathlib import Path

import pytest

from tests.faults.lossy.mount import LossyMount
from tests.faults.support.campaign import Campaign, campaigns, fault_seed, naming_seed
from tests.faults.support.ledger import read_notes
from tests.faults.test_kill import kill_at_random
from tests.faults.test_power import lose_power_at_random
from tests.waiting import await_that

VARIABLE = "SHARDLOG_FAULT_COLD"
MOMENT_MAX_S = 1.2
CHANGES_MAX = 4000


def begin(campaign: Campaign) -> None:
    """Make a stream, and kill its first writer once there are parts."""
    campaign.create(makes_parts=True)
    writer = campaign.start_writer()
    await_that(lambda: bool(parts_noted(campaign)), "the first parts")
    writer.kill()
    writer.join()
    assert not campaign.settle()


def parts_noted(campaign: Campaign) -> list[int]:
    """Return how many parts this cycle's writer has seen, each time that there were some."""
    notes = campaign.writer_notes()
    lines = read_notes(notes) if notes.exists() else []
    return [count for note in lines if (count := note.get("parts", 0))]


@pytest.mark.parametrize("cycles", campaigns(VARIABLE, few=1, many=3))
def test_writer_killed_while_parts_are_made_keeps_what_it_acknowledged(
    tmp_path: Path, cycles: int
) -> None:
    seed = fault_seed()
    with naming_seed(seed):
        campaign = Campaign(tmp_path / "root", tmp_path, seed)
        begin(campaign)
        with campaign.following():
            for _ in range(cycles):
                kill_at_random(campaign, MOMENT_MAX_S)
                campaign.check()
        campaign.check()


@pytest.mark.fuse
@pytest.mark.parametrize("cycles", campaigns(VARIABLE, few=1, many=3))
def test_power_loss_while_parts_are_made_keeps_what_was_acknowledged(
    tmp_path: Path, disk: LossyMount, cycles: int
) -> None:
    seed = fault_seed()
    with naming_seed(seed):
        campaign = Campaign(disk.path / "root", tmp_path, seed)
        begin(campaign)
        for _ in range(cycles):
            lose_power_at_random(campaign, disk, changes_max=CHANGES_MAX)
            campaign.check()

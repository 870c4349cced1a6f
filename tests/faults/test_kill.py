"""Goal: a writer killed at any moment loses, doubles and reorders nothing that it acknowledged.

Method: campaigns of cycles on one store. A writer appends from four threads and notes what was
promised; SIGKILL strikes at a random moment of opening, writing or closing; the store is opened
and compared with the ledger. A reader in a third process follows through all cycles of a
campaign: what it saw must be in the store, and in the end it must have seen everything.
"""

from pathlib import Path

import pytest

from tests.faults.support.campaign import Campaign, campaigns, fault_seed, naming_seed

MOMENT_MAX_S = 0.6


def kill_at_random(campaign: Campaign, moment_max_s: float = MOMENT_MAX_S) -> None:
    """Let a writer work and kill it; errors before the kill are not expected."""
    writer = campaign.start_writer()
    writer.join(campaign.chance.uniform(0.0, moment_max_s))
    writer.kill()
    writer.join()
    errors = campaign.settle()
    assert not errors, errors


@pytest.mark.parametrize("cycles", campaigns("SHARDLOG_FAULT_KILLS", few=8, many=40))
def test_killed_writer_keeps_what_it_acknowledged(tmp_path: Path, cycles: int) -> None:
    seed = fault_seed()
    with naming_seed(seed):
        campaign = Campaign(tmp_path / "root", tmp_path, seed)
        campaign.create()
        with campaign.following():
            for _ in range(cycles):
                kill_at_random(campaign)
                campaign.check()
        campaign.check()

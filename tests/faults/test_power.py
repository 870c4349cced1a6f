"""Goal: a power loss at any moment loses, doubles and reorders nothing that was acknowledged.

Method: campaigns as in `test_kill`, on a file system that drops what was not synced. Power goes
instead of a random change (write, sync, change of names), so that each step of opening, writing,
flushing and closing is struck. In every second cycle chance lets some of the unsynced pages and
names survive. A reader beside the writer notes what it saw before: that too must be there after.

The control: power goes on a disk that ignores every fsync, once something was promised, and
nothing survives. The ledger must notice the loss each time, or this file proves nothing.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

import pytest

from storage_core import ShardlogError, Stream, StreamOptions
from tests.faults.lossy.mount import LossyMount
from tests.faults.support.campaign import STREAM, Campaign, campaigns, fault_seed, naming_seed
from tests.faults.support.ledger import BrokenPromiseError, read_notes
from tests.faults.support.scenario import Scenario
from tests.faults.support.workload import SHARDS
from tests.thin import EVERY_CASE
from tests.waiting import await_that

pytestmark = pytest.mark.fuse

CHANGES_MAX = 900
CONTROL_MOMENT_MAX_S = 0.3
# A writer that has done all changes waits; power goes then.
DOWN_MAX_S = 10.0
TRANSACTION_CHANGES_MAX = 200
# Before which changes power goes, beginning at one that chance picks.
TRANSACTION_CHANGES_STEP = 5 if EVERY_CASE else 17
LARGE_BATCH_CHANGES_MAX = 100
LARGE_BATCH_CHANGES_STEP = 1 if EVERY_CASE else 9
LONG_TRANSACTION = 25  # modulo 200: several batches for each shard
CREATE_CHANGES_MAX = 1000
CREATE_CHANGES_STEP = 7 if EVERY_CASE else 17


def lose_power_at_random(
    campaign: Campaign, disk: LossyMount, changes_max: int = CHANGES_MAX
) -> None:
    """Let a writer and a reader work until power goes; what fails then is the disk."""
    survivors = campaign.chance.choice([None, campaign.chance.randrange(2**32)])
    disk.order(cut_after=campaign.chance.randint(1, changes_max), survivors=survivors)
    with campaign.watching():
        writer = campaign.start_writer()
        if not disk.wait_until("down", DOWN_MAX_S):
            disk.cut_power(survivors)
        writer.kill()
        writer.join()
    disk.restore_power()
    settle_errors_of_the_disk(campaign)


def settle_errors_of_the_disk(campaign: Campaign) -> None:
    """Take over what the cycle's writer was promised; what failed is the disk."""
    for error in campaign.settle():
        assert {ShardlogError.__name__, OSError.__name__} & set(error["kinds"]), error


@pytest.mark.parametrize("cycles", campaigns("SHARDLOG_FAULT_POWER", few=8, many=40))
def test_power_loss_keeps_what_was_acknowledged(
    tmp_path: Path, disk: LossyMount, cycles: int
) -> None:
    seed = fault_seed()
    with naming_seed(seed):
        campaign = Campaign(disk.path / "root", tmp_path, seed)
        campaign.create()
        for _ in range(cycles):
            lose_power_at_random(campaign, disk)
            campaign.check()


def is_loss_noticed(disk: LossyMount, notes: Path, seed: int) -> bool:
    """Run one cycle on a disk that ignores syncs; say whether the check fails."""
    disk.format()
    campaign = Campaign(disk.path / "root", notes, seed)
    campaign.create()
    disk.order(ignore_syncs=True)
    writer = campaign.start_writer()
    await_that(partial(has_promises, campaign.writer_notes()), "a promise")
    writer.join(campaign.chance.uniform(0.0, CONTROL_MOMENT_MAX_S))
    disk.cut_power()
    writer.kill()
    writer.join()
    disk.restore_power()
    settle_errors_of_the_disk(campaign)
    try:
        campaign.check()
    except (BrokenPromiseError, ShardlogError):
        return True
    return False


def has_promises(notes: Path) -> bool:
    """Tell whether a writer was promised any row."""
    return any({"lane", "transaction", "committed"} & note.keys() for note in read_notes(notes))


@pytest.mark.parametrize("cycles", campaigns("SHARDLOG_FAULT_POWER", few=4, many=40))
def test_control_without_syncs_is_caught(tmp_path: Path, disk: LossyMount, cycles: int) -> None:
    seed = fault_seed()
    with naming_seed(seed):
        notes = [tmp_path / str(cycle) for cycle in range(cycles)]
        for folder in notes:
            folder.mkdir()
        caught = [is_loss_noticed(disk, folder, seed + i) for i, folder in enumerate(notes)]
        assert all(caught), caught


def cut_at_each_change(
    disk: LossyMount,
    scenario: Scenario,
    work: Callable[[Stream, int], None],
    changes: range,
    survivors: str | int | None,
) -> None:
    """Let power go at one change after the other of some work, until it lasts to the end.

    Chance picks with which of the first ones it begins.
    """
    seed = fault_seed()
    chance, first = Random(seed), changes.start + seed % changes.step
    with naming_seed(seed):
        for change in range(first, changes.stop, changes.step):
            stream = scenario.open()
            surviving = chance.randrange(2**32) if survivors == "chance" else survivors
            disk.order(cut_after=change, survivors=surviving)
            with suppress(ShardlogError, OSError):
                work(stream, change)
            was_cut = disk.order(cut_after=None, survivors=None)["is_down"]
            disk.cut_and_restore(surviving)
            with suppress(ShardlogError, OSError):
                stream.close()
            scenario.expect_promises_kept()
            if not was_cut:
                assert change > first, f"{work.__name__} takes fewer than {first} changes"
                return
        pytest.fail(f"{work.__name__} takes {changes.stop} changes or more")


@pytest.mark.parametrize("survivors", [None, "everything"])
def test_transaction_cut_off_at_any_change_is_whole_or_absent(
    disk: LossyMount, survivors: str | None
) -> None:
    scenario = Scenario(disk)

    def transaction(stream: Stream, change: int) -> None:
        scenario.run_transaction(stream, LONG_TRANSACTION + 200 * change)

    changes = range(1, TRANSACTION_CHANGES_MAX, TRANSACTION_CHANGES_STEP)
    cut_at_each_change(disk, scenario, transaction, changes, survivors)


@pytest.mark.parametrize("survivors", [None, "chance", "everything"])
def test_large_batch_cut_off_at_any_change_leaves_no_row_that_cannot_be_read(
    disk: LossyMount, survivors: str | None
) -> None:
    # Each batch fills a segment, so that the next one begins another.
    scenario = Scenario(disk, apart_bytes_min=1, segment_bytes=1024)

    def large_batch(stream: Stream, _change: int) -> None:
        scenario.append_batch(stream, max(scenario.rows), 120)
        scenario.commit(stream)

    changes = range(1, LARGE_BATCH_CHANGES_MAX, LARGE_BATCH_CHANGES_STEP)
    cut_at_each_change(disk, scenario, large_batch, changes, survivors)


def lose_power_behind_batches(
    disk: LossyMount, scenario: Scenario, stream: Stream, batches: int
) -> None:
    """Commit batches, and let power go; what was promised must be there."""
    for _ in range(batches):
        scenario.append_batch(stream, 1, 50)
        scenario.commit(stream)
    disk.cut_power()
    with suppress(ShardlogError):
        stream.close()
    disk.restore_power()
    scenario.expect_promises_kept()


def test_segments_whose_directory_a_dead_writer_made_outlast_a_power_loss(disk: LossyMount) -> None:
    scenario = Scenario(disk, apart_bytes_min=1)
    with scenario.open() as stream:
        for shard in scenario.root.glob("*/shard-*/db"):
            (shard / "segments").mkdir()
        lose_power_behind_batches(disk, scenario, stream, 1)


def test_segments_that_were_begun_one_after_the_other_outlast_a_power_loss(
    disk: LossyMount,
) -> None:
    scenario = Scenario(disk, apart_bytes_min=1, segment_bytes=1024)
    with scenario.open() as stream:
        lose_power_behind_batches(disk, scenario, stream, 3)
    assert len(list(scenario.root.glob("*/shard-*/db/segments/*"))) > SHARDS


def test_power_loss_during_creation_leaves_a_whole_stream_or_none(disk: LossyMount) -> None:
    seed = fault_seed()
    first = seed % CREATE_CHANGES_STEP + 1
    with naming_seed(seed):
        for changes in range(first, CREATE_CHANGES_MAX, CREATE_CHANGES_STEP):
            disk.format()
            disk.order(cut_after=changes, survivors=None)
            was_created = creates(disk.path / "root")
            disk.cut_and_restore()
            open_or_create(disk.path / "root", may_create=not was_created)
            if was_created:
                assert changes > first, f"creation takes fewer than {first} changes"
                return
    pytest.fail(f"creation takes more than {CREATE_CHANGES_MAX} changes")


def creates(root: Path) -> bool:
    """Create and close a stream; say whether power lasted."""
    try:
        Stream.create(root, STREAM, StreamOptions(shards=1)).close()
    except (ShardlogError, OSError):
        return False
    return True


def open_or_create(root: Path, *, may_create: bool) -> None:
    """Open what is there; if that fails, and nothing was promised, creating it must succeed."""
    try:
        stream = Stream.open(root, STREAM)
    except ShardlogError:
        assert may_create
        stream = Stream.create(root, STREAM, StreamOptions(shards=1))
    with stream:
        stream.append(1, 1, b"works")
        assert stream.commit() == {0: 1}

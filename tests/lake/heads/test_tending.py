"""Runs of one size are merged, and those that are missing or damaged are written again."""

from datetime import timedelta

import pytest

from storage_core import UnavailableError
from storage_core.lake.heads.run_merging import MERGED_BYTES_MAX, NEIGHBOURS, next_merge
from storage_core.lake.heads.run_names import RunName, run_path
from storage_core.lake.table import LakeTable
from storage_core.testing import SimulatedCrash
from tests.lake.heads.heads_lab import BORN, FULL, IDS, NEARLY, STEP, HeadsLab
from tests.lake.publish.publish_lab import dying
from tests.lake.support.stores import Store


def chain(*sizes: int) -> list[RunName]:
    """Return runs of these sizes, each behind another."""
    return [
        RunName(begin, begin + 1, 7, "0" * 32, run_path(3, begin, begin + 1, 7, bytes(16)), size)
        for begin, size in enumerate(sizes)
    ]


def merged_sizes(*sizes: int) -> list[int]:
    return [run.size for run in next_merge(chain(*sizes))]


def test_neighbours_of_one_size_are_merged_once_they_are_some() -> None:
    assert merged_sizes(*[1000] * (NEIGHBOURS - 1)) == []
    assert merged_sizes(*[1000] * NEIGHBOURS) == [1000] * NEIGHBOURS
    assert merged_sizes(10**7, *[1000] * NEIGHBOURS) == [1000] * NEIGHBOURS


def test_larger_ones_wait_for_others_of_their_size() -> None:
    small, large = [1000] * NEIGHBOURS, [10**6] * (NEIGHBOURS - 1)
    assert merged_sizes(*large, *small) == small
    assert merged_sizes(*large, 10**6) == [*large, 10**6]
    # A large one between small ones does not keep them apart for good.
    assert merged_sizes(*small[1:], 10**6) == [*small[1:], 10**6]


def test_runs_do_not_become_too_large_together() -> None:
    half = MERGED_BYTES_MAX // 2
    assert merged_sizes(*[half] * NEIGHBOURS) == []
    part = MERGED_BYTES_MAX // NEIGHBOURS
    assert merged_sizes(half, *[part] * NEIGHBOURS) == [part] * NEIGHBOURS


def test_runs_beside_a_hole_are_not_merged_over_it() -> None:
    runs = chain(*[1000] * (2 * NEIGHBOURS))
    assert next_merge([*runs[:4], *runs[5:]]) == runs[5:]


def test_merged_run_takes_the_place_of_the_others(root, store: Store) -> None:
    lab = HeadsLab(root, store).publish_each(*NEARLY)
    assert len(lab.ranges()) == NEIGHBOURS - 1
    lab.publish_each(*FULL[-2:])
    assert lab.ranges() == [(BORN, FULL[-1])]
    lab.check()
    lab.publish_each(FULL[-1], FULL[-1] + STEP)
    assert lab.ranges() == [(BORN, FULL[-1]), (FULL[-1], FULL[-1] + STEP)]
    lab.check()
    lab.release()


def test_merged_run_of_keys_has_all_of_them(root) -> None:
    lab = HeadsLab(root, key_mode="dictionary").publish_each(*FULL)
    assert lab.ranges() == [(BORN, FULL[-1])]
    lab.check()
    lab.release()


def test_merged_run_has_the_dead_letters_that_are_there_still(lab: HeadsLab) -> None:
    lab.seal(BORN, FULL[1], {103: b"cleared", 104: b"there"}).publish()
    lab.copy.stream.clear_dead_letters(3, [103], outcome="discarded")
    lab.publish_each(*FULL[1:])
    assert lab.ranges() == [(BORN, FULL[-1])]
    notes = lab.read().notes
    assert notes is not None
    assert notes.dead_letters == ((104, b"there"),)


def test_merged_run_has_no_heads_of_rows_that_expired(lab: HeadsLab) -> None:
    lab.publish_each(*NEARLY)
    lab.copy.stream.alter(retention=timedelta(milliseconds=1))
    lab.seal(FULL[-2], FULL[-1])
    lab.copy.stream.expire(now=FULL[-1])
    lab.publish()
    lab.check()
    read = lab.read()
    assert read.notes is not None
    assert (read.heads.column("primary").to_numpy() >= read.notes.floor).all()
    assert 0 < read.heads.num_rows < IDS


@pytest.mark.parametrize("victim", [0, 3])
def test_missing_run_is_written_again_with_the_next_rows(lab: HeadsLab, victim: int) -> None:
    lab.publish_each(BORN, 120, 140, 160, 180)
    lab.store.delete(lab.target, lab.paths()[victim])
    lab.publish_each(180, 200)
    assert sorted(lab.ranges()) == [(begin, begin + 20) for begin in range(BORN, 200, 20)]
    lab.check()


def test_table_of_before_there_were_runs_gets_them(lab: HeadsLab) -> None:
    lab.publish_each(BORN, 120, 140)
    for path in lab.paths():
        lab.store.delete(lab.target, path)
    lab.publish_each(140, 160)
    assert lab.ranges() == [(BORN, 140), (140, 160)]
    lab.check()


def test_damaged_run_is_written_again_when_it_is_merged(lab: HeadsLab) -> None:
    lab.publish_each(*NEARLY)
    lab.damage(lab.paths()[2])
    lab.publish_each(*FULL[-2:])
    assert lab.ranges() == [(BORN, FULL[-1])]
    lab.check()


def test_damaged_run_is_written_again_by_a_repair(lab: HeadsLab) -> None:
    lab.publish_each(BORN, 120, 140, 160)
    lab.damage(lab.paths()[1])
    assert lab.repair() == 1
    assert lab.ranges() == [(BORN, 120), (120, 140), (140, 160)]
    assert lab.repair() == 0
    lab.check()


def test_repair_says_that_the_store_refuses_a_run(lab: HeadsLab) -> None:
    lab.publish_each(BORN, 120, 140)
    lab.damage(lab.paths()[1])
    with pytest.raises(UnavailableError), dying(1, "put", error=UnavailableError):
        lab.repair()
    assert lab.repair() == 1
    lab.check()


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("call", ["put", "commit_all"])
def test_publish_that_dies_leaves_no_wrong_head(lab: HeadsLab, call: str, behind: bool) -> None:
    lab.publish_each(BORN, 120)
    lab.seal(120, 140)
    with pytest.raises(SimulatedCrash), dying(1, call, behind=behind):
        lab.publish()
    lab.check()
    lab.seal(140, 160).publish()
    lab.check()


@pytest.mark.parametrize("call", [1, 2, 5, NEIGHBOURS + 1])
def test_merge_that_dies_is_made_up_for(lab: HeadsLab, call: int) -> None:
    lab.publish_each(*NEARLY)
    lab.seal(FULL[-2], FULL[-1])
    # The first two put the part and its run, the third the merged one.
    with pytest.raises(SimulatedCrash), dying(call + 2, "put", "delete"):
        lab.publish()
    lab.check()
    later = [FULL[-1] + STEP * number for number in range(NEIGHBOURS + 3)]
    lab.publish_each(*later)
    lab.check()
    assert len(lab.ranges()) <= NEIGHBOURS


def test_store_that_deletes_nothing_keeps_nobody_from_publishing(lab, monkeypatch) -> None:
    def refused(*_: object) -> None:
        message = "no right to delete"
        raise UnavailableError(message)

    monkeypatch.setattr(LakeTable, "delete", refused)
    lab.publish_each(*FULL)
    assert (BORN, FULL[-1]) in lab.ranges()
    assert len(lab.ranges()) == NEIGHBOURS + 1
    lab.check()
    lab.publish_each(FULL[-1], FULL[-1] + STEP)
    assert len(lab.ranges()) == NEIGHBOURS + 2
    lab.check()

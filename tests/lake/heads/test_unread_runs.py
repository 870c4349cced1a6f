"""A heads run that the store does not give keeps no other from being read and written again."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from storage_core.format.shard_state import AddressRange
from storage_core.lake import LakeRepair, publish_stream, repair_lake
from storage_core.lake.image_names import whole_image_name
from storage_core.testing import SimulatedCrash
from tests.lake.heads.heads_lab import BORN, SHARD, HeadsLab
from tests.lake.publish.publish_lab import dying
from tests.lake.support.stores import BucketStore
from tests.log.topics import NAME
from tests.log.workbench import batch_of

OTHER = 5
ENDS = [BORN, 120, 140, 160]


@pytest.fixture
def lab(
    tmp_path: Path, bucket_store: BucketStore, monkeypatch: pytest.MonkeyPatch
) -> Iterator[HeadsLab]:
    """A copy of a topic whose table, in a bucket, is its own lake."""
    for name, value in bucket_store.options.items():
        monkeypatch.setenv(name, value)
    lab = HeadsLab(tmp_path, bucket_store, lake=bucket_store.target().uri)
    yield lab
    lab.release()


def archive(lab: HeadsLab, path: str) -> bytes:
    """Archive a file of the table; return what it has."""
    assert isinstance(lab.store, BucketStore)
    data = lab.store.read(lab.target, path)
    lab.store.archive(lab.target, path)
    return data


def repair(lab: HeadsLab) -> LakeRepair:
    return repair_lake(lab.copy.root, NAME, lab.target, read=True)


def left(done: LakeRepair) -> list[tuple[int | None, str, int | None]]:
    return [(problem.shard, problem.kind, problem.start) for problem in done.left.problems]


def leave_to_lake(lab: HeadsLab, number: int) -> str:
    """Let only the lake have the files of all parts; return the path of one."""
    parts = [part for part in lab.copy.stream.parts() if part.shard == SHARD]
    lab.copy.stream.alter(keep_local=timedelta(0))
    lab.publish()
    assert not any(part.path.exists() for part in parts)
    return whole_image_name(SHARD, parts[number].entry)


def test_damaged_run_is_written_again_beside_one_that_the_store_does_not_give(
    lab: HeadsLab,
) -> None:
    lab.publish_each(*ENDS)
    first, second, _ = lab.paths()
    archive(lab, first)
    lab.damage(second)
    done = repair(lab)
    assert (done.runs_written, left(done)) == (1, [(SHARD, "unread", BORN)])
    assert [problem.file for problem in done.left.problems] == [first]
    assert done.errors == ()
    assert repair(lab).runs_written == 0
    assert lab.ranges() == list(pairwise(ENDS))


def test_runs_of_other_shards_are_written_again_beside_one_that_the_store_does_not_give(
    lab: HeadsLab,
) -> None:
    lab.publish_each(*ENDS)
    (archived, *_) = lab.paths()
    lab.copy.add({OTHER: BORN})
    lab.copy.open()
    rows = batch_of(list(range(BORN, 120)), secondary=[0] * 20)
    lab.copy.stream.append_batch(rows, shard=OTHER, addresses=list(range(BORN, 120)))
    lab.copy.stream.commit()
    lab.copy.stream.seal()
    publish_stream(lab.copy.root, NAME, lab.target)
    (of_other,) = [path for path in lab.store.paths(lab.target) if "_shardlog/shard=5" in path]
    archive(lab, archived)
    lab.damage(of_other)
    done = repair(lab)
    assert (done.runs_written, left(done)) == (1, [(SHARD, "unread", BORN)])
    assert done.errors == ()


def test_damaged_run_stays_until_what_replaces_it_can_be_written(lab: HeadsLab) -> None:
    lab.publish_each(*ENDS)
    runs = lab.paths()
    path = leave_to_lake(lab, 2)
    data = archive(lab, path)
    lab.damage(runs[1])
    lab.damage(runs[2])
    done = repair(lab)
    assert (done.runs_written, lab.paths()) == (1, runs)
    assert lab.read().missing == (AddressRange(120, 140),)
    assert (SHARD, "heads", 120) in left(done)
    assert [problem.file for problem in done.left.problems if problem.kind == "unread"] == [path]
    lab.store.write(lab.target, path, data)
    assert repair(lab).runs_written == 1
    lab.check()


def test_damaged_run_is_there_when_its_replacement_cannot_be_put(lab: HeadsLab) -> None:
    lab.publish_each(*ENDS)
    runs = lab.paths()
    lab.damage(runs[1])
    with pytest.raises(SimulatedCrash), dying(1, "put"):
        repair(lab)
    assert lab.paths() == runs
    assert repair(lab).runs_written == 1
    lab.check()


def test_damaged_run_of_another_name_goes_once_its_replacement_is_there(lab: HeadsLab) -> None:
    lab.seal(BORN, 120, {103: b"cleared"}).publish()
    lab.publish_each(120, 140)
    (damaged, other) = lab.paths()
    # What is written in its place notes another dead letter, so its name is another.
    lab.copy.stream.clear_dead_letters(SHARD, [103], outcome="discarded")
    lab.damage(damaged)
    with pytest.raises(SimulatedCrash), dying(1, "delete"):
        repair(lab)
    assert len(lab.paths()) == 3
    assert (repair(lab).runs_written, damaged in lab.paths()) == (0, False)
    assert other in lab.paths()
    lab.check()


def test_runs_are_merged_though_the_store_does_not_give_one(lab: HeadsLab) -> None:
    lab.publish_each(BORN, BORN + 5)
    archive(lab, lab.paths()[0])
    lab.publish_each(*range(BORN + 5, BORN + 5 + 2 * 14, 2))
    assert len(lab.paths()) < 10
    lab.check()

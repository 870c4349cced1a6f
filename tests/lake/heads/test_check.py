"""`check_lake` says which heads runs are missing or damaged; vacuum leaves all of them."""

from datetime import timedelta
from pathlib import Path

import pytest

from storage_core.lake import check_lake, vacuum_stream
from tests.lake.heads.heads_lab import BORN, FULL, SHARD, HeadsLab
from tests.lake.support.stores import BucketStore
from tests.log.topics import NAME


def problems(lab: HeadsLab, *, read: bool = True) -> list[tuple[object, ...]]:
    report = check_lake(lab.copy.root, NAME, lab.target, read=read)
    return [(fault.shard, fault.kind, fault.start, fault.end) for fault in report.problems]


def test_runs_that_cover_all_are_no_problem(lab: HeadsLab) -> None:
    lab.publish_each(BORN, 120, 140)
    assert problems(lab) == []
    lab.publish_each(140, *range(150, 250, 10))
    assert problems(lab) == []


@pytest.mark.parametrize("read", [False, True])
def test_missing_run_is_a_problem_until_it_is_written_again(lab: HeadsLab, read: bool) -> None:
    lab.publish_each(BORN, 120, 140, 160)
    lab.store.delete(lab.target, lab.paths()[1])
    assert problems(lab, read=read) == [(SHARD, "heads", 120, 140)]
    lab.publish_each(160, 180)
    assert problems(lab, read=read) == []


def test_damaged_run_is_a_problem_that_reading_meets(lab: HeadsLab) -> None:
    lab.publish_each(BORN, 120, 140, 160)
    path = lab.paths()[1]
    lab.damage(path)
    assert problems(lab, read=False) == []
    (problem,) = check_lake(lab.copy.root, NAME, lab.target, read=True).problems
    assert (problem.kind, problem.start, problem.end, problem.file) == ("heads", 120, 140, path)
    lab.repair()
    assert problems(lab) == []


def test_run_that_the_store_does_not_give_keeps_no_other_from_being_read(
    tmp_path: Path, bucket_store: BucketStore
) -> None:
    lab = HeadsLab(tmp_path, bucket_store)
    lab.publish_each(BORN, 120, 140, 160)
    bucket_store.archive(lab.target, lab.paths()[0])
    lab.damage(lab.paths()[1])
    assert problems(lab) == [(SHARD, "unread", BORN, 120), (SHARD, "heads", 120, 140)]
    assert problems(lab, read=False) == []
    lab.release()


def test_notes_that_the_store_does_not_give_are_told(
    tmp_path: Path, bucket_store: BucketStore
) -> None:
    lab = HeadsLab(tmp_path, bucket_store)
    lab.publish_each(BORN, 120, 140, 160)
    lab.copy.stream.alter(records_max=20)
    lab.copy.stream.expire()
    lab.publish()
    (notes,) = lab.paths_of_notes()
    assert problems(lab) == []
    data = bucket_store.read(lab.target, notes)
    bucket_store.archive(lab.target, notes)
    assert problems(lab) == [(SHARD, "unread", 160, 160)]
    bucket_store.write(lab.target, notes, data[:-1])
    assert problems(lab) == [(SHARD, "heads", 160, 160)]
    assert lab.repair() == 1
    assert bucket_store.read(lab.target, notes) == data
    assert problems(lab) == []
    lab.release()


def test_vacuum_leaves_runs(lab: HeadsLab) -> None:
    lab.publish_each(*FULL)
    lab.publish_each(FULL[-1], FULL[-1] + 10)
    before = lab.paths()
    vacuum_stream(lab.copy.root, NAME, lab.target, grace=timedelta(0))
    assert lab.paths() == before
    lab.check()

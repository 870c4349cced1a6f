"""What vacuum deletes, what it leaves alone, and how old versions of the log go."""

import os
from collections.abc import Callable
from datetime import timedelta
from functools import partial

from storage_core.lake.heads.run_names import run_path
from storage_core.lake.table import CHECKPOINT_EVERY, LakeTable
from storage_core.platform.clock import SystemClock
from storage_core.testing import ManualClock
from tests.lake.support.stores import DirectoryStore, Store
from tests.lake.support.table_lab import SHARD, STREAM, TableLab, path_of

HOUR = timedelta(hours=1)
NONE = timedelta(0)
# What people and programs may lay beside a table's own files.
FOREIGN = (
    "notes.txt",
    "other/part.parquet",
    "shard=3/part.parquet",
    "shard=3/deeper/" + path_of(1, 1).partition("/")[2],
    "shard=x/" + path_of(1, 1).partition("/")[2],
    "_shardlog/heads",
    path_of(1, 1).partition("/")[2],
)


def later(span: timedelta) -> ManualClock:
    """Return a clock that is ahead of this machine's."""
    return ManualClock(SystemClock().now_ns() + span // timedelta(microseconds=1) * 1000)


def vacuumed(lab: TableLab, grace: timedelta, ahead: timedelta = NONE) -> list[str]:
    """Let somebody vacuum whose clock is ahead, and say what they deleted."""
    table = LakeTable.open(lab.target, STREAM, clock=later(ahead))
    assert table is not None
    before = set(lab.store.paths(lab.target))
    listed = table.vacuum(grace, dry_run=True)
    assert set(lab.store.paths(lab.target)) == before
    assert table.vacuum(grace, dry_run=False) == listed
    assert before - set(lab.store.paths(lab.target)) == set(listed)
    return listed


def test_upload_that_no_version_names_goes_after_the_grace(store: Store) -> None:
    lab = TableLab(store)
    lab.keep(1)
    (forgotten,) = lab.add(2)
    assert vacuumed(lab, HOUR) == []
    assert vacuumed(lab, HOUR, ahead=HOUR / 2) == []
    assert vacuumed(lab, HOUR, ahead=2 * HOUR) == [forgotten.path]
    assert lab.addresses() == [1]


def test_nothing_but_files_of_ours_is_ever_deleted(store: Store) -> None:
    lab = TableLab(store)
    lab.keep(1)
    for path in FOREIGN:
        store.write(lab.target, path, b"")
    assert vacuumed(lab, NONE, ahead=1000 * HOUR) == []


def test_upload_that_ended_in_the_middle_goes(tmp_path) -> None:
    lab = TableLab(DirectoryStore(tmp_path))
    lab.store.write(lab.target, path_of(2, 2) + "#1", b"PAR1")
    assert vacuumed(lab, HOUR, ahead=2 * HOUR) == [path_of(2, 2) + "#1"]


def test_upload_of_a_heads_run_that_ended_in_the_middle_goes_after_the_grace(tmp_path) -> None:
    lab = TableLab(DirectoryStore(tmp_path))
    lab.keep(1)
    run = run_path(SHARD, 1, 2, 7, b"d" * 16)
    for path in (run, f"{run}#1", "_shardlog/shard=3/notes.txt#1"):
        lab.store.write(lab.target, path, b"PAR1")
    assert vacuumed(lab, HOUR) == []
    assert vacuumed(lab, HOUR, ahead=2 * HOUR) == [f"{run}#1"]


def test_file_that_was_removed_stays_while_its_version_can_be_read(store: Store) -> None:
    lab = TableLab(store)
    paths = lab.keep(1, 2)
    lab.table.commit(SHARD, [lab.add_of([1, 2], is_new=False)], paths, 3)
    assert vacuumed(lab, NONE, ahead=HOUR) == []
    assert lab.addresses(1) == [1, 2]
    lab.table.expire_history(NONE)
    assert vacuumed(lab, NONE, ahead=HOUR) == sorted(paths)
    assert lab.addresses() == [1, 2]


def test_file_that_was_committed_while_vacuum_looks_stays(store: Store) -> None:
    lab = TableLab(store)
    (file,) = lab.add(1)
    table = LakeTable.open(lab.target, STREAM, clock=later(2 * HOUR))
    assert table is not None
    listed = table._store.listed

    def listed_and_committed(directory):
        files = listed(directory)
        if directory.startswith("shard="):
            lab.table.commit(SHARD, [file], [], 2)
        return files

    table._store.listed = listed_and_committed  # type: ignore[assignment,method-assign] # a race
    assert table.vacuum(HOUR, dry_run=False) == []
    assert lab.addresses() == [1]


def test_file_that_was_committed_before_its_turn_stays(store: Store) -> None:
    lab = TableLab(store)
    files = lab.add(1, 2)
    commit = partial(lab.table.commit, SHARD, files[1:], [], 3)
    assert deleted_while(lab, commit) == [files[0].path]
    assert lab.addresses() == [2]


def test_file_that_was_uploaded_again_before_its_turn_stays(tmp_path) -> None:
    lab = TableLab(DirectoryStore(tmp_path))
    files = lab.add(1, 2)
    for path in lab.store.paths(lab.target):
        os.utime(tmp_path / "table" / path, (1, 1))
    assert deleted_while(lab, partial(lab.add, 2)) == [files[0].path]
    lab.table.commit(SHARD, files[1:], [], 3)
    assert lab.addresses() == [2]


def deleted_while(lab: TableLab, other: Callable[[], object]) -> list[str]:
    """Let somebody do something while vacuum deletes the first file; say what was deleted."""
    table = LakeTable.open(lab.target, STREAM, clock=later(2 * HOUR))
    assert table is not None
    delete = table._store.delete

    def deleted(path: str) -> None:
        delete(path)
        other()

    table._store.delete = deleted  # type: ignore[method-assign] # a race
    return table.vacuum(HOUR, dry_run=False)


def test_history_that_expired_takes_nothing_of_the_table(store: Store) -> None:
    lab = TableLab(store)
    for number in range(1, CHECKPOINT_EVERY + 3):
        lab.keep(number)
    lab.table.expire_history(NONE)
    other = lab.other()
    assert other.published(SHARD) == CHECKPOINT_EVERY + 3
    assert lab.addresses() == list(range(1, CHECKPOINT_EVERY + 3))
    other.commit(SHARD, lab.add(50), [], 51)
    assert lab.other().published(SHARD) == 51


def test_commit_beside_a_change_of_the_history_is_taken(store: Store) -> None:
    lab = TableLab(store)
    stale = lab.other()
    lab.table.expire_history(HOUR)
    stale.commit(SHARD, lab.add(1), [], 2)
    assert lab.addresses() == [1]


def test_versions_older_than_the_history_go_once_there_is_a_checkpoint(tmp_path) -> None:
    lab = TableLab(DirectoryStore(tmp_path))
    count = CHECKPOINT_EVERY + 2
    for number in range(1, count + 1):
        lab.keep(number)
    assert lab.target.directory is not None
    logs = lab.target.directory / "_delta_log"
    for log in sorted(logs.glob("*.*"))[: CHECKPOINT_EVERY + 2]:
        past = log.stat().st_mtime - 3 * HOUR.total_seconds()
        os.utime(log, (past, past))
    lab.table.expire_history(HOUR)
    versions = sorted(int(log.stem) for log in logs.glob("*.json"))
    assert versions == list(range(CHECKPOINT_EVERY, count + 2))
    assert lab.addresses(CHECKPOINT_EVERY) == list(range(1, CHECKPOINT_EVERY + 1))
    assert lab.addresses() == list(range(1, count + 1))


def test_history_is_set_once(store: Store) -> None:
    lab = TableLab(store)
    lab.keep(1)
    lab.table.expire_history(2 * HOUR)
    version = lab.table.version
    lab.table.expire_history(2 * HOUR)
    assert lab.other().version == version

"""A log that goes on in a table where another one ended has runs of its own rows behind that."""

from pathlib import Path

import pytest

from storage_core import CorruptionError, StreamReader
from storage_core.lake.app_id import stream_of
from storage_core.lake.heads.run_names import runs_among
from storage_core.lake.heads.run_notes import RunNotes
from storage_core.lake.heads.runs import read_runs, stored_runs
from storage_core.lake.publish import publish_stream
from storage_core.lake.publishing.ownership import LakeOwnerError
from storage_core.lake.repair.repair import repair_lake
from storage_core.lake.table import LakeTable
from storage_core.testing import SimulatedCrash
from tests.lake.publish.owners_lab import SHARD, Owner, Owners
from tests.lake.publish.publish_lab import dying
from tests.log.topics import NAME


def table_of(owners: Owners) -> LakeTable:
    with StreamReader.open(owners.all[0].copy.root, NAME) as reader:
        table = LakeTable.open(owners.target, stream_of(reader))
    assert table is not None
    return table


def ranges(owners: Owners) -> list[tuple[int, int]]:
    return [(run.begin, run.end) for run in runs_among(stored_runs(table_of(owners), SHARD))]


def test_run_that_the_other_log_did_not_commit_goes_once_its_rows_are_there(owners) -> None:
    first = owners.begin(100)
    first.seal(100, 200)
    first.publish()
    first.seal(200, 260)
    with pytest.raises(SimulatedCrash), dying(1, "commit_all"):
        first.publish()
    assert ranges(owners) == [(100, 200), (200, 260)]
    heir = owners.begin(200)
    heir.seal(200, 230)
    heir.take_over()
    # Nobody can tell it from that of a commit which is on its way.
    assert ranges(owners) == [(100, 200), (200, 230), (200, 260)]
    assert heads(owners) == {1: 229}
    heir.seal(230, 260)
    heir.publish()
    assert ranges(owners) == [(100, 200), (200, 230), (230, 260)]


def test_runs_of_the_other_log_are_not_merged(owners: Owners) -> None:
    first = owners.begin(100)
    for start in range(100, 150, 10):
        first.seal(start, start + 10)
        first.publish()
    heir = owners.begin(150)
    for start in range(150, 230, 10):
        heir.seal(start, start + 10)
        heir.take_over()
    assert ranges(owners) == [(at, at + 10) for at in range(100, 150, 10)] + [(150, 230)]


def heads(owners: Owners) -> dict[int, int]:
    """Return of each id the address of the last row, as runs have it."""
    table = table_of(owners)
    read = read_runs(table, SHARD, 100, table.published(SHARD) or 100)
    assert read.missing == ()
    return {head["secondary"]: head["last"] for head in read.heads.to_pylist()}


def seal_of_another_id(owner: Owner, start: int, end: int) -> None:
    """Seal records of which this log judges otherwise than another one."""
    addresses = list(range(start, end))
    owner.copy.append(SHARD, addresses, secondary=[2] * len(addresses))
    owner.copy.stream.commit()
    owner.copy.stream.seal()
    owner.end = end


def test_run_that_comes_after_the_other_log_s_commit_is_passed_over(owners, monkeypatch) -> None:
    first, heir = owners.begin(100), owners.begin(200)
    first.seal(100, 200)
    first.publish()
    first.seal(200, 260)
    seal_of_another_id(heir, 200, 230)
    usual = LakeTable.put

    def late(table: LakeTable, path: str, file: Path) -> None:
        monkeypatch.setattr(LakeTable, "put", usual)
        heir.take_over()
        usual(table, path, file)

    def waking(table: LakeTable, path: str, file: Path) -> None:
        (late if path.startswith("_shardlog") else usual)(table, path, file)

    monkeypatch.setattr(LakeTable, "put", waking)
    with pytest.raises(LakeOwnerError):
        first.publish()
    assert heads(owners) == {1: 199, 2: 229}
    seal_of_another_id(heir, 230, 260)
    heir.publish()
    assert heads(owners) == {1: 199, 2: 259}
    seal_of_another_id(heir, 260, 270)
    heir.publish()
    assert heads(owners) == {1: 199, 2: 269}
    assert (200, 260) not in ranges(owners)


def test_run_of_the_other_log_s_commit_stays_though_it_comes_amid_this_one_s(
    owners, monkeypatch
) -> None:
    first, heir = owners.begin(100), owners.begin(100)
    first.seal(100, 150)
    seal_of_another_id(heir, 100, 150)
    usual = LakeTable.put

    def amid(table: LakeTable, path: str, file: Path) -> None:
        monkeypatch.setattr(LakeTable, "put", usual)
        first.publish()
        usual(table, path, file)

    monkeypatch.setattr(LakeTable, "put", amid)
    with pytest.raises(LakeOwnerError):
        heir.publish()
    assert heads(owners) == {1: 149}


def test_rows_that_take_the_place_of_others_have_runs_of_their_own(owners) -> None:
    first, heir = owners.begin(100), owners.begin(200)
    first.seal(100, 200)
    first.publish()
    first.seal(200, 260)
    first.publish()
    seal_of_another_id(heir, 200, 260)
    heir.take_over()
    assert heads(owners) == {1: 199, 2: 259}
    seal_of_another_id(heir, 260, 270)
    heir.publish()
    assert heads(owners) == {1: 199, 2: 269}


def test_missing_run_of_the_log_before_is_written_again(owners) -> None:
    first, heir = owners.begin(100), owners.begin(100)
    for start in (100, 150, 200):
        first.seal(start, start + 50)
        first.publish()
        seal_of_another_id(heir, start, start + 50)
    heir.take_over()
    assert heads(owners) == {2: 249}
    table = table_of(owners)
    table.delete(runs_among(stored_runs(table, SHARD))[0].path)
    seal_of_another_id(heir, 250, 300)
    heir.publish()
    assert heads(owners) == {2: 299}


def test_what_the_log_before_noted_hides_no_row_of_the_one_in_its_place(owners) -> None:
    first, heir = owners.begin(100), owners.begin(100)
    for owner in (first, heir):
        owner.seal(100, 150)
        owner.copy.append(SHARD, range(150, 170))
        owner.copy.stream.commit()
        owner.seal(170, 200)
    first.publish()
    first.copy.stream.alter(records_max=30)
    first.copy.stream.expire()
    first.publish()
    assert notes(owners).cut == 170
    with pytest.raises(CorruptionError, match=r"\[100, 150\)"):
        publish_stream(heir.copy.root, NAME, owners.target, take_over=True)
    repair_lake(heir.copy.root, NAME, owners.target)
    assert owners.addresses() == list(range(100, 200))
    assert notes(owners).cut == 100
    assert heads(owners) == {1: 199}


def notes(owners: Owners) -> RunNotes:
    """Return what runs say of the log that publishes."""
    table = table_of(owners)
    read = read_runs(table, SHARD, 100, table.published(SHARD) or 100)
    assert read.notes is not None
    return read.notes

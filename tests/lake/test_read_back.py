"""What a commit is read back for: all of it is looked at, and what is committed is told."""

from pathlib import Path

import pytest

from storage_core import CorruptionError, UnavailableError
from storage_core.lake.delta.loaded_version import LoadedVersion
from storage_core.lake.shard_change import ShardChange
from tests.lake.support.proxy import S3Proxy
from tests.lake.support.stores import BucketStore, DirectoryStore, Store
from tests.lake.support.synced import syncs
from tests.lake.support.table_lab import SHARD, TableLab

SHARDS = (SHARD, SHARD + 1, SHARD + 2)
# They end soon what is not answered.
SHORT = {"timeout": "2s", "max_retries": "1", "retry_timeout": "5s"}


def changes_of(lab: TableLab, *addresses: int) -> list[ShardChange]:
    """Upload files of some shards, and return the changes that add them."""
    end = max(addresses) + 1
    return [ShardChange(shard, lab.add(*addresses, shard=shard), [], end) for shard in SHARDS]


def test_lost_files_of_some_shards_are_told_beside_what_is_committed(store: Store) -> None:
    lab = TableLab(store)
    changes = changes_of(lab, 1, 2)
    for change in changes[:2]:
        store.delete(lab.target, change.adds[1].path)
    committed = lab.table.commit_all(changes)
    assert {shard: type(error) for shard, error in committed.lost.items()} == {
        SHARDS[0]: CorruptionError,
        SHARDS[1]: CorruptionError,
    }
    assert all(error.shard == shard for shard, error in committed.lost.items())
    assert (committed.conflicts, committed.fault) == (frozenset(), None)
    assert [lab.table.published(shard) for shard in SHARDS] == [3, 3, 3]


def test_commit_outlasts_a_loss_of_power_though_a_file_of_it_is_lost(tmp_path) -> None:
    store = DirectoryStore(tmp_path)
    lab = TableLab(store)
    changes = changes_of(lab, 1)
    store.delete(lab.target, changes[0].adds[0].path)
    with syncs() as synced:
        lab.table.commit_all(changes)
    assert lab.target.directory is not None
    assert lab.target.directory / f"_delta_log/{lab.table.version:020}.json" in synced


def test_commit_that_was_taken_is_one_though_its_disk_goes_before_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = TableLab(DirectoryStore(tmp_path))
    changes, place = changes_of(lab, 1), lab.target.directory
    assert place is not None
    away = place.with_name("away")

    def advance_to(*_: object) -> bool:
        place.rename(away)
        return False

    monkeypatch.setattr(LoadedVersion, "advance_to", advance_to)
    committed = lab.table.commit_all(changes)
    assert isinstance(committed.fault, UnavailableError)
    assert (committed.conflicts, committed.lost) == (frozenset(), {})
    away.rename(place)
    assert [lab.other().published(shard) for shard in SHARDS] == [2, 2, 2]


def test_commit_that_the_store_took_is_one_though_it_cannot_be_read_back(
    bucket_store: BucketStore, s3_server: str
) -> None:
    with S3Proxy(s3_server) as proxy:
        lab = TableLab(bucket_store, bucket_store.through(proxy.url).target(**SHORT))
        changes = changes_of(lab, 1)
        proxy.fail_behind_commit()
        committed = lab.table.commit_all(changes)
        assert isinstance(committed.fault, UnavailableError)
        assert (committed.conflicts, committed.lost) == (frozenset(), {})
        proxy.pass_on()
        assert [lab.other().published(shard) for shard in SHARDS] == [2, 2, 2]
        lab.table.reload()
        lab.keep(2)
        assert lab.addresses() == [1, 1, 1, 2]

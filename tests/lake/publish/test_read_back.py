"""A store that fails behind a commit: what was committed is told all the same, and once."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from storage_core import CorruptionError, StreamReader, UnavailableError
from storage_core.lake.publish import publish_shards
from storage_core.lake.publishing.rounds import Rounds
from storage_core.lake.shard_change import ShardChange
from storage_core.lake.table import LakeTable
from tests.lake.publish.publish_lab import PublishLab
from tests.lake.support.proxy import S3Proxy
from tests.lake.support.stores import BucketStore
from tests.log.parts.parts_lab import NAME

# They end soon what is not answered.
SHORT = {"timeout": "2s", "max_retries": "1", "retry_timeout": "5s"}
LOST, OTHER = 0, 1


@pytest.fixture
def lab(root: Path) -> Iterator[PublishLab]:
    lab = PublishLab(root)
    yield lab
    lab.stream.close()


def publish_some(lab: PublishLab) -> Rounds:
    """Publish all shards by a call that leaves a rest, as the process of a worker does."""
    with StreamReader.open(lab.root, NAME) as reader:
        return publish_shards(reader, [LOST, OTHER], lab.target, commits_max=4)


def rows_of(done: Rounds) -> dict[int, int]:
    """Return how many rows of each shard the table has got, as a call tells."""
    return {shard: published.rows for shard, published in done.published.items()}


def rows_in_table(lab: PublishLab) -> dict[int, int]:
    """Return how many rows the files of each shard have that the table names."""
    table = lab.opened().get_add_actions(flatten=True)
    shards = [int(shard) for shard in table.column("partition.shard").to_pylist()]
    counts = dict.fromkeys(shards, 0)
    for shard, rows in zip(shards, table.column("num_records").to_pylist(), strict=True):
        counts[shard] += rows
    return counts


def lose_with_next_commit(lab: PublishLab, monkeypatch: pytest.MonkeyPatch, shard: int) -> None:
    """Let the store lose a file of a shard that the next commit adds."""
    usual, directory = LakeTable.commit_all, lab.target.directory
    assert directory is not None

    def commit_all(table: LakeTable, changes: Sequence[ShardChange]) -> object:
        monkeypatch.setattr(LakeTable, "commit_all", usual)
        (path,) = {change.adds[0].path for change in changes if change.shard == shard}
        (directory / path).unlink()
        return usual(table, changes)

    monkeypatch.setattr(LakeTable, "commit_all", commit_all)


def test_shard_whose_file_the_store_lost_keeps_no_other_from_being_told(lab, monkeypatch):
    lab.fill(60)
    lose_with_next_commit(lab, monkeypatch, LOST)
    done = publish_some(lab)
    assert {shard: type(error) for shard, error in done.errors.items()} == {LOST: CorruptionError}
    assert done.fault is None
    assert {shard: one.is_whole for shard, one in done.published.items()} == {
        LOST: False,
        OTHER: True,
    }
    assert rows_of(done) == rows_in_table(lab)
    again = publish_some(lab)
    assert (rows_of(again), again.errors) == ({LOST: 0, OTHER: 0}, {})


def test_publish_of_a_stream_ends_with_a_lost_file_behind_all_other_shards(lab, monkeypatch):
    for _ in range(2):
        lab.fill(60)
    lose_with_next_commit(lab, monkeypatch, LOST)
    with pytest.raises(CorruptionError, match="and the store has no file"):
        lab.publish()
    ends = lab.published()
    lab.publish()
    assert lab.published() == ends


def test_what_a_store_took_that_is_away_since_is_told_once(
    root: Path, bucket_store: BucketStore, s3_server: str
) -> None:
    with S3Proxy(s3_server) as proxy:
        lab = PublishLab(root, bucket_store)
        lab.fill(60).publish()
        before = rows_in_table(lab)
        lab.fill(60)
        direct, lab.target = lab.target, bucket_store.through(proxy.url).target(**SHORT)
        proxy.fail_behind_commit()
        done = publish_some(lab)
        assert isinstance(done.fault, UnavailableError)
        lab.target = direct
        after = rows_in_table(lab)
        assert rows_of(done) == {shard: after[shard] - before[shard] for shard in after}
        assert rows_of(publish_some(lab)) == {LOST: 0, OTHER: 0}
        lab.check()
        lab.stream.close()

"""A log that goes on in a table where another one ended has runs of its own rows behind that."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage_core import StreamReader
from storage_core.lake.heads.runs import listed_runs
from storage_core.lake.publishing.publication import stream_of
from storage_core.lake.table import LakeTable
from storage_core.testing import SimulatedCrash
from tests.lake.publish.owners_lab import SHARD, Owner, Owners
from tests.lake.publish.publish_lab import dying
from tests.lake.support.stores import DirectoryStore
from tests.log.topics import NAME


@pytest.fixture
def owners(root: Path) -> Iterator[Owners]:
    owners = Owners(root, DirectoryStore(root).target())
    yield owners
    for owner in owners.all:
        owner.copy.release()


def ranges(owners: Owners, owner: Owner) -> list[tuple[int, int]]:
    with StreamReader.open(owner.copy.root, NAME) as reader:
        table = LakeTable.open(owners.target, stream_of(reader))
    assert table is not None
    return [(run.begin, run.end) for run in listed_runs(table, SHARD)]


def test_run_that_the_other_log_did_not_commit_goes(owners: Owners) -> None:
    first = owners.begin(100)
    first.seal(100, 200)
    first.publish()
    first.seal(200, 260)
    with pytest.raises(SimulatedCrash), dying(1, "commit_all"):
        first.publish()
    assert ranges(owners, first) == [(100, 200), (200, 260)]
    heir = owners.begin(200)
    heir.seal(200, 230)
    heir.take_over()
    assert ranges(owners, heir) == [(100, 200), (200, 230)]
    heir.seal(230, 260)
    heir.publish()
    assert ranges(owners, heir) == [(100, 200), (200, 230), (230, 260)]


def test_runs_of_the_other_log_are_not_merged(owners: Owners) -> None:
    first = owners.begin(100)
    for start in range(100, 150, 10):
        first.seal(start, start + 10)
        first.publish()
    heir = owners.begin(150)
    for start in range(150, 230, 10):
        heir.seal(start, start + 10)
        heir.take_over()
    assert ranges(owners, heir) == [(at, at + 10) for at in range(100, 150, 10)] + [(150, 230)]

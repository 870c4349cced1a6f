"""Owners of one partition that publish into one table, each from a root of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from storage_core.lake.publish import publish_stream
from storage_core.lake.publishing.report import ShardPublished
from storage_core.lake.target import LakeTarget
from tests.lake.publish.publish_lab import Changes
from tests.lake.support.stores import DirectoryStore
from tests.log.topics import NAME, TopicCopy

SHARD = 3


class Owner:
    """A copy of a topic that has one of its partitions from an offset on."""

    def __init__(self, root: Path, target: LakeTarget, born: int) -> None:
        self.copy = TopicCopy(root)
        self.copy.add({SHARD: born})
        self.copy.open(SHARD)
        self._target = target

    def seal(self, start: int, end: int) -> None:
        """Store and seal the records of some offsets."""
        self.copy.append(SHARD, range(start, end))
        self.copy.stream.commit()
        self.copy.stream.seal()

    def publish(self) -> ShardPublished:
        return publish_stream(self.copy.root, NAME, self._target).shards[SHARD]


@pytest.fixture
def lake(root: Path) -> DirectoryStore:
    return DirectoryStore(root)


@pytest.fixture
def changes(lake: DirectoryStore) -> Changes:
    return Changes(lake, lake.target())


@pytest.fixture
def owners(root: Path, lake: DirectoryStore) -> Iterator["Owners"]:
    owners = Owners(root, lake.target())
    yield owners
    for owner in owners.all:
        owner.copy.release()


class Owners:
    """Roots beside each other, and the one table."""

    def __init__(self, root: Path, target: LakeTarget) -> None:
        self._root, self._target = root, target
        self.all: list[Owner] = []

    def begin(self, born: int) -> Owner:
        owner = Owner(self._root / f"root-{len(self.all)}", self._target, born)
        self.all.append(owner)
        return owner

    def addresses(self) -> list[int]:
        rows = DeltaTable(self._target.uri).to_pyarrow_table(columns=["address"])
        return sorted(rows.column("address").to_numpy().tolist())


def test_owner_that_begins_at_the_published_address_goes_on(owners, changes):
    first = owners.begin(100)
    first.seal(100, 200)
    assert first.publish().end == 200
    heir = owners.begin(200)
    heir.seal(200, 260)
    done = heir.publish()
    assert (done.begin, done.end, done.files_removed) == (200, 260, 0)
    assert owners.addresses() == list(range(100, 260))
    changes.check()


def test_owner_that_has_less_than_was_published_changes_nothing(owners):
    first = owners.begin(100)
    first.seal(100, 150)
    heir = owners.begin(100)
    heir.seal(100, 200)
    heir.publish()
    assert first.publish().commits == 0
    assert owners.addresses() == list(range(100, 200))


def test_owner_that_was_frozen_and_has_more_goes_on_from_what_the_heir_published(owners, changes):
    frozen = owners.begin(100)
    frozen.seal(100, 150)
    frozen.publish()
    frozen.seal(150, 300)
    heir = owners.begin(150)
    heir.seal(150, 210)
    heir.publish()
    frozen.publish()
    heir.seal(210, 320)
    heir.publish()
    assert owners.addresses() == list(range(100, 320))
    changes.check()


def test_owner_that_begins_amid_a_published_file_leaves_it(owners, changes):
    first = owners.begin(100)
    first.seal(100, 200)
    first.publish()
    heir = owners.begin(150)
    heir.seal(150, 260)
    heir.publish()
    assert owners.addresses() == list(range(100, 260))
    changes.check()


def test_owners_that_publish_in_turns_double_nothing(owners, changes):
    first, second = owners.begin(100), owners.begin(100)
    for start in range(100, 400, 50):
        first.seal(start, start + 50)
        second.seal(start, start + 50)
        first.publish()
        first.copy.stream.compact()
        second.publish()
    first.publish()
    assert owners.addresses() == list(range(100, 400))
    changes.check()

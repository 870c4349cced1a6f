"""Owners of one partition, each with a root of its own, and the one table that they publish into.

owner = owners.begin(100)     a new root, whose log begins at an offset
owner.seal(100, 150)          the records of some offsets, as parts
owner.publish()
owners.addresses()            what the table has, as deltalake reads it
owners.lose(owner)            its disk is gone
"""

import shutil
from pathlib import Path
from typing import Final

from deltalake import DeltaTable

from storage_core import Stream
from storage_core.lake.publish import publish_stream
from storage_core.lake.publishing.report import ShardPublished
from storage_core.lake.target import LakeTarget
from tests.log.topics import NAME, TopicCopy

SHARD: Final = 3


class Owner:
    """A copy of a topic that has one of its partitions from an offset on."""

    def __init__(self, root: Path, target: LakeTarget, born: int) -> None:
        self.copy = TopicCopy(root)
        self.copy.add({SHARD: born})
        self.copy.open(SHARD)
        self._target = target
        self.end = born

    def seal(self, start: int, end: int) -> None:
        """Store and seal the records of some offsets."""
        self.end = end
        self.copy.append(SHARD, range(start, end))
        self.copy.stream.commit()
        self.copy.stream.seal()

    def reset(self, born: int) -> None:
        """Put a new log in the place of the one there is, as a reset of a group's offsets does."""
        self.copy.stream.close()
        Stream.archive_shards(self.copy.root, NAME, {SHARD: born})
        self.copy.stream = Stream.open(self.copy.root, NAME)

    def publish(self, *, accept_hole: bool = False, take_over: bool = False) -> ShardPublished:
        report = publish_stream(
            self.copy.root, NAME, self._target, accept_hole=accept_hole, take_over=take_over
        )
        return report.shards[SHARD]

    def take_over(self) -> ShardPublished:
        """Publish, whoever did so before."""
        return self.publish(take_over=True)


class Owners:
    """Roots beside each other, and the one table."""

    def __init__(self, root: Path, target: LakeTarget) -> None:
        self._root, self.target = root, target
        self.all: list[Owner] = []
        self._begun = 0

    def begin(self, born: int) -> Owner:
        owner = Owner(self._root / f"root-{self._begun}", self.target, born)
        self.all.append(owner)
        self._begun += 1
        return owner

    def lose(self, owner: Owner) -> None:
        """Let an owner's disk be gone."""
        self.all.remove(owner)
        owner.copy.release()
        shutil.rmtree(owner.copy.root)

    def addresses(self) -> list[int]:
        rows = DeltaTable(self.target.uri).to_pyarrow_table(columns=["address"])
        return sorted(rows.column("address").to_numpy().tolist())

"""Owners that publish, merge, die, are lost and take over, in any order, into one table.

The topic is the row of its offsets. Whatever is done, the table has the offsets below the published
address, each once; a reader that follows its changes has got none twice.
"""

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from storage_core import StreamReader
from storage_core.lake.app_id import stream_of
from storage_core.lake.table import LakeTable
from tests.lake.publish.owners_lab import SHARD, Owner, Owners
from tests.lake.publish.publish_lab import Changes, die_in
from tests.lake.support.stores import DirectoryStore
from tests.log.fixtures import MEMORY
from tests.log.topics import NAME
from tests.thin import rounds

EXAMPLES = rounds("SHARDLOG_FAULT_LAKE", few=6, many=200)

_places = st.integers(0, 2)
_seal = st.tuples(st.just("seal"), _places, st.integers(1, 30))
_publish = st.tuples(st.just("publish"), _places)
_actions = st.one_of(
    _seal,
    _seal,
    _seal,
    st.tuples(st.just("seal_often"), _places, st.integers(1, 8)),
    st.tuples(st.just("compact"), _places),
    _publish,
    _publish,
    st.tuples(st.just("die"), _places, st.integers(1, 8), st.booleans()),
    st.tuples(st.just("take_over"), _places),
    st.tuples(st.just("lose"), _places),
)


class OwnersAgainstTopic:
    """The steps there are, each done by one of the owners there are."""

    def __init__(self, folder: Path) -> None:
        store = DirectoryStore(folder)
        self.owners = Owners(folder, store.target())
        self.changes = Changes(store, store.target())
        self.owners.begin(0)

    def seal(self, owner: Owner, count: int) -> None:
        owner.seal(owner.end, owner.end + count)

    def seal_often(self, owner: Owner, count: int) -> None:
        for _ in range(6):
            self.seal(owner, count)

    def compact(self, owner: Owner) -> None:
        owner.copy.stream.compact()

    def publish(self, owner: Owner) -> None:
        owner.take_over()

    def die(self, owner: Owner, call: int, behind: bool) -> None:
        die_in(owner.take_over, call, behind=behind)

    def take_over(self, _: Owner) -> None:
        """Let a new owner begin where the table ends."""
        if len(self.owners.all) < 3:
            self.owners.begin(self.published())

    def lose(self, owner: Owner) -> None:
        published = self.published()
        self.owners.lose(owner)
        if not self.owners.all:
            self.owners.begin(published)

    def published(self) -> int:
        with StreamReader.open(self.owners.all[0].copy.root, NAME) as reader:
            table = LakeTable.open(self.owners.target, stream_of(reader))
        return 0 if table is None else table.published(SHARD) or 0

    def check(self) -> None:
        published = self.published()
        if published:
            assert self.owners.addresses() == list(range(published))
            self.changes.check()


@given(st.lists(_actions, min_size=8, max_size=18))
@settings(max_examples=EXAMPLES)
def test_table_has_each_record_once_whoever_owned_it(actions: list[Any]) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        lab = OwnersAgainstTopic(Path(folder))
        for name, place, *arguments in actions:
            owners = lab.owners.all
            getattr(lab, name)(owners[place % len(owners)], *arguments)
            lab.check()
        for owner in lab.owners.all:
            owner.take_over()
        lab.check()
        for owner in list(lab.owners.all):
            lab.owners.lose(owner)

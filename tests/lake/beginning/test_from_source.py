"""A table that has lost rows for good is made whole by a root that has them from the source."""

import pytest

from storage_core import CorruptionError
from storage_core.lake import check_lake
from storage_core.lake.beginning.begin import begin_from_lake
from tests.lake.beginning.beginning_lab import NAME, SHARD


def lose_middle_file(lab):
    """Let the owner be gone, and the store lose a file that nothing else has."""
    lab.published(60, 60, 60)
    lab.lose_owner()
    files = lab.files()
    files[len(files) // 2].unlink()


def problems(root):
    return [one.message for one in check_lake(root.root, NAME, read=True).problems]


def test_root_that_has_all_from_the_source_takes_over_and_the_table_is_whole(lab):
    lose_middle_file(lab)
    with pytest.raises(CorruptionError, match="its store does not have"):
        begin_from_lake(lab.new_root().root, NAME, [SHARD])
    other = lab.witness
    other.stream.alter(lake=lab.target.uri)
    other.stream.seal()
    other.publish(take_over=True)
    assert problems(other) == []
    assert lab.addresses() == lab.witness_addresses()
    heir = lab.new_root()
    lab.owner = other
    lab.take_over(heir)
    assert problems(heir) == []

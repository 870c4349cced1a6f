"""A reset of shards that processes hold is refused in a line: which, and what to do."""

import pytest

from connectors.group.reset import Reset, refuse_held
from connectors.kafka import Partition
from storage_core import ShardLockedError, Stream, shard_owners
from tests.unit.connectors.writers import TOPIC, make_stream


def refusal(root, held, reset):
    """Return the line that refuses to reset partitions, some of which are held here."""
    make_stream(root, 14)
    resets = [Reset(Partition(TOPIC, number), 0, 5) for number in reset]
    with Stream.open(root, TOPIC, shards=held):
        owner = shard_owners(root, TOPIC)[held[0]]
        with pytest.raises(ShardLockedError) as error:
            refuse_held(root, TOPIC, resets)
    return error.value.message.replace(str(owner), "OWNER").replace(str(root), "ROOT")


@pytest.mark.parametrize(
    ("held", "line"),
    [
        ([3], "OWNER holds the shard: run `shardlog group pause ROOT orders --partition 3`"),
        ([1, 3], "OWNER holds partitions 1, 3: run `shardlog group pause ROOT orders`"),
        (
            range(10),
            "OWNER holds partitions 0, 1, 2, 3, 4, 5, 6, 7, 8, 9: run `shardlog group pause",
        ),
        (
            range(13),
            "OWNER holds partitions 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 3 more: run `shardlog group",
        ),
    ],
)
def test_all_that_are_held_are_named_up_to_ten(tmp_path, held, line):
    assert refusal(tmp_path, held, range(14)).startswith(line)


def test_what_is_held_and_stays_as_it_is_or_is_not_reset_is_not_named(tmp_path):
    make_stream(tmp_path, 3)
    with Stream.open(tmp_path, TOPIC):
        refuse_held(tmp_path, TOPIC, [Reset(Partition(TOPIC, 1), 5, 5)])

"""What a server tells of who holds the shards of its root, and of what lies there."""

from storage_core import Stream
from tests.log.serve.served import serving
from tests.log.topics import NAME, TopicCopy


def test_holder_of_each_shard_is_told_as_long_as_it_holds_it(copy: TopicCopy) -> None:
    copy.add({1: 100, 4: 7})
    copy.open(1)
    copy.append(1, [100, 104])
    copy.stream.commit()
    with serving(copy.root) as served:
        owners = served.result("owners", NAME)
        assert {n: (one.born, one.start, one.committed) for n, one in owners.items()} == {
            1: (100, 100, 105),
            4: (7, 7, 7),
        }
        assert [one.holder is not None for _, one in sorted(owners.items())] == [True, False]
        copy.open(4)
        owners = served.result("owners", NAME)
        assert [one.holder is not None for _, one in sorted(owners.items())] == [False, True]
        copy.stream.close()
        assert not any(one.holder for one in served.result("owners", NAME).values())
        copy.stream = Stream.open(copy.root, NAME)

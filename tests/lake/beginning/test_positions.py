"""What a table says of many shards is asked at once."""

from pathlib import Path

import pytest

from storage_core import StreamReader
from storage_core.lake import LakeOwnerError, lake_positions, publish_stream
from tests.log.topics import NAME, TopicCopy

SHARDS = (0, 1, 11)


def copy_of(place: Path, lake: Path, end: int) -> TopicCopy:
    """Return a copy of a topic whose shards have the records up to an offset, sealed."""
    copy = TopicCopy(place, lake=str(lake))
    copy.add(dict.fromkeys(SHARDS, 0))
    copy.open()
    for shard in SHARDS:
        copy.append(shard, range(end + shard))
    copy.stream.commit()
    copy.stream.seal()
    return copy


@pytest.fixture
def copies(root: Path):
    """Two roots that copy a topic, of which the first publishes."""
    copies = [copy_of(root / name, root / "lake", 20) for name in ("first", "second")]
    publish_stream(copies[0].root, NAME)
    yield copies
    for copy in copies:
        copy.release()


def test_stream_is_opened_once_for_all_shards(copies, monkeypatch):
    opened = []
    usual = StreamReader.open

    def counted(*arguments, **named):
        opened.append(arguments)
        return usual(*arguments, **named)

    monkeypatch.setattr(StreamReader, "open", counted)
    positions = lake_positions(copies[1].root, NAME, SHARDS)
    assert {shard: (one.published, one.is_own) for shard, one in positions.items()} == {
        shard: (20 + shard, False) for shard in SHARDS
    }
    assert len(opened) == 1


def test_each_shard_has_its_own_files_alone(copies):
    copies[1].stream.close()
    with pytest.raises(LakeOwnerError):
        publish_stream(copies[1].root, NAME)
    positions = lake_positions(copies[0].root, NAME, [1, 11])
    assert {shard: one.is_own for shard, one in positions.items()} == {1: True, 11: True}

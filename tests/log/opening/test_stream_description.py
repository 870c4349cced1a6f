"""What a stream's files say of it, whatever state its shards are in."""

import shutil

import pytest

from storage_core import (
    CorruptionError,
    InvalidRequestError,
    Stream,
    StreamOptions,
    StreamOrigin,
    StreamReader,
    describe_stream,
)

ORIGIN = StreamOrigin("kafka", "orders", "topic-id", "integer", "timestamp")


@pytest.fixture
def root(tmp_path):
    """A topic's stream of three shards, the second of which is gone."""
    Stream.create(tmp_path, "orders", StreamOptions(jitter=5), origin=ORIGIN).close()
    Stream.add_shards(tmp_path, "orders", dict.fromkeys(range(3), 0))
    shutil.rmtree(tmp_path / "orders" / "shard-0001")
    return tmp_path


def test_stream_is_described_though_a_shard_is_gone(root):
    description = describe_stream(root, "orders")
    assert (description.name, description.shards, description.origin) == (
        "orders",
        (0, 1, 2),
        ORIGIN,
    )
    assert description.options.jitter == 5


def test_stream_made_anew_has_another_incarnation(root):
    before = describe_stream(root, "orders").incarnation
    shutil.rmtree(root / "orders")
    Stream.create(root, "orders", StreamOptions()).close()
    assert describe_stream(root, "orders").incarnation != before


def test_stream_that_is_not_there_is_refused(root):
    with pytest.raises(InvalidRequestError, match="no such stream"):
        describe_stream(root, "clicks")


def test_shard_that_is_gone_keeps_no_other_from_being_written(root):
    with Stream.open(root, "orders", shards=[0, 2]) as stream:
        assert stream.committed() == {0: 0, 2: 0}
    with pytest.raises(CorruptionError, match=r"missing.*shard 1"):
        Stream.open(root, "orders", shards=[1])
    Stream.add_shards(root, "orders", {3: 7})
    assert describe_stream(root, "orders").shards == (0, 1, 2, 3)


@pytest.mark.parametrize("open_whole", [Stream.open, StreamReader.open])
def test_whole_stream_is_not_opened_without_a_shard_that_is_gone(root, open_whole):
    with pytest.raises(CorruptionError, match=r"missing.*shard 1"):
        open_whole(root, "orders")

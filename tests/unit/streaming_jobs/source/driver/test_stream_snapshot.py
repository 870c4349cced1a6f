"""Streams are looked at one after the other, and may be dropped meanwhile."""

import pytest

from storage_core import CorruptionError, InvalidRequestError, Stream, drop_stream
from streaming_jobs.source.driver.stream_snapshot import check_streams, read_each
from streaming_jobs.source.options import parse_source_options
from tests.unit.streaming_jobs.source.source_lab import SourceLab


@pytest.fixture
def root(tmp_path):
    """Streams a and b."""
    for name in ("a", "b"):
        Stream.create(tmp_path / "root", name).close()
    return tmp_path / "root"


def options(root, **choice):
    return parse_source_options({"path": str(root), **choice})


def dropping(root, doomed):
    """Return a question under which a stream is dropped."""

    def ask(reader, seen):
        if seen.place.stream == doomed:
            drop_stream(root, doomed)
        return reader.refresh()

    return ask


def test_stream_that_is_dropped_while_it_is_looked_at_is_none_of_those_that_match(root):
    assert list(read_each(options(root, subscribePattern="."), dropping(root, "b"))) == ["a"]


def test_stream_that_is_named_and_dropped_while_it_is_looked_at_is_told(root):
    with pytest.raises(InvalidRequestError, match=r"no such stream: it was dropped.*'b'"):
        read_each(options(root, subscribe="a,b"), dropping(root, "b"))


def test_damage_to_a_stream_that_is_there_is_told_as_it_is(root):
    (root / "b" / "shard-0000" / "marker").unlink()
    with pytest.raises(CorruptionError, match="marker is missing"):
        read_each(options(root, subscribePattern="."), lambda reader, _: reader.refresh())


def test_what_may_surprise_is_told(root, caplog):
    check_streams(options(root, subscribePattern="^z"))
    assert "there are no streams that match '^z' under" in caplog.text
    caplog.clear()
    check_streams(options(root, subscribePattern="."))
    assert not caplog.messages
    for name in ("c", "d"):
        topic = SourceLab(root, name)
        topic.create_topic()
        topic.close()
    check_streams(options(root, subscribePattern="."))
    assert "streams ['c', 'd'] show the same topic, 'orders'" in caplog.text

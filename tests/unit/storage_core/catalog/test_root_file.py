"""A root: its id, and the streams under it."""

import pytest

from storage_core import (
    CorruptionError,
    InvalidRequestError,
    UnsupportedFormatError,
    list_streams,
    root_id,
)
from storage_core.catalog.births import create_stream
from storage_core.catalog.options import StreamOptions
from storage_core.platform.durable_file import read_document
from tests.log.on_disk import flip_bit, rewrite

ONE_SHARD = StreamOptions(shards=1)


def test_root_keeps_the_id_it_was_made_with(root):
    create_stream(root, "a", ONE_SHARD)
    first = root_id(root)
    create_stream(root, "b", ONE_SHARD)
    assert root_id(str(root)) == first == read_document(root / "root.json")["root_id"]


def test_streams_are_listed_by_name(root):
    for name in ("b", "a.b", "a"):
        create_stream(root, name, ONE_SHARD)
    (root / "no-stream").mkdir()
    assert list_streams(root) == ["a", "a.b", "b"]


@pytest.mark.parametrize("call", [root_id, list_streams])
@pytest.mark.parametrize("place", ["", "gone", "file", "file/below", "a\0b"])
def test_what_is_no_root_is_refused_and_left_alone(root, call, place):
    (root / "file").touch()
    with pytest.raises(InvalidRequestError, match="root"):
        call(root / place)
    assert [path.name for path in root.iterdir()] == ["file"]


def test_newer_root_is_refused_by_name(root):
    create_stream(root, "a", ONE_SHARD)
    path = root / "root.json"
    rewrite(path, format="shardlog-root/2")
    with pytest.raises(UnsupportedFormatError, match="format 'shardlog-root/2'"):
        list_streams(root)


def test_damaged_root_is_told_by_its_file(root):
    create_stream(root, "a", ONE_SHARD)
    flip_bit(root / "root.json", 30)
    with pytest.raises(CorruptionError, match=r"root\.json"):
        root_id(root)

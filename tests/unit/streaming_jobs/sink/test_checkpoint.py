"""What Spark wrote of a batch's plan is made durable before the batch is decided."""

from pathlib import Path

import pytest

from storage_core import UnavailableError
from streaming_jobs.sink.checkpoint import local_directory, sync_plan


@pytest.fixture
def checkpoint(tmp_path):
    """A checkpoint of two batches, as Spark leaves it."""
    for name in ("metadata", "offsets/0", "offsets/1", "offsets/.1.crc", "sources/0/1.compact"):
        path = tmp_path / "checkpoint" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    return tmp_path / "checkpoint"


def test_plan_of_a_batch_is_synced_with_the_directories_that_hold_it(checkpoint):
    synced = {str(path.relative_to(checkpoint.parent)) for path in sync_plan(checkpoint, 1)}
    files = {"metadata", "offsets/.1.crc", "offsets/1", "sources/0/1.compact"}
    folders = {"offsets", "sources/0", "sources"}
    expected = {f"checkpoint/{name}" for name in files | folders}
    assert synced == {".", "checkpoint", *expected}


def test_checkpoint_that_is_not_here_is_told_once_and_let_be(tmp_path, caplog):
    for batch in range(2):
        assert sync_plan(tmp_path / "away" / "checkpoint", batch) == []
    (said,) = caplog.messages
    assert f"not in its checkpoint at {tmp_path}/away/checkpoint" in said


def test_plan_that_is_there_is_synced_without_a_word(checkpoint, caplog):
    sync_plan(checkpoint, 0)
    assert caplog.messages == []


def test_disk_that_refuses_is_told_with_the_file(checkpoint):
    (checkpoint / "offsets" / "2").symlink_to("2")
    with pytest.raises(UnavailableError, match="cannot be made durable") as raised:
        sync_plan(checkpoint, 2)
    assert raised.value.path == checkpoint / "offsets" / "2"


@pytest.mark.parametrize(
    ("location", "place"),
    [
        ("/a b", "/a b"),
        ("file:/a%20b#c?d", "/a%20b#c?d"),
        ("/a#b?c%20", "/a#b?c%20"),
        ("/a:b/c", "/a:b/c"),
        ("file:////a", "/a"),
        ("file:///a", "/a"),
        ("a/b", "a/b"),
        ("hdfs://x/a", None),
        ("hdfs:/a", None),
        ("s3a://x/a", None),
        ("file://host/a", None),
    ],
)
def test_only_a_directory_of_this_machine_is_synced(location, place):
    assert local_directory(location) == (None if place is None else Path(place))

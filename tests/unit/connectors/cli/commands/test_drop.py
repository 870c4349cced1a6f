"""`shardlog drop`: nothing without --execute, and never under a writer."""

import pytest

from connectors.group.pauses import Pause, Pauses
from connectors.group.quarantine_notes import WHOLE_TOPIC, QuarantineNote, QuarantineNotes
from storage_core import Stream, StreamOptions, list_streams

NAME = "orders"


@pytest.fixture
def root(tmp_path):
    with Stream.create(tmp_path, NAME, StreamOptions(shards=2)) as stream:
        stream.append(1, 0, b"x")
    return tmp_path


@pytest.mark.parametrize("options", [(), ("--remove",)])
def test_drop_changes_nothing_unless_it_is_told_to(shardlog, root, options):
    ran = shardlog("drop", root, NAME, *options)
    assert (ran.code, len(ran.lines)) == (0, 1)
    assert "2 shards, 1 record," in ran.out
    assert "--execute" in ran.out
    assert list_streams(root) == [NAME]


@pytest.mark.parametrize("confirmed", ["--execute", "--yes"])
def test_dropped_stream_is_set_aside_and_its_place_is_told(shardlog, root, confirmed):
    ran = shardlog("drop", root, NAME, confirmed)
    assert ran.code == 0
    assert list_streams(root) == []
    (stream_file,) = root.glob(f"~dropped/{NAME}/*/stream.json")
    assert str(stream_file.parent) in ran.out


def test_what_workers_had_set_aside_of_a_dropped_stream_is_over(shardlog, root):
    notes = QuarantineNotes(root)
    for stream in (NAME, "clicks"):
        notes.write(QuarantineNote(stream, 0, 0, "foreign", "made anew"))
    assert shardlog("drop", root, NAME, "--execute").code == 0
    assert [note.stream for note in notes.read()] == ["clicks"]


def test_pauses_of_a_dropped_stream_are_over(shardlog, root):
    pauses = Pauses(root)
    for stream, shard in ((NAME, 0), (NAME, WHOLE_TOPIC), ("clicks", 0)):
        pauses.write(Pause(stream, shard, 0))
    assert shardlog("drop", root, NAME, "--execute").code == 0
    assert [pause.stream for pause in pauses.read()] == ["clicks"]


@pytest.mark.parametrize("lost", ["marker", "db/CURRENT", ""], ids=["marker", "store", "all of it"])
def test_stream_whose_shard_is_damaged_can_be_dropped(shardlog, root, lost):
    place = root / NAME / "shard-0001" / lost
    place.rename(root / "lost")
    ran = shardlog("drop", root, NAME, "--execute")
    assert (ran.code, ran.err) == (0, "")
    assert "2 shards" in ran.out
    assert list_streams(root) == []


def test_removed_stream_leaves_no_files_of_its_own(shardlog, root):
    assert shardlog("drop", root, NAME, "--remove", "--execute").code == 0
    assert list(root.rglob("stream.json")) == []

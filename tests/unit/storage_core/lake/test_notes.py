"""Notes of what was published tell whether a log of a stream was published to a place."""

import pytest

from storage_core.lake import LakeNote, LakeNotes

NAME, PLACE = "telemetry", "file:///srv/lake"
LINEAGES = {0: ["aa"], 7: ["bb", "dd"]}


@pytest.fixture
def notes(tmp_path):
    return LakeNotes(tmp_path)


def note_shard(notes, lake=PLACE, lineage="bb"):
    notes.write(NAME, {7: LakeNote(lake, lineage, 100, 0)})


def has_published(notes):
    return notes.has_published(NAME, PLACE, LINEAGES)


def test_nothing_is_known_without_notes(notes):
    assert not has_published(notes)


@pytest.mark.parametrize("lake", [PLACE, "/srv/lake", "/srv//lake/"])
def test_place_is_known_however_it_is_spelled(notes, lake):
    note_shard(notes, lake)
    assert has_published(notes)


def test_what_was_published_elsewhere_since_counts_alone(notes):
    note_shard(notes)
    note_shard(notes, "s3://bucket/telemetry")
    assert not has_published(notes)


def test_log_of_a_stream_that_had_the_name_before_does_not_count(notes):
    note_shard(notes, lineage="cc")
    notes.write_whole(NAME, {"lake": PLACE, "shards": {"0": ["cc", 1, 2, 3]}})
    assert not has_published(notes)


def test_archived_log_of_a_shard_counts(notes):
    note_shard(notes, lineage="dd")
    assert has_published(notes)


def test_publish_that_had_nothing_left_to_do_counts(notes):
    notes.write_whole(NAME, {"lake": PLACE, "shards": {"0": ["aa", 1, 2, 3]}})
    assert has_published(notes)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"lake": 1, "lineage": "bb"}', '{"lake": "file:///srv/lake"}']
)
def test_note_that_says_nothing_counts_for_nothing(notes, tmp_path, text):
    note_shard(notes)
    notes.write_whole(NAME, {})
    for file in (tmp_path / "~lake").iterdir():
        file.write_text(text)
    assert not has_published(notes)


@pytest.mark.parametrize("shards", [None, [], {"0": None}, {"0": "aa"}, {"0": []}, {"1": ["aa"]}])
def test_note_of_all_that_is_damaged_counts_for_nothing(notes, shards):
    notes.write_whole(NAME, {"lake": PLACE, "shards": shards})
    assert not has_published(notes)

"""The topics a subscription began with: written once, whole, and read by all who come later."""

import os

import pytest

from connectors.ingest.assignment.first_topics import first_topics
from storage_core import CorruptionError, InvalidRequestError, UnavailableError

PATTERN = ["^telemetry.*"]


def test_topics_of_the_beginning_stay_the_first_ones(tmp_path):
    first = first_topics(tmp_path / "root", "group", PATTERN, ["a", "b"])
    later = first_topics(tmp_path / "root", "group", PATTERN, ["a", "b", "c"])
    assert first == later == {"a", "b"}


@pytest.mark.parametrize(
    ("group", "subscription"), [("other", PATTERN), ("group", ["^clicks.*"]), ("group", ["a", "b"])]
)
def test_another_subscription_begins_by_itself(tmp_path, group, subscription):
    first_topics(tmp_path, "group", PATTERN, ["a"])
    assert first_topics(tmp_path, group, subscription, ["a", "b"]) == {"a", "b"}


def test_order_of_names_makes_no_other_subscription(tmp_path):
    first_topics(tmp_path, "group", ["a", "b"], ["a"])
    assert first_topics(tmp_path, "group", ["b", "a"], ["a", "b"]) == {"a"}


def test_list_is_the_only_file_left(tmp_path):
    first_topics(tmp_path, "group", PATTERN, ["a"])
    (found,) = (tmp_path / "~first-topics").iterdir()
    assert found.suffix == ".json"


def test_list_that_cannot_be_read_is_damage(tmp_path):
    first_topics(tmp_path, "group", PATTERN, ["a"])
    (found,) = (tmp_path / "~first-topics").iterdir()
    found.write_text("{")
    with pytest.raises(CorruptionError, match=r"remove it.*~first-topics"):
        first_topics(tmp_path, "group", PATTERN, ["a"])


def test_list_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "~first-topics").write_text("in the way")
    with pytest.raises(InvalidRequestError, match="cannot be kept"):
        first_topics(tmp_path, "group", PATTERN, ["a"])


def test_list_for_which_the_disk_has_no_room_may_be_written_later(tmp_path):
    there, full = tmp_path / "there", tmp_path / "full"
    first_topics(there, "group", PATTERN, ["a"])
    (found,) = (there / "~first-topics").iterdir()
    (full / "~first-topics").mkdir(parents=True)
    # Whatever is written to it finds no space left.
    (full / "~first-topics" / found.with_suffix(f".{os.getpid()}").name).symlink_to("/dev/full")
    with pytest.raises(UnavailableError, match="cannot be kept: No space left"):
        first_topics(full, "group", PATTERN, ["a"])

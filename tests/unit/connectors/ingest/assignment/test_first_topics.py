"""The topics a subscription began with: written once, whole, and read by all who come later."""

import os

import pytest

from connectors.ingest.assignment.first_topics import first_topics
from storage_core import CorruptionError, InvalidRequestError, UnavailableError

PATTERN = ["^telemetry.*"]


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
    (written,) = (tmp_path / "~first-topics").iterdir()
    assert written.suffix == ".json"


def test_list_that_cannot_be_read_is_damage(tmp_path):
    first_topics(tmp_path, "group", PATTERN, ["a"])
    (written,) = (tmp_path / "~first-topics").iterdir()
    written.write_text("{")
    with pytest.raises(CorruptionError, match=r"remove it.*~first-topics"):
        first_topics(tmp_path, "group", PATTERN, ["a"])


def test_list_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "~first-topics").write_text("in the way")
    with pytest.raises(InvalidRequestError, match="cannot be kept"):
        first_topics(tmp_path, "group", PATTERN, ["a"])


def test_list_for_which_the_disk_has_no_room_may_be_written_later(tmp_path):
    first, full = tmp_path / "first", tmp_path / "full"
    first_topics(first, "group", PATTERN, ["a"])
    (written,) = (first / "~first-topics").iterdir()
    (full / "~first-topics").mkdir(parents=True)
    # Whatever is written to it finds no space left.
    (full / "~first-topics" / written.with_suffix(f".{os.getpid()}").name).symlink_to("/dev/full")
    with pytest.raises(UnavailableError, match="cannot be kept: No space left"):
        first_topics(full, "group", PATTERN, ["a"])

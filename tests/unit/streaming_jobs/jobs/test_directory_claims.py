"""Directories that a job writes to: each is one job's, and says so to others."""

import os
from pathlib import Path

import pytest

from storage_core import CorruptionError, ForeignDataError, InvalidRequestError
from streaming_jobs.jobs.directory_claims import (
    NOTE,
    checkpoint_of,
    claim_checkpoint,
    directory_of,
    has_come_on,
)

DRAIN = {"job": "drain_late", "stream": "events", "into": "events-late"}


@pytest.fixture
def checkpoint(tmp_path):
    return str(tmp_path / "jobs" / "late")


def test_checkpoint_is_a_jobs_from_its_first_start_on(checkpoint):
    for _ in range(2):
        claim_checkpoint(checkpoint, DRAIN)
    assert [one.name for one in Path(checkpoint).iterdir()] == [NOTE]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"into": "else"}, "is of into events-late, not of into else; name another"),
        ({"stream": "orders"}, "is of stream events, not of stream orders; name another"),
    ],
)
def test_checkpoint_of_the_job_for_something_else_is_refused(checkpoint, other, message):
    claim_checkpoint(checkpoint, DRAIN)
    with pytest.raises(InvalidRequestError, match=f"late {message}"):
        claim_checkpoint(checkpoint, DRAIN | other)


def test_checkpoint_of_another_job_is_refused(checkpoint):
    claim_checkpoint(checkpoint, DRAIN)
    with pytest.raises(ForeignDataError, match="is of job drain_late, into events-late, stream e"):
        claim_checkpoint(checkpoint, {"job": "land_topic", "stream": "events"})


def test_checkpoint_that_no_job_has_made_is_refused(tmp_path, checkpoint):
    (tmp_path / "jobs" / "late" / "offsets").mkdir(parents=True)
    with pytest.raises(InvalidRequestError, match="holds 'offsets' of somebody else; name another"):
        claim_checkpoint(checkpoint, DRAIN)


def test_checkpoint_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InvalidRequestError, match="is a file; name a directory"):
        claim_checkpoint(str(tmp_path / "file"), DRAIN)


def test_note_that_was_damaged_is_told(tmp_path):
    claim_checkpoint(str(tmp_path), DRAIN)
    (tmp_path / NOTE).write_text("{}")
    with pytest.raises(CorruptionError, match="does not match its checksum"):
        claim_checkpoint(str(tmp_path), DRAIN)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_checkpoint_that_may_not_be_written_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InvalidRequestError, match="give this process the right to write here"):
        claim_checkpoint(str(tmp_path / "late"), DRAIN)


def test_checkpoint_of_another_file_system_is_taken_on_trust(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    claim_checkpoint("hdfs://there/late", DRAIN)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "place"),
    [
        # Another process of the job may work in another directory.
        ("late", str(Path("late").absolute())),
        ("/jobs/late 1", "/jobs/late 1"),
        ("file:/jobs/late", "/jobs/late"),
        ("file:///jobs/late%201", "/jobs/late 1"),
        ("hdfs://there/late", "hdfs://there/late"),
    ],
)
def test_checkpoint_is_called_as_spark_calls_it(text, place):
    assert checkpoint_of(text) == place


def test_directory_of_another_file_system_is_refused(tmp_path):
    assert directory_of(f"file:{tmp_path}", "into") == tmp_path
    with pytest.raises(InvalidRequestError, match="into s3://a/b: files are written to"):
        directory_of("s3://a/b", "into")


def test_checkpoint_has_come_on_once_a_batch_is_committed(tmp_path):
    assert not has_come_on(str(tmp_path))
    commits = tmp_path / "commits"
    commits.mkdir()
    (commits / ".0.crc").touch()
    assert not has_come_on(str(tmp_path))
    (commits / "0").touch()
    assert has_come_on(str(tmp_path))
    assert not has_come_on("hdfs://host/checkpoint")

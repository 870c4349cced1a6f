"""A job called through Spark Connect works in the directories that its caller saw, or in none."""

import shutil
from types import SimpleNamespace
from typing import Any

import pytest

from storage_core import InvalidRequestError
from streaming_jobs.jobs.called_elsewhere import where_it_was_called
from streaming_jobs.jobs.directory_claims import NOTE, claim_checkpoint


class Frame(SimpleNamespace):
    """A frame whose class lies where those of Connect do."""

    __module__ = "pyspark.sql.connect.dataframe"


@pytest.fixture
def called(tmp_path):
    """A job's batches by number, and what is done with one."""
    checkpoint, done = str(tmp_path / "checkpoint"), []
    claim_checkpoint(checkpoint, {"job": "drain_late"})
    frame: Any = Frame()
    process = where_it_was_called(
        frame, lambda _, number: done.append(number), "shardlog://a", checkpoint
    )
    return done, lambda number: process(frame, number)


def test_batch_is_processed_where_the_checkpoint_is_the_callers(called):
    done, process = called
    process(0)
    process(1)
    assert done == [0, 1]


@pytest.mark.parametrize("is_copied", [True, False])
def test_batch_is_refused_where_another_checkpoint_or_none_lies(called, tmp_path, is_copied):
    done, process = called
    (tmp_path / "checkpoint").rename(tmp_path / "callers")
    if is_copied:
        shutil.copytree(tmp_path / "callers", tmp_path / "checkpoint")
    with pytest.raises(InvalidRequestError, match=r"has another \S+/checkpoint or none: call the"):
        process(0)
    assert done == []


def test_without_connect_nothing_stands_between(tmp_path):
    frame: Any = SimpleNamespace()

    def process(_batch, _number):
        """Do nothing."""

    assert where_it_was_called(frame, process, "data", str(tmp_path / NOTE)) is process

"""What may be gone of a stream: what lies below its floor; with a cap nobody knows."""

import logging
from datetime import timedelta

import pytest

from storage_core import InvalidRequestError, Stream, StreamOptions, StreamReader
from streaming_jobs.jobs.rollup.retention_floor import floor_of, warn_of_short_retention

NAME = "events"
SECOND_MS = 1000


def test_stream_with_a_cap_has_no_floor(tmp_path):
    Stream.create(tmp_path, NAME, StreamOptions(shards=1, bytes_max=2**30)).close()
    message = "keeps no more than bytes_max"
    with (
        StreamReader.open(tmp_path, NAME) as reader,
        pytest.raises(InvalidRequestError, match=message),
    ):
        floor_of(reader, NAME)


@pytest.mark.parametrize(
    ("retention", "level", "is_told"),
    [
        (None, "year", False),
        (timedelta(hours=1), "hour", True),
        (timedelta(hours=2), "hour", False),
        (timedelta(hours=24), "day", True),
        (timedelta(days=31), "month", True),
        (timedelta(days=367), "year", False),
    ],
)
def test_retention_no_longer_than_a_window_is_told(tmp_path, caplog, retention, level, is_told):
    Stream.create(tmp_path, NAME, StreamOptions(shards=1, retention=retention)).close()
    with (
        StreamReader.open(tmp_path, NAME) as reader,
        caplog.at_level(logging.WARNING, "shardlog"),
    ):
        warn_of_short_retention(reader, NAME, level)
    assert ("let the retention be longer" in caplog.text) == is_told

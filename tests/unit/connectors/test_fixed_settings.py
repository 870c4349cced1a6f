"""What the file says and a stream that is there does not follow."""

import pytest

from connectors.fixed_settings import idle_settings
from connectors.options import StreamSettings
from storage_core import StreamOptions

MADE = StreamSettings(jitter_ms=5, ahead_max_ms=1000, retention_hours=24).stream_options()


def idle(options, **settings):
    found = idle_settings(StreamSettings(**settings), options)
    return {one.name: (one.wanted, one.in_force) for one in found}


def test_settings_that_a_stream_was_made_with_are_no_news():
    assert idle(MADE, jitter_ms=5, ahead_max_ms=1000, retention_hours=24) == {}
    assert idle(StreamSettings().stream_options()) == {}


@pytest.mark.parametrize("given", [{"jitter_ms": 7}, {}])
def test_another_jitter_is_told_with_both_values_though_it_be_the_default(given):
    assert idle(MADE, **given) == {"jitter_ms": (given.get("jitter_ms", 0), 5)}


def test_what_may_be_altered_is_told_where_the_file_names_it():
    assert idle(MADE, jitter_ms=5, ahead_max_ms=2000, retention_hours=48) == {
        "ahead_max_ms": (2000, 1000),
        "retention_hours": (48, 24),
    }
    assert idle(MADE, jitter_ms=5) == {}


def test_each_says_how_the_stream_gets_it():
    wanted = StreamSettings(jitter_ms=1, retention_hours=1.5)
    jitter, retention = idle_settings(wanted, StreamOptions())
    assert "shardlog drop" in jitter.advice
    assert "retention_hours=1.5" in retention.advice


def test_offsets_have_no_time_to_be_ahead_of():
    sequence = StreamSettings(primary="offset").stream_options()
    assert idle(sequence, primary="offset", ahead_max_ms=None) == {}
    assert idle(sequence, primary="offset", ahead_max_ms=5) == {}

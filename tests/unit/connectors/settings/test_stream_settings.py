"""What the file says and a stream that is there does not follow."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from connectors.settings.idle_settings import idle_settings
from connectors.settings.stream_settings import MappingRules, StreamSettings, rules_of
from storage_core import StreamOptions, StreamOrigin

MADE = StreamSettings(jitter_ms=5, ahead_max_ms=1000, retention_hours=24).stream_options("orders")


INTEGERS = StreamOrigin("kafka", "orders", "id", "integer", "timestamp")


def idle(options, origin=INTEGERS, **settings):
    idle_list = idle_settings(StreamSettings(**settings), options, origin)
    return {one.name: (one.wanted, one.in_force) for one in idle_list}


@pytest.mark.parametrize("settings", [{"jitter_ms": 7}, {}])
def test_another_jitter_is_told_with_both_values_though_it_be_the_default(settings):
    assert idle(MADE, **settings) == {"jitter_ms": (settings.get("jitter_ms", 0), 5)}


def test_what_may_be_altered_is_told_where_the_file_names_it():
    assert idle(MADE, jitter_ms=5, ahead_max_ms=2000, retention_hours=48) == {
        "ahead_max_ms": (2000, 1000),
        "retention_hours": (48, 24),
    }
    assert idle(MADE, jitter_ms=5) == {}


def test_what_becomes_parts_and_when_is_told_to_new_streams_and_of_those_that_are_there():
    wanted: dict[str, Any] = {
        "seal_rows": 5,
        "seal_after_minutes": 2.0,
        "keep_hot_hours": 1.0,
        "keep_replaced_minutes": 0.0,
        "never_cold": True,
    }
    made = StreamSettings(**wanted).stream_options("orders")
    assert made == StreamOptions(
        seal_rows=5,
        seal_after=timedelta(minutes=2),
        keep_hot=timedelta(hours=1),
        keep_replaced=timedelta(0),
        never_cold=True,
    )
    assert StreamSettings().stream_options("orders") == StreamOptions()
    assert idle(made, **wanted) == {}
    assert idle(StreamOptions(), **wanted).keys() == wanted.keys()
    (never,) = idle_settings(StreamSettings(never_cold=True), StreamOptions(), INTEGERS)
    assert "never_cold=true" in never.advice


def test_place_of_the_table_is_told_where_the_stream_has_another():
    wanted: dict[str, Any] = {
        "lake": "s3://Bucket/{topic}",
        "lake_lag_seconds": 5.0,
        "lake_history_hours": 24.0,
    }
    made = StreamSettings(**wanted).stream_options("orders")
    assert (made.lake, made.lake_lag) == ("s3://Bucket/orders", timedelta(seconds=5))
    assert idle(made, **wanted) == {}
    (place, lag, history) = idle_settings(StreamSettings(**wanted), StreamOptions(), INTEGERS)
    assert (place.wanted, place.in_force) == ("s3://Bucket/orders", None)
    assert "lake=s3://Bucket/orders`" in place.advice
    assert "lake_lag_seconds=5`" in lag.advice
    assert "lake_history_hours=24`" in history.advice


def test_offsets_have_no_time_to_be_ahead_of():
    sequence = StreamSettings(primary="offset").stream_options("orders")
    origin = replace(INTEGERS, primary="offset")
    assert idle(sequence, origin, primary="offset", ahead_max_ms=None) == {}
    assert idle(sequence, origin, primary="offset", ahead_max_ms=5) == {}


def test_kind_of_keys_and_primary_are_told_with_both_values():
    assert idle(MADE, jitter_ms=5, key_mode="none", primary="offset") == {
        "primary": ("offset", "timestamp"),
        "key_mode": ("none", "integer"),
    }


def test_larger_payloads_than_a_stream_takes_are_told_with_the_command_for_them():
    (setting,) = idle_settings(StreamSettings(payload_bytes_max=2**25), StreamOptions(), INTEGERS)
    assert (setting.wanted, setting.in_force) == (2**25, 2**24)
    assert "payload_bytes_max=33554432`" in setting.advice


def test_records_become_rows_by_what_their_stream_was_made_with():
    settings = StreamSettings(
        key_mode="none", primary="offset", payload_bytes_max=5, null_key="dead-letter"
    )
    assert rules_of(settings, MADE, INTEGERS) == MappingRules(null_key="dead-letter")

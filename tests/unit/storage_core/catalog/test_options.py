"""Options: what cannot work is refused by the option's name, before anything is made."""

from dataclasses import fields
from datetime import timedelta

import pytest

from storage_core import InvalidRequestError, StreamOptions
from storage_core.catalog.options import WINDOWS_MAX
from storage_core.catalog.stream_meta import decode_options, encode_options
from storage_core.format.window import WindowScheme


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("shards", 0),
        ("shards", 3),
        ("shards", -2),
        ("shards", 8192),
        ("shards", 2.0),
        ("shards", True),
        ("unit", "minutes"),
        ("unit", None),
        ("jitter", -1),
        ("jitter", 1.5),
        ("jitter", 2**63),
        ("ahead_max", -1),
        ("ahead_max", "1d"),
        ("records_max", -1),
        ("bytes_max", 0.5),
        ("retention", 3600),
        ("retention", timedelta(0)),
        ("retention", timedelta(seconds=-1)),
        ("retention", timedelta(days=400_000)),
        ("sync", "never"),
        ("sync_interval", 0.1),
        ("sync_interval", timedelta(0)),
        ("wait_max", timedelta(0)),
        ("wait_max", None),
        ("payload_bytes_max", 0),
        ("payload_bytes_max", 2**31),
        ("block_records", 0),
        ("block_bytes", 0),
        ("codec", "gzip"),
        ("reads_max", 0),
        ("reads_max", 10_001),
        ("read_bytes_max", 0),
        ("read_bytes_max", "1 GiB"),
        ("seal_rows", 0),
        ("seal_after", timedelta(0)),
        ("keep_hot", timedelta(0)),
        ("keep_replaced", timedelta(-1)),
        ("keep_replaced", 900),
        ("never_cold", "yes"),
        ("lake", ""),
        ("lake", 5),
        ("lake", "lake/telemetry"),
        ("lake", "http://bucket/telemetry"),
        ("lake", "s3://"),
        ("lake", "s3:///telemetry"),
        ("lake", "s3://bucket"),
        ("lake", "s3://bucket/a/../b"),
        ("lake", "s3://bucket/my table"),
        ("lake", "/"),
        ("lake", "/var/../lake"),
        ("lake", "s3://bucket/" + "a" * 2048),
        ("lake", "s3://bucket/table\n"),
        ("lake", "file://machine/lake"),
        ("lake", "file://"),
        ("lake", "abfss://account.dfs.core.windows.net/telemetry"),
        ("lake_lag", timedelta(0)),
        ("lake_lag", 60),
        ("lake_history", timedelta(minutes=59)),
        ("lake_history", None),
    ],
)
def test_option_that_cannot_work_is_refused_by_name(name, value):
    with pytest.raises(InvalidRequestError, match=rf"^{name}: "):
        StreamOptions(**{name: value})


@pytest.mark.parametrize(
    "uri",
    [
        "/var/lake/telemetry",
        "file:///var/lake/telemetry",
        "s3://bucket/telemetry",
        "gs://bucket/a/b",
        "abfss://container@account.dfs.core.windows.net/telemetry",
    ],
)
def test_place_of_a_table_is_taken_and_read_back(uri):
    options = StreamOptions(lake=uri, lake_lag=timedelta(seconds=5))
    assert decode_options(encode_options(options)) == options


@pytest.mark.parametrize(
    "uri",
    [
        "s3://user:hush@bucket/telemetry",
        "s3://hush@bucket/telemetry",
        "abfss://container:hush@account.dfs.core.windows.net/telemetry",
        "abfss://container@account.dfs.core.windows.net/telemetry?sig=hush",
        "https://account.blob.core.windows.net/telemetry?sig=hush",
        "bucket/telemetry?sig=hush",
        "file://hush@machine/telemetry",
    ],
)
def test_secret_in_the_place_of_a_table_is_refused_and_not_repeated(uri):
    with pytest.raises(InvalidRequestError, match=r"^lake: ") as refused:
        StreamOptions(lake=uri)
    assert "hush" not in str(refused.value)


def test_stream_without_a_table_is_read_by_programs_that_know_no_lake():
    names = {"lake", "lake_lag", "lake_history", "keep_local"}
    assert names & encode_options(StreamOptions()).keys() == set()
    table = StreamOptions(lake="/var/lake/telemetry", lake_history=timedelta(days=1))
    assert names & encode_options(table).keys() == {"lake", "lake_history"}
    assert decode_options(encode_options(table)) == table


def test_what_never_becomes_parts_has_no_table():
    with pytest.raises(InvalidRequestError, match=r"^lake: what is never_cold"):
        StreamOptions(lake="/var/lake/telemetry", never_cold=True)


def test_sequence_takes_no_retention_in_time():
    with pytest.raises(InvalidRequestError, match=r"^retention: a sequence"):
        StreamOptions(unit="sequence", retention=timedelta(days=1))


def test_defaults_are_a_stream_that_works():
    assert StreamOptions() == StreamOptions(shards=4, unit="ms", jitter=0, sync="commit")


@pytest.mark.parametrize(
    ("unit", "ahead_max"),
    [("s", 86_400), ("ms", 86_400 * 10**3), ("us", 86_400 * 10**6), ("ns", 86_400 * 10**9)],
)
def test_row_may_be_one_day_ahead_unless_told(unit, ahead_max):
    assert StreamOptions(unit=unit).resolved_ahead_max() == ahead_max


def test_sequence_has_no_bound_ahead_unless_told():
    assert StreamOptions(unit="sequence").resolved_ahead_max() is None
    assert StreamOptions(unit="sequence", ahead_max=5).resolved_ahead_max() == 5


@pytest.mark.parametrize("days", [1, 7, 30, 365, 3650])
def test_retention_never_covers_more_windows_than_allowed(days):
    options = StreamOptions(retention=timedelta(days=days))
    assert options.scheme.span_count(days * 86_400_000) <= WINDOWS_MAX


def test_retention_is_judged_by_the_windows_there_are():
    options = StreamOptions(retention=timedelta(days=10))
    with pytest.raises(InvalidRequestError, match=r"^retention: "):
        options.check_retention(WindowScheme("ms", "minute"))


@pytest.mark.parametrize("name", [one.name for one in fields(StreamOptions)])
def test_option_that_a_stream_was_made_before_has_its_default(name):
    written = encode_options(StreamOptions())
    written.pop(name, None)
    assert decode_options(written) == StreamOptions()

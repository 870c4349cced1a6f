"""`shardlog alter`: what may change is changed and told, what may not is refused."""

import dataclasses
from datetime import timedelta

import pytest

from connectors.cli.commands import alter
from connectors.cli.input import stream_settings
from connectors.settings.stream_settings import StreamSettings
from storage_core import IndexOptions, InvalidRequestError, Stream, StreamOptions, StreamReader
from storage_core.lake import lake_target, publish_stream

NAME = "orders"


@pytest.fixture
def root(tmp_path):
    Stream.create(tmp_path, NAME, StreamOptions(shards=1)).close()
    return tmp_path


def options(root):
    with StreamReader.open(root, NAME) as reader:
        return reader.options


def test_settings_are_changed_and_both_values_told(shardlog, root):
    ran = shardlog("alter", root, NAME, "retention_hours=48", "ahead_max_ms=5000")
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines == ["retention_hours: none -> 48.0", "ahead_max_ms: none -> 5000"]
    assert options(root).retention == timedelta(hours=48)
    assert options(root).ahead_max == 5000


def test_files_of_replaced_parts_need_not_stay(shardlog, root):
    ran = shardlog("alter", root, NAME, "keep_replaced_minutes=0")
    assert ran.lines == ["keep_replaced_minutes: 15.0 -> 0.0"]
    assert options(root).keep_replaced == timedelta(0)


def test_place_of_a_lake_is_changed_and_told(shardlog, root):
    first = ["lake=s3://Bucket/orders", "lake_lag_seconds=5", "lake_history_hours=48"]
    assert shardlog("alter", root, NAME, *first).lines == [
        "lake: none -> s3://Bucket/orders",
        "lake_lag_seconds: 60.0 -> 5.0",
        "lake_history_hours: 168.0 -> 48.0",
    ]
    assert options(root).lake == "s3://Bucket/orders"
    # As far as is known nothing was published there, so nothing stays.
    moved = shardlog("alter", root, NAME, "lake=/var/lake/orders").lines
    assert moved == ["lake: s3://Bucket/orders -> /var/lake/orders"]
    assert shardlog("alter", root, NAME, "lake=none").lines[1:] == []


def publish(root, lake):
    with Stream.open(root, NAME) as stream:
        stream.append(1, 2, b"warm")
        stream.commit()
        stream.seal()
    publish_stream(root, NAME, lake_target(str(lake)))


def test_what_was_published_stays_where_it_is_and_is_told(shardlog, root, tmp_path_factory):
    place = tmp_path_factory.mktemp("lake")
    lake, other = place / "orders", place / "other"
    shardlog("alter", root, NAME, f"lake={lake}")
    publish(root, lake)
    moved = shardlog("alter", root, NAME, f"lake=file://{other}").lines
    stays = f"what was published at {lake} stays as it is; all parts are published to the other one"
    assert moved == [f"lake: {lake} -> file://{other}", stays]
    assert shardlog("alter", root, NAME, f"lake=file://{other}").lines[1:] == []
    publish(root, other)
    ended = shardlog("alter", root, NAME, "lake=none").lines
    assert ended[1:] == [
        f"what was published at file://{other} stays as it is; nothing more is published"
    ]


@pytest.mark.parametrize("name", ["{topic}", "{stream}", "a{", "}a"])
@pytest.mark.parametrize("place", ["s3://bucket/", "/var/lake/", "file:///var/lake/"])
def test_pattern_of_a_workers_file_is_no_place_for_one_stream(shardlog, root, place, name):
    ran = shardlog("alter", root, NAME, f"lake={place}{name}")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert f"{place}{name}" in ran.err
    assert "`{topic}` is for `[stream] lake` of a worker" in ran.err
    with pytest.raises(InvalidRequestError, match=r"is for `.stream. lake` of a worker"):
        Stream.create(root, "returns", StreamOptions(lake=place + name))
    assert options(root).lake is None


def test_table_lies_beside_the_root_and_not_in_it(shardlog, root):
    for place in (root / "lake", root / NAME / "lake", root):
        ran = shardlog("alter", root, NAME, f"lake={place}")
        assert (ran.code, ran.out) == (2, "")
        assert "lies in the root; name a directory beside it" in ran.err
        with pytest.raises(InvalidRequestError, match="lies in the root"):
            Stream.create(root, "returns", StreamOptions(lake=f"file://{place}"))
    assert options(root).lake is None


def test_password_in_the_place_of_a_lake_is_not_repeated(shardlog, root):
    ran = shardlog("alter", root, NAME, "lake=s3://user:secret@bucket/orders")
    assert (ran.code, ran.out) == (2, "")
    assert "has credentials in it" in ran.err
    assert "secret" not in ran.err


def test_options_of_the_index_are_changed_one_by_one(shardlog, root):
    changes = ["index.spacing_min=8", "index.is_on=false", "index.tick_ms=250"]
    ran = shardlog("alter", root, NAME, *changes)
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines == [
        "index.spacing_min: 16 -> 8",
        "index.is_on: true -> false",
        "index.tick_ms: 100 -> 250",
    ]
    changed = IndexOptions(is_on=False, spacing_min=8, tick=timedelta(milliseconds=250))
    assert options(root).index == changed
    shardlog("alter", root, NAME, "index.queue_max=64", "records_max=7")
    assert options(root).index == dataclasses.replace(changed, queue_max=64)
    assert options(root).records_max == 7


def test_help_names_all_that_may_change(shardlog, root):
    help_text = " ".join(shardlog("alter", "--help").out.split())
    refused = shardlog("alter", root, NAME, "retention=4").err
    assert refused.strip().partition("there are ")[2] in help_text


def test_bound_is_taken_away_by_none(shardlog, root):
    shardlog("alter", root, NAME, "records_max=10")
    assert shardlog("alter", root, NAME, "records_max=none").lines == ["records_max: 10 -> none"]
    assert options(root).records_max is None


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("jitter_ms=5", "fixed when a stream is created"),
        ("retention_hours=-5", "retention_hours=-5: takes hours above 0"),
        ("payload_bytes_max=0", "payload_bytes_max=0: "),
        ("key_mode=none", "shardlog drop"),
        ("null_key=keep", "is a setting of the worker"),
        ("retentoin=5", "it has retention_hours"),
        ("retention_hours", "NAME=VALUE"),
        ("retention_hours=long", "not a number"),
        ("payload_bytes_max=none", "it needs a bound; write payload_bytes_max=1000"),
        ("index.spacing_min=1", "index.spacing_min: "),
        ("index.is_on=no", "index.is_on=no: takes true or false"),
        ("index.tick_ms=fast", "not a number"),
        ("lake=bucket", "lake=bucket: 'bucket' is no place for a lake"),
        ("lake_lag_seconds=0", "lake_lag_seconds=0: takes seconds above 0"),
        ("lake_history_hours=0", "lake_history_hours=0: takes hours, 1 or more"),
        ("keep_local_hours=-1", "keep_local_hours=-1: takes hours, 0 or more, or none"),
        ("keep_hot_hours=0", "keep_hot_hours=0: takes hours above 0, or none"),
        ("keep_replaced_minutes=-1", "keep_replaced_minutes=-1: takes minutes, 0 or more"),
        ("seal_after_minutes=0", "seal_after_minutes=0: takes minutes above 0"),
        ("index.tick_ms=0", "index.tick_ms=0: takes milliseconds above 0"),
        ("index.tick_ms=60001", "takes milliseconds above 0, up to a minute"),
        ("lake_history_hours=none", "it needs a bound"),
    ],
)
def test_what_cannot_be_changed_so_is_refused_and_nothing_changes(
    shardlog, root, setting, complaint
):
    before = options(root)
    ran = shardlog("alter", root, NAME, "bytes_max=9", setting)
    assert (ran.code, ran.out) == (2, "")
    assert complaint in ran.err
    assert "timedelta" not in ran.err
    assert ran.err.count("\n") == 1
    assert options(root) == before


def test_milliseconds_are_refused_where_primaries_are_none(shardlog, tmp_path):
    Stream.create(tmp_path, NAME, StreamOptions(shards=1, unit="sequence")).close()
    assert shardlog("alter", tmp_path, NAME, "ahead_max_ms=5").code == 2


def test_every_setting_is_an_option_of_a_stream():
    names = {one.name for one in dataclasses.fields(StreamOptions)}
    assert {setting.option for setting in stream_settings.SETTINGS.values()} <= names
    of_index = {one.name for one in dataclasses.fields(IndexOptions)}
    assert {setting.option for setting in stream_settings.INDEX.values()} == of_index


def test_each_setting_of_the_workers_file_can_be_altered_is_fixed_or_is_the_workers_own():
    names = {*stream_settings.SETTINGS, *alter._FIXED, *alter._OF_THE_WORKER}
    assert set(StreamSettings.model_fields) <= names

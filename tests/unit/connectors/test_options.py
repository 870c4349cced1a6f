"""Settings: file, environment, command line, and one line for whatever is wrong with them."""

from datetime import timedelta

import pytest

from connectors.options import load_options
from storage_core import InvalidRequestError

WHOLE = """
root = "/data"
topics = ["orders"]
[kafka]
"bootstrap.servers" = "broker:9092"
"""


@pytest.fixture
def load(tmp_path):
    def from_text(text=WHOLE, overrides=(), environment=None):
        path = tmp_path / "shardlog.toml"
        path.write_text(text)
        return load_options(path, overrides, environment or {})

    return from_text


def refusal(load, **given):
    with pytest.raises(InvalidRequestError) as caught:
        load(**given)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_file_is_read_and_the_rest_has_defaults(load):
    options = load()
    assert options.subscription == ("orders",)
    assert options.kafka_settings == {"group.id": "shardlog", "bootstrap.servers": "broker:9092"}


def test_environment_stands_over_the_file(load):
    environment = {"SHARDLOG_LINGER_MS": "7", "SHARDLOG_STREAM__JITTER_MS": "9"}
    options = load(environment=environment)
    assert (options.linger_ms, options.stream.jitter_ms) == (7, 9)


def test_command_line_stands_over_the_environment(load):
    options = load(overrides=["linger_ms=8"], environment={"SHARDLOG_LINGER_MS": "7"})
    assert options.linger_ms == 8


def test_names_of_librdkafka_keep_their_dots(load):
    assert load(overrides=["kafka.session.timeout.ms=6000"]).kafka["session.timeout.ms"] == 6000


def test_bootstrap_may_come_from_the_environment(load):
    text = 'root = "/data"\ntopics = ["orders"]'
    assert load(text, environment={"KAFKA_BOOTSTRAP": "x:1"}).kafka["bootstrap.servers"] == "x:1"


def test_variables_of_other_purposes_are_left_alone(load):
    assert load(environment={"SHARDLOG_CACHE": "/cache"}) == load()


def test_unknown_key_is_named(load):
    assert "lingerms: unknown key" in refusal(load, text="lingerms = 1\n" + WHOLE)


def test_unknown_key_of_a_section_is_named(load):
    assert "stream.jitter: unknown key" in refusal(load, text=WHOLE + "[stream]\njitter = 1")


def test_several_complaints_stand_in_one_line(load):
    said = refusal(load, overrides=["linger_ms=-1", "round_records_max=0"])
    assert "linger_ms" in said
    assert "round_records_max" in said


def test_text_that_is_no_toml_is_refused_with_the_file(load):
    assert "shardlog.toml" in refusal(load, text="root = ")


def test_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(InvalidRequestError, match="no such configuration file"):
        load_options(tmp_path / "none.toml", (), {})


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        (['topics=["a"]', 'topic_pattern="^b"'], "name `topics`, or give a `topic_pattern`"),
        (["topics=[]"], "name `topics`"),
        (["topics=[]", 'topic_pattern="orders"'], "must begin with ^"),
        (["topics=[]", 'topic_pattern="^("'], "no regular expression"),
        (["mode=static"], "mode static takes `partitions`"),
        (['partitions={"orders": [0]}'], "is for mode static"),
        (["start=yesterday"], "neither earliest, latest nor a time"),
        (["start=2026-01-31T00:00"], "has no zone"),
        (["stream.primary=key"], "stream.primary"),
        (["linger_ms"], "not of the form key=value"),
        (["kafka={}"], "bootstrap.servers"),
        (["root.path=/x"], "root: is not a section"),
    ],
)
def test_settings_that_do_not_fit_are_refused(load, overrides, complaint):
    assert complaint in refusal(load, overrides=overrides)


def test_static_mode_takes_the_partitions_it_is_given(load):
    options = load(overrides=["mode=static", "topics=[]", 'partitions={"orders": [0, 2]}'])
    assert options.partitions == {"orders": (0, 2)}


@pytest.mark.parametrize("start", ["2026-01-31T00:00Z", "2026-01-31T01:00+01:00", "1769817600000"])
def test_start_may_be_a_time(load, start):
    assert load(overrides=[f"start={start}"]).start_ms() == 1_769_817_600_000


def test_start_at_either_end_is_no_time(load):
    assert load(overrides=["start=latest"]).start_ms() is None


def test_stream_of_timestamps_counts_milliseconds(load):
    options = load(overrides=["stream.retention_hours=36"]).stream.stream_options()
    assert (options.unit, options.retention) == ("ms", timedelta(hours=36))


def test_stream_of_offsets_is_a_sequence(load):
    assert load(overrides=["stream.primary=offset"]).stream.stream_options().unit == "sequence"

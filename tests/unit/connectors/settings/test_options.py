"""Settings: file, environment, command line, and one line for whatever is wrong with them."""

import re
from datetime import timedelta
from pathlib import Path

import pytest

from connectors.settings.loading import load_options
from storage_core import InvalidRequestError
from tests.unit.connectors.settings.conftest import WHOLE

REPOSITORY = Path(__file__).parents[4]


def refusal(load, **arguments):
    with pytest.raises(InvalidRequestError) as caught:
        load(**arguments)
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


def test_page_of_the_server_is_there_unless_its_section_says_no(load) -> None:
    assert load().page.enabled
    assert not load(WHOLE + "\n[page]\nenabled = false\n").page.enabled
    assert not load(environment={"SHARDLOG_PAGE__ENABLED": "false"}).page.enabled


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("SHARDLOG_KAFKA__GROUP_ID", "group.id"),
        ("SHARDLOG_KAFKA__SSL_CA_LOCATION", "ssl.ca.location"),
        ("SHARDLOG_KAFKA__SSL__CA__LOCATION", "ssl.ca.location"),
    ],
)
def test_variables_reach_names_with_dots(load, variable, name):
    assert load(environment={variable: "x"}).kafka[name] == "x"


def test_section_as_json_adds_to_what_stands_below_it(load):
    sections = {"SHARDLOG_KAFKA": '{"group.id": "other"}', "SHARDLOG_STREAM": '{"jitter_ms": 4}'}
    options = load(environment={**sections, "SHARDLOG_KAFKA__CLIENT_ID": "me"})
    below = load()
    assert options.kafka == {**below.kafka, "group.id": "other", "client.id": "me"}
    assert options.stream == below.stream.model_copy(update={"jitter_ms": 4})


@pytest.mark.parametrize(
    ("overrides", "left_out"),
    [
        (["topics=[]", "topic_pattern=^.*"], "^__"),
        (["topics=[]", "topic_pattern=^.*", "kafka.topic.blacklist=^mine"], "^__,^mine"),
        (["topics=[]", "topic_pattern=^__consumer.*"], None),
        (["topics=__consumer_offsets"], None),
    ],
)
def test_internal_topics_are_left_out_unless_they_are_named(load, overrides, left_out):
    assert load(overrides=overrides).kafka_settings.get("topic.blacklist") == left_out


def test_brokers_are_needed(load):
    said = refusal(load, text='root = "/data"\ntopics = ["orders"]\n')
    assert '"bootstrap.servers" is missing' in said


def test_section_on_the_command_line_adds_too(load):
    assert "bootstrap.servers" in load(overrides=['kafka={"group.id": "other"}']).kafka


def test_faults_of_all_kinds_or_of_one_can_stop_the_worker(load):
    assert load(overrides=["on_fault=stop"]).on_fault.stops("damage")
    only = load(environment={"SHARDLOG_ON_FAULT__FOREIGN": "stop"}).on_fault
    assert (only.stops("foreign"), only.stops("damage")) == (True, False)
    assert "on_fault" in refusal(load, overrides=["on_fault=ignore"])


def test_one_kind_of_fault_may_stand_out_from_what_a_word_says_of_all(load):
    word = 'on_fault = "stop"\n' + WHOLE
    on_fault = load(word, overrides=["on_fault.foreign=quarantine"]).on_fault
    assert (on_fault.stops("foreign"), on_fault.stops("damage")) == (False, True)
    on_fault = load(word, environment={"SHARDLOG_ON_FAULT": '{"foreign": "quarantine"}'}).on_fault
    assert (on_fault.stops("foreign"), on_fault.stops("damage")) == (False, True)


def test_command_line_stands_over_the_environment(load):
    options = load(overrides=["linger_ms=8"], environment={"SHARDLOG_LINGER_MS": "7"})
    assert options.linger_ms == 8


@pytest.mark.parametrize(
    ("text", "topics"),
    [("a,b", ("a", "b")), ("a, b", ("a", "b")), ("a", ("a",)), ("7", ("7",)), ('["a"]', ("a",))],
)
def test_topics_are_names_with_commas_between(load, text, topics):
    assert load(overrides=[f"topics={text}"]).topics == topics
    assert load(environment={"SHARDLOG_TOPICS": text}).topics == topics


def test_topics_of_the_file_are_a_list(load):
    assert "write a list" in refusal(load, text='topics = "a"')


def test_names_of_librdkafka_keep_their_dots(load):
    assert load(overrides=["kafka.session.timeout.ms=6000"]).kafka["session.timeout.ms"] == 6000


def test_bootstrap_may_come_from_the_environment(load):
    text = 'root = "/data"\ntopics = ["orders"]'
    assert load(text, environment={"KAFKA_BOOTSTRAP": "x:1"}).kafka["bootstrap.servers"] == "x:1"


def test_variables_of_other_purposes_are_left_alone(load):
    assert load(environment={"SHARDLOG_CACHE": "/cache"}) == load()


@pytest.mark.parametrize(
    ("variable", "nearest"),
    [
        ("SHARDLOG_LINGERMS", "SHARDLOG_LINGER_MS"),
        ("SHARDLOG_STREAM_JITTER_MS", "SHARDLOG_STREAM__JITTER_MS"),
        ("SHARDLOG_GROUP_ID", "SHARDLOG_KAFKA__GROUP_ID"),
    ],
)
def test_variable_that_is_no_setting_is_refused_with_the_nearest_that_is(load, variable, nearest):
    said = refusal(load, environment={variable: "5"})
    assert said.startswith(f"{variable}: no such setting; did you mean {nearest}?")


def test_variable_that_is_like_no_setting_is_refused_too(load):
    assert refusal(load, environment={"SHARDLOG_ZZZ": "5"}) == "SHARDLOG_ZZZ: no such setting"


@pytest.mark.parametrize("name", ["PORT", "PORT_80_TCP_ADDR", "KAFKA_SERVICE_HOST", "SERVICE_PORT"])
def test_variables_that_kubernetes_sets_for_a_service_are_left_alone(load, name):
    assert load(environment={f"SHARDLOG_{name}": "tcp://10.0.0.1:80"}) == load()


def test_no_variable_that_the_repository_reads_breaks_a_worker(load):
    places = ("tests/**/*.py", "bench/**/*.py", "connectors/devtools/*.py")
    sources = [path for place in places for path in REPOSITORY.glob(place)]
    texts = [path.read_text() for path in sources if "unit" not in path.parts]
    texts += [(REPOSITORY / name).read_text() for name in ("Makefile", ".ci/run")]
    others = {name for text in texts for name in re.findall(r"SHARDLOG_[A-Z_]+[A-Z]", text)}
    assert len(others) > 10
    assert load(environment=dict.fromkeys(others, "1")) == load()


def test_unknown_key_is_named(load):
    assert "lingerms: unknown key" in refusal(load, text="lingerms = 1\n" + WHOLE)


def test_unknown_key_of_a_section_is_named(load):
    assert "stream.jitter: unknown key" in refusal(load, text=WHOLE + "[stream]\njitter = 1")


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("group", 'kafka."group.id"'),
        ("lingerms", "linger_ms"),
        ("jitter_ms", "stream.jitter_ms"),
        ("brokers", 'kafka."bootstrap.servers"'),
        ("security_protocol", 'kafka."security.protocol"'),
        ("max.poll.records", 'kafka."max.poll.records"'),
        ("sasl_mechanism", 'kafka."sasl.mechanism"'),
        ("subscribePattern", "topic_pattern"),
        ("auto.offset.reset", "start"),
        ("registry", "schema.registry.url"),
        ("metrics_port", "metrics.listen"),
    ],
)
def test_unknown_key_is_answered_with_the_one_it_is_likely_meant_for(load, key, meant):
    with pytest.raises(InvalidRequestError) as refused:
        load(overrides=[f"{key}=1"])
    assert refused.value.message.endswith(f": unknown key; did you mean {meant}?")


def test_unknown_key_of_a_section_that_is_like_none_is_answered_by_those_there_are(load):
    said = refusal(load, overrides=["dead_letters.forward=true"])
    assert "dead_letters.forward: unknown key; there are dead_letters." in said
    assert "dead_letters.topic" in said


def test_unknown_key_that_is_like_none_is_answered_plainly(load):
    assert "did you mean" not in refusal(load, text="xyzzy = 1\n" + WHOLE)


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
        (["topics=[]", 'topic_pattern="^("'], "not a regular expression"),
        (["mode=static"], "mode static takes `partitions`"),
        (['partitions={"orders": [0]}'], "is for mode static"),
        (["start=yesterday"], "neither earliest, latest nor a time"),
        (["start=9999999"], "take earliest, latest, a time as"),
        (["start=-5"], "start: -5 lies outside 1970-01-01T00:00Z to 9999-12-31"),
        (["start=1969-12-31T23:59:59Z"], "start: '1969-12-31T23:59:59Z' lies outside"),
        (["start=1.5"], "start: 1.5 is neither earliest, latest nor a time"),
        (["start=true"], "start: True is neither earliest, latest nor a time"),
        (["stream.retention_hours=1e30"], "stream"),
        (["stream.jitter_ms=99999999999999999999999"], "jitter"),
        (["root="], "root: is empty; name a directory"),
        (["topics=a,,b"], "topics: '' is not a topic name"),
        (['topics=["tele/metry"]'], "topics: 'tele/metry' is not a topic name"),
        ([f'topics=["{"x" * 250}"]'], "is not a topic name: use 1 to 249"),
        (['topics=["^tele.*"]'], "topics: '^tele.*' is a pattern; use topic_pattern"),
        (["mode=static", "topics=[]", 'partitions={"orders": []}'], "partitions.orders: is empty"),
        (["mode=static", "topics=[]", 'partitions={"a b": [0]}'], "'a b' is not a topic name"),
        (["mode=static", "topics=[]", 'partitions={"a": 0}'], "write a list, such as [0, 1]"),
        (["mode=static", "topics=[]", 'partitions={"a": [99999999999]}'], "partitions.a.0"),
        (["mode=static", "topics=[]", 'partitions={"a": [1000000]}'], "less than 1000000"),
        (["kafka.group.id="], 'kafka: "group.id" is empty'),
        (["kafka.bootstrap.servers= "], 'kafka: "bootstrap.servers" is empty'),
        (["kafka.partition.assignment.strategy="], '"partition.assignment.strategy" is empty'),
        (['kafka={"client.id": [1]}'], 'kafka: "client.id" takes text, a number or true or false'),
        (["stream.primary=key"], "stream.primary"),
        (["linger_ms"], "not of the form key=value"),
        (["root.path=/x"], "root: is not a section"),
    ],
)
def test_settings_that_do_not_fit_are_refused(load, overrides, complaint):
    assert complaint in refusal(load, overrides=overrides)


def test_name_of_librdkafka_without_quotes_is_told_to_be_quoted(load):
    said = refusal(load, text=WHOLE.replace('"bootstrap.servers"', "bootstrap.servers"))
    assert said.startswith('kafka: quote the name: "bootstrap.servers" = ...')


def test_settings_of_librdkafka_that_may_be_empty_are_taken(load):
    assert load(overrides=["kafka.client.id="]).kafka["client.id"] == ""


def test_static_mode_takes_the_partitions_it_is_given(load):
    options = load(overrides=["mode=static", "topics=[]", 'partitions={"orders": [0, 2]}'])
    assert options.partitions == {"orders": (0, 2)}


@pytest.mark.parametrize(
    "start", ["2026-01-31T00:00Z", "2026-01-31T00:00", "2026-01-31T01:00+01:00", "1769817600000"]
)
def test_start_may_be_a_time(load, start):
    assert load(overrides=[f"start={start}"]).start_ms() == 1_769_817_600_000


def test_start_may_be_any_time_from_1970_to_9999(load):
    assert load(overrides=["start=0"]).start_ms() == 0
    assert load(overrides=["start=9999-12-31T23:59:59.999Z"]).start_ms() == 253_402_300_799_999


def test_start_at_either_end_is_no_time(load):
    assert load(overrides=["start=latest"]).start_ms() is None


def test_stream_of_timestamps_counts_milliseconds(load):
    options = load(overrides=["stream.retention_hours=36"]).stream.stream_options("orders")
    assert (options.unit, options.retention) == ("ms", timedelta(hours=36))


def test_stream_of_offsets_is_a_sequence(load):
    assert (
        load(overrides=["stream.primary=offset"]).stream.stream_options("orders").unit == "sequence"
    )


def test_section_may_be_written_as_in_the_file(load):
    assert load(overrides=["stream={jitter_ms = 5}"]).stream.jitter_ms == 5


@pytest.mark.parametrize("text", ["5", "abc", "[1]", ""])
@pytest.mark.parametrize("section", ["kafka", "stream", "partitions"])
def test_section_that_is_no_table_is_refused_by_option_and_by_variable(load, section, text):
    assert f"--set {section}: takes a table" in refusal(load, overrides=[f"{section}={text}"])
    variable = f"SHARDLOG_{section.upper()}"
    assert f"{variable}: takes a table" in refusal(load, environment={variable: text})


def test_section_in_a_variable_that_is_no_json_is_refused_by_its_name(load):
    message = refusal(load, environment={"SHARDLOG_KAFKA": '{"group.id": 1'})
    assert "SHARDLOG_KAFKA: is not JSON" in message


def test_setting_of_librdkafka_may_begin_with_a_brace(load):
    assert load(overrides=["kafka.sasl.username={me"]).kafka["sasl.username"] == "{me"


@pytest.mark.parametrize(
    "password", ["1.10", "1e5", "007", "1234", "true", "null", "NaN", "[1]", '{"canary": 1}', "{a"]
)
def test_password_is_taken_to_the_letter(load, password):
    value = load(overrides=[f"kafka.sasl.password={password}"]).kafka["sasl.password"]
    assert str(value) == password
    variables = {"SHARDLOG_KAFKA__SASL_PASSWORD": password}
    assert str(load(environment=variables).kafka["sasl.password"]) == password


def test_quotes_around_a_setting_of_librdkafka_are_not_its_own(load):
    assert load(overrides=['kafka.sasl.password="1 2"']).kafka["sasl.password"] == "1 2"


@pytest.mark.parametrize(
    "override",
    [
        'log.levels={progress = "error"}',
        'log.levels={"progress": "error"}',
        "log.levels.progress=error",
    ],
)
def test_level_of_a_logger_may_come_from_the_command_line(load, override):
    assert load(overrides=["log.levels.all=warning", override]).log.levels == {
        "all": "warning",
        "progress": "error",
    }


def test_level_of_a_logger_may_come_from_a_variable(load):
    variables = {"SHARDLOG_LOG__LEVELS__BROKER_WATCH": "error"}
    assert load(environment=variables).log.levels == {"broker_watch": "error"}


@pytest.mark.parametrize("value", ["canary\udcff", "canary\0more"])
def test_setting_of_librdkafka_that_is_no_text_is_refused_without_showing_it(load, value):
    said = refusal(load, overrides=[f"kafka.group.id={value}"])
    assert "'group.id' is not UTF-8, or holds a NUL" in said
    assert "canary" not in said

"""`shardlog produce`: what it refuses before it asks Kafka for anything."""

import pytest

from connectors.cli.commands.produce import notice_of_missing, notice_of_partitions


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--records", "-1"], "records"),
        (["--devices", "0"], "devices"),
        (["--rate", "0"], "rate"),
        (["--skew", "-1"], "skew"),
        (["--late-share", "2"], "late-share"),
        (["--start-ms", "-5"], "start-ms"),
        (["--kafka", "linger.ms"], "KEY=VALUE"),
        (["--kafka", "nonsense=1"], "nonsense"),
        (["--lines", "nowhere/at-all.jsonl"], "nowhere/at-all.jsonl"),
        (["--lines", "-", "--rate", "0"], "rate"),
        (["--records", "many"], "--records"),
        (["--avro"], "SCHEMA_REGISTRY_URL"),
        (["--avro", "--registry", "nonsense"], "http://host:port"),
        (["--avro", "--registry", "http://127.0.0.1:1", "--bad-share", "1.5"], "--bad-share"),
        (["--bad-share", "0.1"], "--avro"),
        (["--subject", "a"], "--avro"),
        (["--config", "nowhere.toml"], "--avro"),
        (["--avro", "--config", "nowhere/at-all.toml"], "nowhere/at-all.toml"),
        (["--partitions", "0"], "--partitions"),
        (["--partitions", "-3"], "--partitions"),
        (["--partitions", "99999999999999"], "--partitions"),
    ],
)
def test_what_cannot_be_meant_is_one_line_and_exit_code_2(shardlog, options, complaint):
    ran = shardlog("produce", "topic", *options)
    assert (ran.code, ran.out) == (2, "")
    assert complaint in ran.err
    assert ran.err.count("\n") == 1


def test_registry_is_what_the_table_of_a_file_says(shardlog, tmp_path):
    file = tmp_path / "shardlog.toml"
    file.write_text(
        '[schema.registry]\nurl = "http://127.0.0.1:1"\n"ssl.ca.location" = "gone.pem"\n'
    )
    ran = shardlog("produce", "topic", "--avro", "--config", str(file))
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "gone.pem" in ran.err


def test_without_a_topic_it_is_wrong_usage(shardlog):
    assert shardlog("produce").code == 2


def test_help_has_an_example_and_names_the_variable(shardlog):
    ran = shardlog("produce", "--help")
    assert "Example: shardlog produce" in ran.out
    assert "KAFKA_BOOTSTRAP" in ran.out


def test_topic_that_is_not_there_is_told_with_how_long_it_is_waited_for():
    said = notice_of_missing("orders", {"parcels": 1}, {}, now_ms=1_700_049_600_000)
    assert said == "topic 'orders' does not exist; waiting for it until 12:00:30 UTC (30 s)"


def test_topic_that_is_there_is_not_waited_for():
    assert notice_of_missing("orders", {"orders": 1}, {}, now_ms=0) is None


def test_wait_for_a_topic_is_what_the_settings_say():
    settings = {"topic.metadata.propagation.max.ms": "5000"}
    said = notice_of_missing("orders", {}, settings, now_ms=0)
    assert said is not None
    assert said.endswith("until 00:00:05 UTC (5 s)")


def test_number_of_partitions_that_a_topic_does_not_have_is_told():
    assert "4 partitions" in (notice_of_partitions("orders", 4, 8) or "")
    assert notice_of_partitions("orders", 4, 4) is None

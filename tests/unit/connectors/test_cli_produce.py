"""`shardlog produce`: what it refuses before it asks Kafka for anything."""

import pytest

from tests.unit.connectors.command import runner


@pytest.fixture
def shardlog(capsys):
    return runner(capsys)


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
    ],
)
def test_what_cannot_be_meant_is_one_line_and_exit_code_2(shardlog, options, complaint):
    ran = shardlog("produce", "topic", *options)
    assert (ran.code, ran.out) == (2, "")
    assert complaint in ran.err
    assert ran.err.count("\n") == 1


def test_without_a_topic_it_is_wrong_usage(shardlog):
    assert shardlog("produce").code == 2


def test_help_has_an_example_and_names_the_variable(shardlog):
    ran = shardlog("produce", "--help")
    assert "Example: shardlog produce" in ran.out
    assert "KAFKA_BOOTSTRAP" in ran.out

"""What `[dead_letters]` takes, and what it refuses with one line that says what to write."""

import pytest

from connectors.settings.loading import load_options
from storage_core import InvalidRequestError

FORWARD = "dead_letters.policy=forward"


def load(*settings, topics='topics=["orders"]'):
    overrides = ["root=/tmp/r", "kafka.bootstrap.servers=b:1", topics, *settings]
    return load_options(None, overrides, {}).dead_letters


def test_dead_letters_are_kept_unless_it_is_said_otherwise():
    assert (load().policy, load().topic, load().records_max) == ("keep", None, 1_000_000)


@pytest.mark.parametrize(
    ("topic", "goes_to"),
    [("bad", "bad"), ("{topic}.dlq", "orders.dlq"), ("dlq.{topic}", "dlq.orders")],
)
def test_topic_may_stand_for_the_one_a_letter_comes_from(topic, goes_to):
    dead_letters = load(FORWARD, f"dead_letters.topic={topic}")
    assert dead_letters.topic_for("orders") == goes_to


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        ([FORWARD], "name where to forward to"),
        (["dead_letters.policy=drop"], "dead_letters.policy"),
        (["dead_letters.records_max=-1"], "dead_letters.records_max"),
        (["dead_letters.topics=a"], "dead_letters.topics"),
        ([FORWARD, "dead_letters.topic={stream}"], "is not a topic name"),
        ([FORWARD, "dead_letters.topic="], "is not a topic name"),
        ([FORWARD, "dead_letters.topic=orders"], "is consumed by this worker"),
        ([FORWARD, "dead_letters.topic={topic}"], "is consumed by this worker"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_key(overrides, complaint):
    with pytest.raises(InvalidRequestError, match=complaint):
        load(*overrides)


@pytest.mark.parametrize("topic", ["orders.dlq", "{topic}", "{topic}{topic}"])
def test_topic_that_the_pattern_would_take_is_refused(topic):
    with pytest.raises(InvalidRequestError, match=r"dead_letters\.topic"):
        load(FORWARD, f"dead_letters.topic={topic}", topics="topic_pattern=^orders")
    assert load(FORWARD, "dead_letters.topic=bad", topics="topic_pattern=^orders").topic == "bad"


@pytest.mark.parametrize(
    ("topic", "left_out"),
    [
        ("{topic}.dlq", "^__,^.*[.]dlq$"),
        ("dlq-{topic}", "^__,^dlq-.*$"),
        ("all-dlq", "^__"),
    ],
)
def test_pattern_leaves_out_the_topics_that_dead_letters_of_each_topic_go_to(topic, left_out):
    overrides = ["root=/tmp/r", "kafka.bootstrap.servers=b:1", "topic_pattern=^orders"]
    options = load_options(None, [*overrides, FORWARD, f"dead_letters.topic={topic}"], {})
    assert options.kafka_settings["topic.blacklist"] == left_out
    assert options.printable()["kafka"]["topic.blacklist"] == left_out


def test_section_may_come_from_the_environment():
    overrides = ["root=/tmp/r", "kafka.bootstrap.servers=b:1", 'topics=["orders"]']
    environment = {"SHARDLOG_DEAD_LETTERS__POLICY": "stop"}
    assert load_options(None, overrides, environment).dead_letters.policy == "stop"

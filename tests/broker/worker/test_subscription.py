"""Goal: a worker takes the topics it is meant to, from where it is meant to, and the group knows.

Method: topics appear while a worker with a pattern runs and while none does; a group is new, or
was moved by others, on partitions where nothing comes.
"""

from typing import Any

import pytest

from connectors.kafka import Consumer
from storage_core import list_streams
from tests.broker.support.lab import Lab, Topic
from tests.waiting import await_that


def group_stands_at(lab: Lab, group: str, topic: Topic) -> dict[int, int]:
    """Return the group's offsets by partition, as tools see them."""
    consumer = Consumer({"bootstrap.servers": lab.bootstrap, "group.id": group})
    try:
        committed = consumer.group_places(topic.partitions())
    finally:
        consumer.close()
    return {part.number: place.offset for part, place in committed.items()}


def await_group(lab: Lab, group: str, topic: Topic) -> None:
    ends = topic.ends()
    await_that(lambda: group_stands_at(lab, group, topic) == ends, f"group {group} at {ends}")


def test_group_of_a_quiet_topic_has_no_lag_though_no_record_comes(lab: Lab) -> None:
    topic = lab.topic(partitions=2)
    lab.produce(topic, 100)
    worker = lab.worker(topic, start="latest")
    await_group(lab, topic.name, topic)
    assert worker.stop() == 0
    lab.worker(topic, kafka__group__id=f"{topic.name}-new")
    await_group(lab, f"{topic.name}-new", topic)


def test_reset_of_the_group_to_earlier_is_told_and_mended(lab: Lab) -> None:
    topic = lab.topic(partitions=1)
    lab.produce(topic, 100)
    worker = lab.worker(topic)
    lab.await_no_lag(topic)
    assert worker.stop() == 0
    lab.move_group(topic, 40)
    again = lab.worker(topic)
    again.await_event("group offset was moved by others, ignored")
    await_group(lab, topic.name, topic)


def pattern(topic: Topic, protocol: str) -> dict[str, Any]:
    """Return the settings of a worker that takes a topic and those named after it."""
    return {
        "topics": [],
        "topic_pattern": f"^(__.*|{topic.name}.*)",
        "start": "latest",
        "kafka__group__protocol": protocol,
    }


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_topic_that_appears_later_begins_at_its_first_record(lab: Lab, protocol: str) -> None:
    first = lab.topic(partitions=1)
    lab.produce(first, 50)
    # Whoever has a group has made Kafka's own topic.
    lab.move_group(first, 0)
    settings = pattern(first, protocol)
    worker = lab.worker(first, **settings)
    worker.await_event("partition opened")
    beside, meanwhile = (Topic(f"{first.name}-{name}", lab.bootstrap) for name in ("b", "c"))
    lab.admin.create_topic(beside.name, 1, {})
    lab.produce(beside, 50)
    lab.expect_ledger(beside)
    assert worker.stop() == 0, worker.said()
    lab.admin.create_topic(meanwhile.name, 1, {})
    lab.produce(meanwhile, 50)
    lab.worker(first, **settings)
    lab.expect_ledger(meanwhile)
    assert lab.stored(first) == {0: []}
    assert list_streams(lab.root) == [first.name, beside.name, meanwhile.name]


def test_topic_that_is_named_may_be_an_internal_one(lab: Lab) -> None:
    other = lab.topic(partitions=1)
    lab.move_group(other, 0)
    internal = Topic("__consumer_offsets", lab.bootstrap)
    settings = {"kafka.group.id": other.name, "stream.key_mode": "none", "start": "latest"}
    worker = lab.worker(internal, **dict[str, Any](settings))
    worker.await_event("partition opened", len(internal.partitions()))
    assert sorted(lab.committed(internal)) == [part.number for part in internal.partitions()]

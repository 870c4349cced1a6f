"""A topic whose keys do not fit: told at once, refused, dropped, and taken again."""

from typing import Any

from connectors.cli.exit_codes import EXIT_USAGE
from storage_core import drop_stream
from tests.broker.lab import Lab, Topic

REFUSED_AFTER: dict[str, Any] = {"dead_letters_only_max": 500}


def produce_text_keys(lab: Lab, topic: Topic, records: int) -> None:
    with lab.producer() as producer:
        for number in range(records):
            producer.send(topic.name, b"user-%d" % number, b"value")
            topic.produced[b"user-%d" % number, b"value"] += 1


def test_topic_of_keys_that_do_not_fit_is_told_and_refused(lab: Lab) -> None:
    topic = lab.topic(partitions=2)
    produce_text_keys(lab, topic, 1000)
    worker = lab.worker(topic, **REFUSED_AFTER)
    assert worker.exit_code() == EXIT_USAGE, worker.said()
    first, *_ = worker.events("dead letters")
    assert "integer key" in first["reason"]
    assert "key_mode" in worker.complaint()


def test_dropped_topic_is_taken_again_by_the_same_group(lab: Lab) -> None:
    topic = lab.topic(partitions=2)
    produce_text_keys(lab, topic, 300)
    worker = lab.worker(topic)
    lab.await_no_lag(topic)
    assert worker.stop() == 0
    drop_stream(lab.root, topic.name)
    lab.worker(topic, stream__key_mode="none")
    lab.expect_ledger(topic)

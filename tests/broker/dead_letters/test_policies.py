"""A topic whose keys do not fit: told at once, refused, dropped, and taken again."""

from typing import Any

from connectors.cli.exit_codes import EXIT_USAGE
from storage_core import StreamReader, drop_stream
from tests.broker.support.lab import Lab, Topic

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


def test_topic_of_text_keys_is_read_by_them(lab: Lab) -> None:
    topic = lab.topic(partitions=2)
    produce_text_keys(lab, topic, 300)
    lab.worker(topic, stream__key_mode="dictionary")
    lab.expect_ledger(topic)
    with StreamReader.open(lab.root, topic.name) as reader:
        rows = reader.read(keys=[b"user-7", b"user-299", b"nobody"])
        assert rows["key"].to_pylist() == [b"user-299", b"user-7"]
        assert rows["secondary"].null_count == 2
        assert len(reader.latest()) == 300


def test_setting_for_a_new_topic_does_no_harm_to_a_stream_that_is_there(lab: Lab) -> None:
    ids, texts = lab.topic(partitions=1), lab.topic(partitions=1)
    lab.produce(ids, 100)
    worker = lab.worker(ids)
    lab.await_no_lag(ids)
    assert worker.stop() == 0
    lab.produce(ids, 100)
    produce_text_keys(lab, texts, 100)
    both = lab.worker(ids, topics=[ids.name, texts.name], stream__key_mode="none")
    lab.expect_ledger(ids)
    lab.expect_ledger(texts)
    (warning,) = both.events("setting ignored")
    assert (warning["topic"], warning["setting"]) == (ids.name, "stream.key_mode")
    assert (warning["wanted"], warning["in_force"]) == ("none", "integer")
    assert both.events("quarantined") == []

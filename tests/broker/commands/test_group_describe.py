"""Goal: an operator sees of each partition where it stands, what state it is in, and who has it.

Method: the command beside real workers and a real broker; offsets and lags are compared with what
another client of Kafka says of the same group.
"""

import json
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

from connectors.cli.exit_codes import EXIT_DAMAGE, EXIT_UNAVAILABLE
from tests.broker.support.lab import Lab, Topic
from tests.broker.worker.test_quarantine import await_noted
from tests.unit.connectors.command import Ran, Shardlog, runner
from tests.waiting import await_that


@pytest.fixture
def shardlog(capsys: pytest.CaptureFixture[str]) -> Shardlog:
    return runner(capsys)


class Operator:
    """Who asks `shardlog group describe` about the streams of a lab."""

    def __init__(self, lab: Lab, shardlog: Shardlog) -> None:
        self._lab = lab
        self._shardlog = shardlog

    def asks(self, topic: Topic, *options: str, bootstrap: str | None = None) -> Ran:
        address = f"--bootstrap={bootstrap or self._lab.bootstrap}"
        group = f"--group={topic.name}"
        return self._shardlog(
            "group", "describe", self._lab.root, topic.name, group, address, *options
        )

    def sees(self, topic: Topic) -> tuple[int, list[dict[str, Any]]]:
        ran = self.asks(topic, "--json")
        return ran.code, json.loads(ran.out)

    def states(self, topic: Topic) -> list[str]:
        return [partition["state"] for partition in self.sees(topic)[1]]


@pytest.fixture
def operator(lab: Lab, shardlog: Shardlog) -> Operator:
    return Operator(lab, shardlog)


def test_offsets_and_lag_are_those_another_client_sees(lab: Lab, operator: Operator) -> None:
    topic = lab.topic(partitions=2)
    lab.produce(topic, 500)
    worker = lab.worker(topic)
    lab.await_no_lag(topic)
    admin = KafkaAdminClient(bootstrap_servers=lab.bootstrap)
    consumer = KafkaConsumer(bootstrap_servers=lab.bootstrap)
    try:
        places = [TopicPartition(topic.name, number) for number in range(2)]
        ends = consumer.end_offsets(places)

        def group_offsets() -> dict[Any, int]:
            offsets = admin.list_group_offsets(topic.name)[topic.name]
            return {place: offset.offset for place, offset in offsets.items()}

        await_that(lambda: group_offsets() == ends, "the group's copy of the offsets")
        code, partitions = operator.sees(topic)
        assert code == 0
        for place, partition in zip(places, partitions, strict=True):
            assert partition["current_offset"] == partition["group_offset"] == ends[place]
            assert partition["log_end_offset"] == partition["last_stable_offset"] == ends[place]
            assert (partition["lag"], partition["state"]) == (0, "ok")
            assert partition["owner"]["pid"] == worker.process.pid
            assert partition["client_id"] == "shardlog-consumer"
        member = json.loads(operator.asks(topic, "--members", "--json").out)[0]
        assert member["partitions"] == [[topic.name, 0], [topic.name, 1]]
    finally:
        consumer.close()
        admin.close()
    assert worker.stop() == 0, worker.said()


def test_each_state_is_told_with_its_exit_code(
    lab: Lab, operator: Operator, shardlog: Shardlog
) -> None:
    topic = lab.topic(partitions=2)
    lab.produce(topic, 300)
    worker = lab.worker(topic)
    lab.await_no_lag(topic)
    shardlog("group", "pause", lab.root, topic.name, "--partition=1", "--reason=a disk is replaced")
    lab.produce(topic, 30, partition=1)
    code, partitions = operator.sees(topic)
    assert (code, [each["state"] for each in partitions]) == (0, ["ok", "paused"])
    assert (partitions[1]["lag"], partitions[1]["reason"]) == (30, "a disk is replaced")
    assert partitions[1]["owner"] is None
    shardlog("group", "resume", lab.root, topic.name)
    lab.await_no_lag(topic)
    assert worker.stop() == 0, worker.said()
    assert operator.states(topic) == ["stopped", "stopped"]
    assert operator.asks(topic).code == EXIT_UNAVAILABLE
    shard = lab.root / topic.name / "shard-0001"
    shard.rename(lab.root.with_name("lost disk"))
    again = lab.worker(topic)
    await_noted(lab, (topic.name, 1, "damage"))
    ran = operator.asks(topic)
    assert (ran.code, "quarantined" in ran.out) == (EXIT_DAMAGE, True), ran
    again.kill()


def test_frozen_worker_is_seen_as_one_that_has_the_shard(lab: Lab, operator: Operator) -> None:
    topic = lab.topic(partitions=1)
    lab.produce(topic, 300)
    worker = lab.worker(topic)
    lab.await_no_lag(topic)
    worker.freeze()
    lab.produce(topic, 40)
    _, (partition,) = operator.sees(topic)
    assert (partition["state"], partition["lag"]) == ("behind", 40)
    worker.wake()
    lab.expect_ledger(topic)
    worker.kill()
    assert operator.states(topic) == ["stopped"]


def test_without_a_broker_it_says_what_the_store_knows(lab: Lab, operator: Operator) -> None:
    topic = lab.topic(partitions=2)
    lab.produce(topic, 100)
    worker = lab.worker(topic)
    lab.await_no_lag(topic)
    ran = operator.asks(topic, "--broker-wait=0.2", bootstrap="127.0.0.1:1")
    assert (ran.code, ran.err.count("\n")) == (0, 1)
    assert "log ends are not known" in ran.err
    header, *rows = ran.lines
    assert header.split() == ["stream", "partition", "state", "current", "process", "host"]
    assert [row.split()[2] for row in rows] == ["ok", "ok"]
    assert worker.stop() == 0, worker.said()

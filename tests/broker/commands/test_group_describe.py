"""Goal: an operator sees of each partition where it stands, what state it is in, and who has it.

Method: the command beside real workers and a real broker; offsets and lags are compared with what
another client of Kafka says of the same group.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

from connectors.cli.exit_codes import (
    EXIT_DAMAGE,
    EXIT_INTERRUPTED,
    EXIT_UNAVAILABLE,
    EXIT_USAGE,
)
from connectors.group.partition_state import STALLED_AFTER_MS
from connectors.group.rewinds import Rewinds
from connectors.kafka import Partition
from storage_core import SystemClock
from tests.broker.support.lab import Lab, Topic, WorkerProcess
from tests.broker.worker.test_quarantine import await_noted
from tests.unit.connectors.command import Ran, Shardlog, runner
from tests.waiting import WAIT_MAX_S, await_that


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
    pausing = ("--partition=1", "--reason=a disk is replaced", f"--wait={WAIT_MAX_S}")
    assert shardlog("group", "pause", lab.root, topic.name, *pausing).code == 0
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


def test_partition_without_a_shard_and_a_group_that_nobody_has_are_told(
    lab: Lab, operator: Operator
) -> None:
    topic = lab.topic(partitions=2)
    lab.produce(topic, 100)
    worker = lab.worker(topic)
    lab.await_no_lag(topic)
    assert worker.stop() == 0, worker.said()
    lab.cluster.add_partitions(topic.name, 4)
    await_that(lambda: len(topic.partitions()) == 4, "partitions that a producer can see")
    # One that has sent to the topic before learns of a partition minutes later.
    lab.produce(topic, 40, partition=3, settings={"client.id": "late"})
    code, partitions = operator.sees(topic)
    assert (code, [each["has_shard"] for each in partitions]) == (
        EXIT_UNAVAILABLE,
        [True, True, False, False],
    )
    said = [(each["state"], each["reason"], each["lag"]) for each in partitions[2:]]
    assert said == [("stopped", "it has no shard yet", lag) for lag in (0, 40)]
    assert [each["log_end_offset"] for each in partitions[2:]] == [0, 40]
    assert operator.asks(topic, "--partition=2").code == 0
    ran = operator.asks(topic, "--partition=3", "--json")
    assert (ran.code, json.loads(ran.out), ran.err) == (EXIT_UNAVAILABLE, partitions[3:], "")
    assert operator.asks(topic, "--partition=4").code == EXIT_USAGE
    nobody = operator.asks(topic, "--group=nobody")
    assert "no offsets and no members of group 'nobody'" in nobody.err


def test_frozen_worker_is_seen_as_one_that_has_the_shard(lab: Lab, operator: Operator) -> None:
    topic = lab.topic(partitions=1)
    lab.produce(topic, 300)
    worker = lab.worker(topic)
    lab.await_no_lag(topic)
    worker.freeze()
    lab.produce(topic, 40)
    # As if it had stored the others at this moment: one that is idle for longer is stalled.
    (lab.root / topic.name / "shard-0000" / "marker").touch()
    _, (partition,) = operator.sees(topic)
    assert (partition["state"], partition["lag"]) == ("behind", 40)
    worker.wake()
    lab.expect_ledger(topic)
    worker.kill()
    assert operator.states(topic) == ["stopped"]


def idle_behind_a_frozen_worker(lab: Lab) -> tuple[Topic, WorkerProcess]:
    """Return a topic whose newest record waits, and whose last commit was long before it came."""
    topic = lab.topic(partitions=1)
    lab.produce(topic, 300)
    # Nor does its group miss it meanwhile, however long that takes.
    worker = lab.worker(topic, kafka__session__timeout__ms=int(1000 * WAIT_MAX_S))
    lab.await_no_lag(topic)
    worker.freeze()
    shard = lab.root / topic.name / "shard-0000"
    owner = json.loads((shard / "owner.json").read_text())
    owner["started_at_ms"] -= 2 * STALLED_AFTER_MS
    (shard / "owner.json").write_text(json.dumps(owner))
    idle_since_ms = owner["started_at_ms"] + STALLED_AFTER_MS // 2
    os.utime(shard / "marker", ns=(idle_since_ms * 10**6,) * 2)
    lab.produce(topic, 1)
    return topic, worker


def test_worker_that_stores_nothing_though_records_wait_is_stalled(
    lab: Lab, operator: Operator
) -> None:
    topic, worker = idle_behind_a_frozen_worker(lab)
    code, (partition,) = operator.sees(topic)
    assert (code, partition["state"], partition["lag"]) == (EXIT_UNAVAILABLE, "stalled", 1)
    assert partition["reason"].startswith(f"process {worker.process.pid} on")
    worker.wake()
    lab.expect_ledger(topic)
    assert worker.stop() == 0, worker.said()


def test_record_that_has_just_come_to_an_idle_partition_is_no_stall(
    lab: Lab, operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, worker = idle_behind_a_frozen_worker(lab)
    sleep, is_woken = SystemClock.sleep, Event()

    def wake_and_sleep(clock: SystemClock, seconds: float) -> None:
        # The record is not stored at the first look, and is at the next one.
        if not is_woken.is_set():
            is_woken.set()
            worker.wake()
            lab.await_no_lag(topic)
        sleep(clock, seconds)

    with monkeypatch.context() as patched:
        patched.setattr(SystemClock, "sleep", wake_and_sleep)
        code, (partition,) = operator.sees(topic)
    assert (code, partition["state"], partition["lag"]) == (0, "ok", 0)
    assert worker.stop() == 0, worker.said()


def test_restored_shard_is_noted_as_rewinding_until_it_has_what_it_lacked(
    lab: Lab, operator: Operator
) -> None:
    topic = lab.topic(partitions=1)
    lab.produce(topic, 300)
    worker = lab.worker(topic)
    lab.await_no_lag(topic)
    assert worker.stop() == 0, worker.said()
    backup = shutil.copytree(lab.root / topic.name, lab.root.with_name("backup"))
    lab.produce(topic, 200)
    worker = lab.worker(topic)
    lab.await_no_lag(topic)
    assert worker.stop() == 0, worker.said()
    shutil.rmtree(lab.root / topic.name)
    backup.rename(lab.root / topic.name)
    worker = lab.worker(topic)
    lab.await_no_lag(topic)
    rewind = Rewinds(lab.root).read()[Partition(topic.name, 0)]
    assert rewind.until == topic.ends()[0]
    await_that(lambda: operator.states(topic) == ["ok"], "the group's copy follows")
    assert worker.stop() == 0, worker.said()
    worker = lab.worker(topic)
    worker.await_event("partition opened")
    assert not Rewinds(lab.root).read()
    lab.expect_ledger(topic)
    assert worker.stop() == 0, worker.said()


def test_watched_stream_that_is_not_there_is_one_line(lab: Lab, shardlog: Shardlog) -> None:
    topic = lab.topic(partitions=1)
    lab.produce(topic, 10)
    worker = lab.worker(topic)
    lab.await_no_lag(topic)
    ran = shardlog("group", "describe", lab.root, "elsewhere", "--watch=1")
    assert (ran.code, ran.out, ran.err.count("\n")) == (EXIT_USAGE, "", 1)
    assert worker.stop() == 0, worker.said()


def test_looks_on_a_pipe_begin_with_their_time_and_end_with_an_interruption(
    lab: Lab, tmp_path: Path
) -> None:
    topic = lab.topic(partitions=1)
    lab.produce(topic, 10)
    worker = lab.worker(topic)
    lab.await_no_lag(topic)
    command = [sys.executable, "-m", "connectors.cli.main", "group", "describe"]
    errors = tmp_path / "errors"
    with (
        errors.open("w") as err,
        subprocess.Popen(
            [*command, lab.root, topic.name, "--watch=0.1"],
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
        ) as watching,
    ):
        assert watching.stdout is not None
        lines = [watching.stdout.readline() for _ in range(6)]
        watching.send_signal(signal.SIGINT)
        watching.stdout.read()
    assert [" UTC, " in line for line in lines] == [True, False, False] * 2
    assert not any("\x1b" in line for line in lines)
    assert (watching.returncode, errors.read_text()) == (EXIT_INTERRUPTED, "")
    assert worker.stop() == 0, worker.said()


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

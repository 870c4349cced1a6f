"""Goal: an operator pauses, resumes and retries partitions while workers run, and nothing is lost.

Method: commands run beside workers that are stopped, killed and rebalanced. A paused shard stands
still and its lock is free, its neighbours go on, and once it is resumed the ledger balances.
"""

import os
import shutil
from typing import Any

import pytest

from connectors.cli.exit_codes import EXIT_UNAVAILABLE, EXIT_USAGE
from connectors.group import Pauses
from connectors.ingest.assignment.quarantine import TRY_AFTER_S
from storage_core import Stream, shard_owners
from tests.broker.support.fetch_ways import BY_BOTH_WAYS
from tests.broker.support.lab import CLOCK, Lab, Topic, WorkerProcess
from tests.broker.worker.test_monitoring import ANY_PORT, ask, metrics
from tests.broker.worker.test_quarantine import await_noted, recreate
from tests.unit.connectors.command import Ran, Shardlog, runner
from tests.waiting import WAIT_MAX_S, await_that


@pytest.fixture
def shardlog(capsys: pytest.CaptureFixture[str]) -> Shardlog:
    return runner(capsys)


class Operator:
    """Who runs `shardlog group` on the streams of a lab."""

    def __init__(self, lab: Lab, shardlog: Shardlog) -> None:
        self._lab = lab
        self._shardlog = shardlog

    def does(self, verb: str, topic: Topic, *arguments: object) -> Ran:
        """Run it; it waits for owners as long as tests wait, unless it is told otherwise."""
        waits = [] if verb == "describe" else [f"--wait={WAIT_MAX_S}"]
        return self._shardlog("group", verb, self._lab.root, topic.name, *waits, *arguments)

    def pauses(self, topic: Topic, *partitions: int) -> Ran:
        ran = self.does("pause", topic, *(f"--partition={number}" for number in partitions))
        assert ran.code == 0, ran
        return ran

    def resumes(self, topic: Topic, *partitions: int) -> Ran:
        ran = self.does("resume", topic, *(f"--partition={number}" for number in partitions))
        assert ran.code == 0, ran
        return ran


@pytest.fixture
def operator(lab: Lab, shardlog: Shardlog) -> Operator:
    return Operator(lab, shardlog)


def stored_topic(lab: Lab, records: int = 400, **settings: Any) -> tuple[Topic, WorkerProcess]:
    topic = lab.topic(partitions=2)
    lab.produce(topic, records)
    worker = lab.worker(topic, **settings)
    lab.await_no_lag(topic)
    return topic, worker


def goes_on_without(lab: Lab, topic: Topic, shard: int) -> None:
    """Produce to all partitions; all but one are stored to their ends."""
    before = lab.committed(topic)[shard]
    for number in lab.committed(topic):
        lab.produce(topic, 200, partition=number)
    ends = {**topic.ends(), shard: before}
    await_that(lambda: lab.committed(topic) == ends, f"all but shard {shard} at the end: {ends}")


@BY_BOTH_WAYS
def test_paused_partition_stands_still_beside_its_neighbour_until_it_is_resumed(
    lab: Lab, operator: Operator
) -> None:
    topic, worker = stored_topic(lab)
    said = operator.pauses(topic, 1).out
    assert f"paused; process {worker.process.pid} on" in said
    assert shard_owners(lab.root, topic.name)[1] is None
    goes_on_without(lab, topic, 1)
    Stream.open(lab.root, topic.name, shards=[1]).close()
    assert "goes on" in operator.resumes(topic, 1).out
    lab.expect_ledger(topic)
    assert (len(worker.events("paused")), len(worker.events("resumed"))) == (1, 1)
    assert worker.stop() == 0, worker.said()


def test_pause_holds_through_a_restart_and_a_kill_of_the_worker(
    lab: Lab, operator: Operator
) -> None:
    topic, worker = stored_topic(lab)
    operator.does("pause", topic, "--partition=0", "--reason=a schema is mended")
    assert worker.stop() == 0, worker.said()
    again = lab.doomed(topic)
    again.await_event("paused")
    assert again.events("paused")[0]["reason"] == "a schema is mended"
    goes_on_without(lab, topic, 0)
    assert not again.events("waiting for shard"), "it asks for no shard that is paused"
    again.kill()
    third = lab.worker(topic)
    goes_on_without(lab, topic, 0)
    operator.resumes(topic)
    lab.expect_ledger(topic)
    assert third.stop() == 0, third.said()


def test_pause_holds_when_the_partition_moves_to_another_worker(
    lab: Lab, operator: Operator
) -> None:
    topic, worker = stored_topic(lab)
    operator.pauses(topic, 0)
    other = lab.worker(topic)
    await_that(
        lambda: bool(worker.events("paused")) and other.owned() + len(other.events("paused")) >= 1,
        "each has a partition",
    )
    assert worker.stop() == 0, worker.said()
    goes_on_without(lab, topic, 0)
    operator.resumes(topic, 0)
    lab.expect_ledger(topic)
    assert other.stop() == 0, other.said()


def test_whole_stream_is_paused_and_one_partition_of_it_resumed(
    lab: Lab, operator: Operator
) -> None:
    topic, worker = stored_topic(lab)
    assert len(operator.pauses(topic).out.splitlines()) == 2
    lab.produce(topic, 300)
    operator.resumes(topic, 1)
    await_that(lambda: lab.committed(topic)[1] == topic.ends()[1], "the resumed one is stored")
    assert [pause.shard for pause in Pauses(lab.root).read()] == [0]
    assert worker.process.poll() is None, "a worker whose partitions are paused goes on"
    operator.resumes(topic)
    lab.expect_ledger(topic)
    assert worker.stop() == 0, worker.said()


def test_metrics_and_health_tell_of_a_pause_and_count_its_lag(lab: Lab, operator: Operator) -> None:
    topic, worker = stored_topic(lab, metrics__listen=ANY_PORT)
    operator.pauses(topic, 1)
    lab.produce(topic, 50, partition=1)
    lag = ("kafka_consumergroup_group_lag", "1")
    # Nothing is fetched of it, so that the end comes from the answer to a question.
    await_that(lambda: metrics(worker).get(lag) == 50, "the lag of the paused partition")
    samples = metrics(worker)
    assert samples["shardlog_paused", "1"] == samples["shardlog_paused_partitions", ""] == 1
    status, body = ask(worker, "/health/ready")
    assert (status, '"paused": 1' in body) == (200, True)
    operator.resumes(topic)
    lab.await_no_lag(topic)
    assert "shardlog_paused{" not in ask(worker, "/metrics")[1]
    assert worker.stop() == 0, worker.said()


def test_resumed_partition_waits_for_the_command_that_has_its_shard(
    lab: Lab, operator: Operator
) -> None:
    topic, worker = stored_topic(lab)
    operator.pauses(topic, 0)
    lab.produce(topic, 200)
    with Stream.open(lab.root, topic.name, shards=[0]):
        operator.does("resume", topic, "--partition=0", "--wait=0")
        worker.await_event("resumed")
        worker.await_event("waiting for shard")
        assert f"process {os.getpid()} on" in worker.events("waiting for shard")[0]["reason"]
        await_that(lambda: lab.committed(topic)[1] == topic.ends()[1], "the neighbour goes on")
    lab.expect_ledger(topic)
    assert worker.stop() == 0, worker.said()


def test_topic_of_the_longest_name_that_kafka_takes_is_stored_and_paused(
    lab: Lab, operator: Operator
) -> None:
    topic = Topic(f"t{os.getpid()}-".ljust(249, "x"), lab.bootstrap)
    lab.admin.create_topic(topic.name, 2, {})
    lab.produce(topic, 100)
    worker = lab.worker(topic, kafka__group__id="longest")
    lab.await_no_lag(topic)
    operator.pauses(topic, 1)
    goes_on_without(lab, topic, 1)
    operator.resumes(topic, 1)
    lab.expect_ledger(topic)
    assert worker.stop() == 0, worker.said()


def test_without_a_worker_a_pause_is_there_for_the_next_one(lab: Lab, operator: Operator) -> None:
    topic, worker = stored_topic(lab)
    assert worker.stop() == 0, worker.said()
    assert "nobody had its shard open" in operator.pauses(topic, 1).out
    assert "was paused already" in operator.pauses(topic, 1).out
    said = operator.does("resume", topic, "--wait=0").out
    assert "partition 0: was not paused" in said
    assert "no worker has opened its shard" in said


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_partition_that_is_not_there_is_one_line(lab: Lab, operator: Operator, verb: str) -> None:
    topic, worker = stored_topic(lab)
    ran = operator.does(verb, topic, "--partition=7")
    assert (ran.code, ran.err.count("\n")) == (EXIT_USAGE, 1)
    assert "there is no partition 7" in ran.err
    assert worker.stop() == 0, worker.said()


def test_retry_takes_a_mended_partition_at_once(lab: Lab, operator: Operator) -> None:
    topic, worker = stored_topic(lab)
    assert worker.stop() == 0, worker.said()
    shard, away = lab.root / topic.name / "shard-0001", lab.root.with_name("lost disk")
    shutil.move(shard, away)
    again = lab.worker(topic)
    await_noted(lab, (topic.name, 1, "damage"))
    # Each failure doubles the time until the next try.
    for _ in range(4):
        ran = operator.does("retry", topic)
        assert (ran.code, "still damage" in ran.out) == (EXIT_UNAVAILABLE, True)
    shutil.move(away, shard)
    begun_s = CLOCK.monotonic_s()
    ran = operator.does("retry", topic, "--partition=1")
    assert (ran.code, "goes on" in ran.out) == (0, True), ran
    assert CLOCK.monotonic_s() - begun_s < 2**4 * TRY_AFTER_S
    lab.expect_ledger(topic)
    assert operator.does("retry", topic).code == EXIT_USAGE
    assert again.stop() == 0, again.said()


def test_partition_that_no_note_tells_of_is_described_and_tried_all_the_same(
    lab: Lab, operator: Operator
) -> None:
    topic, worker = stored_topic(lab)
    notes = lab.root / "~quarantine"
    await_that(notes.is_dir, "room for notes")
    assert worker.stop() == 0, worker.said()
    shard, away = lab.root / topic.name / "shard-0001", lab.root.with_name("lost disk")
    shutil.move(shard, away)
    notes.rmdir()
    notes.write_text("a directory cannot be made here, as on a disk that takes nothing")
    again = lab.worker(topic)
    again.await_event("quarantine not noted")
    ran = operator.does("describe", topic, f"--bootstrap={lab.bootstrap}", f"--group={topic.name}")
    assert (ran.code, "whose log says why" in ran.out) == (EXIT_UNAVAILABLE, True), ran
    ran = operator.does("retry", topic, "--wait=1")
    assert (ran.code, "see the worker's log" in ran.out) == (EXIT_UNAVAILABLE, True), ran
    notes.unlink()
    await_noted(lab, (topic.name, 1, "damage"))
    notes_away = lab.root.with_name("notes")
    notes.rename(notes_away)
    shutil.move(away, shard)
    ran = operator.does("retry", topic, "--partition=1")
    assert (ran.code, "goes on" in ran.out) == (0, True), ran
    lab.expect_ledger(topic)
    assert again.stop() == 0, again.said()


def test_retry_says_that_a_recreated_topic_is_still_foreign(lab: Lab, operator: Operator) -> None:
    topic, other = lab.topic(partitions=2), lab.topic(partitions=1)
    lab.produce(topic, 100)
    worker = lab.worker(topic, other)
    lab.await_no_lag(topic)
    recreate(lab, topic)
    lab.produce(topic, 100)
    worker.await_event("quarantined")
    await_noted(lab, (topic.name, 0, "foreign"), (topic.name, 1, "foreign"))
    ran = operator.does("retry", topic, "--partition=0")
    assert (ran.code, "deleted and re-created" in ran.out) == (EXIT_UNAVAILABLE, True), ran

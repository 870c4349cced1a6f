"""Goal: a fault of one topic or partition is that one's alone, is told, and mended without a stop.

Method: one of two topics, or of a topic's partitions, is made anew, cut short by retention, held
by another process or damaged, before a worker starts or while it runs. The others' ledger must
balance, the exit code must tell of what is left.
"""

import os
import shutil

import pytest

from connectors.cli.exit_codes import EXIT_DAMAGE, EXIT_FOREIGN, EXIT_USAGE
from connectors.group.quarantine_notes import WHOLE_TOPIC, QuarantineNotes
from connectors.kafka import FetchWay
from storage_core import Stream, drop_stream
from tests.broker.support.fetch_ways import BY_BOTH_WAYS, ways_at_hand
from tests.broker.support.lab import Lab, Topic, WorkerProcess
from tests.broker.worker.test_monitoring import ANY_PORT, ask
from tests.waiting import await_that


def recreate(lab: Lab, topic: Topic) -> None:
    lab.cluster.delete_topic(topic.name)
    await_that(lambda: topic.name not in lab.admin.partitions(), "the topic is gone")
    lab.admin.create_topic(topic.name, 2, {})
    topic.produced.clear()


def two_topics(lab: Lab) -> tuple[Topic, Topic]:
    topics = lab.topic(partitions=2), lab.topic(partitions=2)
    for topic in topics:
        lab.produce(topic, 500)
    return topics


def noted(lab: Lab) -> list[tuple[str, int, str]]:
    return [(note.stream, note.shard, note.kind) for note in QuarantineNotes(lab.root).read()]


def await_noted(lab: Lab, *notes: tuple[str, int, str]) -> None:
    """Wait until a worker has noted this; it tells of it first."""
    await_that(lambda: noted(lab) == [*notes], f"{notes} noted")


def expect_stop(worker: WorkerProcess, code: int, *words: str) -> None:
    assert worker.stop() == code, worker.said()
    for word in words:
        assert word in worker.complaint()


def test_topic_made_anew_stops_no_other_and_is_taken_again_once_its_stream_is_gone(
    lab: Lab,
) -> None:
    bad, good = two_topics(lab)
    worker = lab.worker(bad, good)
    lab.await_no_lag(bad)
    recreate(lab, bad)
    lab.produce(bad, 3000)
    worker.await_event("quarantined")
    lab.produce(good, 500)
    lab.expect_ledger(good)
    await_noted(lab, (bad.name, 0, "foreign"), (bad.name, 1, "foreign"))
    drop_stream(lab.root, bad.name)
    lab.expect_ledger(bad)
    await_noted(lab)
    assert worker.stop() == 0, worker.said()


def test_exit_code_of_a_stop_is_that_of_a_quarantined_partition(lab: Lab) -> None:
    bad, good = two_topics(lab)
    worker = lab.worker(bad, good)
    lab.await_no_lag(bad)
    assert worker.stop() == 0, worker.said()
    recreate(lab, bad)
    again = lab.worker(bad, good)
    again.await_event("quarantined")
    lab.expect_ledger(good)
    expect_stop(again, EXIT_FOREIGN, bad.name, "deleted and re-created")


def test_shard_that_cannot_be_opened_stops_no_neighbour(lab: Lab) -> None:
    topic = lab.topic(partitions=3)
    lab.produce(topic, 900)
    worker = lab.worker(topic)
    lab.await_no_lag(topic)
    assert worker.stop() == 0, worker.said()
    shard = lab.root / topic.name / "shard-0001"
    shutil.move(shard, lab.root.with_name("lost disk"))
    lab.produce(topic, 900)
    again = lab.worker(topic)
    ends = topic.ends()
    again.await_event("quarantined")
    await_noted(lab, (topic.name, 1, "damage"))
    shutil.move(lab.root.with_name("lost disk"), shard)
    await_that(lambda: lab.committed(topic) == ends, "the shard is taken once it is back")
    lab.expect_ledger(topic)
    assert again.stop() == 0, again.said()


def test_shard_that_another_process_holds_stops_no_neighbour(lab: Lab) -> None:
    topic = lab.topic(partitions=2)
    lab.produce(topic, 200)
    worker = lab.worker(topic)
    lab.await_no_lag(topic)
    assert worker.stop() == 0, worker.said()
    lab.produce(topic, 400)
    with Stream.open(lab.root, topic.name, shards=[1]):
        again = lab.worker(topic, lock_wait_s=0.5)
        again.await_event("quarantined")
        await_that(lambda: lab.committed(topic)[0] == topic.ends()[0], "the neighbour goes on")
        await_noted(lab, (topic.name, 1, "unavailable"))
    lab.expect_ledger(topic)
    assert again.stop() == 0, again.said()


@BY_BOTH_WAYS
def test_partition_that_retention_overtook_stops_no_neighbour(lab: Lab) -> None:
    topic = lab.topic(partitions=2)
    lab.produce(topic, 200, partition=0)
    lab.produce(topic, 200, partition=1)
    worker = lab.worker(topic)
    lab.await_no_lag(topic)
    assert worker.stop() == 0, worker.said()
    lab.produce(topic, 200, partition=0)
    lab.produce(topic, 200, partition=1)
    lab.cluster.delete_records(topic.partitions()[1], 300)
    again = lab.worker(topic)
    again.await_event("quarantined")
    await_that(lambda: lab.committed(topic)[0] == 400, "the neighbour goes on")
    expect_stop(again, EXIT_DAMAGE, "shard 1", "addresses [200, 300)")


def test_topic_called_like_a_file_of_the_root_is_refused_by_name_and_stops_no_other(
    lab: Lab,
) -> None:
    bad, good = Topic("root.json", lab.bootstrap), lab.topic(partitions=1)
    lab.admin.create_topic(bad.name, 1, {})
    try:
        for topic in (bad, good):
            lab.produce(topic, 100)
        worker = lab.worker(bad, good)
        worker.await_event("quarantined")
        lab.expect_ledger(good)
        expect_stop(worker, EXIT_USAGE, "root.json", "no stream may be called")
    finally:
        lab.cluster.delete_topic(bad.name)


def test_topic_that_is_deleted_is_a_fault_also_once_its_partitions_are_gone(lab: Lab) -> None:
    bad, good = two_topics(lab)
    other_root = os.fspath(lab.root.with_name("other root"))
    alone = lab.worker(bad, root=other_root, kafka__group__id=f"{bad.name}-alone")
    worker = lab.worker(bad, good, metrics__listen=ANY_PORT)
    for topic in (bad, good):
        lab.await_no_lag(topic)
    await_that(lambda: ask(worker, "/health/ready")[0] == 200, "readiness")
    alone.await_event("partition opened", 2)
    lab.cluster.delete_topic(bad.name)
    await_that(lambda: (bad.name, WHOLE_TOPIC, "foreign") in noted(lab), "a fault of the topic")
    assert ask(worker, "/health/ready")[0] == 503
    series = f'shardlog_quarantined{{stream="{bad.name}",shard="all",kind="foreign"}} 1'
    _, metrics = ask(worker, "/metrics")
    assert series in metrics
    assert "shardlog_quarantined_partitions 1\n" in metrics
    lab.produce(good, 500)
    lab.expect_ledger(good)
    expect_stop(worker, EXIT_FOREIGN, bad.name, "deleted")
    without = lab.worker(good)
    without.await_event("partition opened", 2)
    assert noted(lab) == []
    # It has nothing else left.
    assert alone.exit_code() == EXIT_FOREIGN, alone.said()


@pytest.mark.parametrize("way", ways_at_hand())
def test_topic_that_is_deleted_while_it_is_fetched_aborts_no_worker(
    lab: Lab, way: FetchWay
) -> None:
    bad, good = two_topics(lab)
    # As where the topic has been there for long: its end is told in its partitions at once.
    worker = lab.worker(bad, good, fetch=way, kafka__topic__metadata__propagation__max__ms=1)
    for topic in (bad, good):
        lab.await_no_lag(topic)
    lab.cluster.delete_topic(bad.name)
    if way == "native":
        await_that(
            lambda: any("does not exist" in line["said"] for line in worker.events("librdkafka")),
            "an error on a partition's queue",
        )
    lab.produce(good, 500)
    lab.expect_ledger(good)
    # It may or may not know yet that the topic will not come back.
    assert worker.stop() in (0, EXIT_FOREIGN), worker.said()


def test_lag_has_what_waits_in_a_quarantined_partition(lab: Lab) -> None:
    topic = lab.topic(partitions=2)
    for number in (0, 1):
        lab.produce(topic, 100, partition=number)
    worker = lab.worker(topic)
    lab.await_no_lag(topic)
    assert worker.stop() == 0, worker.said()
    lab.produce(topic, 1500, partition=1)
    with Stream.open(lab.root, topic.name, shards=[1]):
        again = lab.worker(topic, lock_wait_s=0.5, metrics__listen=ANY_PORT)
        again.await_event("quarantined")

        def lag() -> int | None:
            again.ask_progress()
            lines = again.events("progress")
            return lines[-1]["lag"] if lines else None

        await_that(lambda: lag() == 1500, "a line that says so")
        lags = [one for one in ask(again, "/metrics")[1].splitlines() if "group_lag{" in one]
        assert any('partition="1"' in one and one.endswith(" 1500") for one in lags)

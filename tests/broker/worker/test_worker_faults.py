"""Goal: whatever happens to workers, every record is stored once, in order, byte for byte.

Method: a producer writes while workers are killed, stopped, frozen and joined by others; in the
end producer, broker and shards are compared record by record.
"""

import signal
from typing import Any

import pytest

from connectors.cli.exit_codes import EXIT_AT_ONCE, EXIT_CLIENT_FAILED, EXIT_WRITE_FAILED
from tests.broker.support.fetch_ways import BY_BOTH_WAYS, ways_at_hand
from tests.broker.support.lab import DOOMED, Lab, Topic
from tests.faults.support.campaign import campaigns
from tests.thin import covering
from tests.waiting import await_that

RECORDS = 6000
FULL_BYTES = 256 * 1024
PROTOCOLS: dict[str, dict[str, Any]] = {
    "cooperative-sticky": {},
    "KIP-848": {"kafka__group__protocol": "consumer"},
    "static membership": {"member": True},
}


def member(settings: dict[str, Any], number: int) -> dict[str, Any]:
    """Return the settings of one of several workers."""
    if "member" in settings:
        # One that stops does not leave the group: it is missed.
        return {"kafka__group__instance__id": f"member-{number}", **DOOMED}
    return settings


@pytest.mark.parametrize("kills", campaigns("SHARDLOG_BROKER_KILLS", 4))
def test_killed_worker_loses_and_doubles_nothing(lab: Lab, kills: int) -> None:
    topic = lab.topic()
    lab.alternate_ways()
    with lab.producing(topic, RECORDS):
        for number in range(kills):
            worker = lab.doomed(topic)
            lab.await_committed(topic, number * 500 + lab.chance.randrange(1, 500))
            worker.kill()
    lab.worker(topic)
    lab.expect_ledger(topic)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("rounds", campaigns("SHARDLOG_BROKER_REBALANCES", 1))
def test_rebalance_among_three_workers_keeps_the_ledger(
    lab: Lab, protocol: str, rounds: int
) -> None:
    topic = lab.topic(partitions=6)
    lab.alternate_ways()
    settings = PROTOCOLS[protocol]
    with lab.producing(topic, RECORDS):
        workers = [lab.worker(topic, **member(settings, number)) for number in range(3)]
        for worker in workers:
            worker.await_event("partition opened")
        for number in range(rounds):
            leaver = workers.pop(0)
            assert leaver.stop() == 0, leaver.said()
            workers.append(lab.worker(topic, **member(settings, 3 + number)))
            workers[-1].await_event("partition opened")
    lab.expect_ledger(topic)


def test_worker_told_to_stop_under_load_stops_clean_and_the_next_goes_on(lab: Lab) -> None:
    topic, stored = lab.topic(), 0
    lab.alternate_ways()
    for _ in ways_at_hand():
        with lab.producing(topic, RECORDS):
            worker = lab.worker(topic)
            lab.await_committed(topic, stored + 500)
            assert worker.stop() == 0, worker.said()
            (stopped,) = worker.events("stopped")
            before, stored = stored, sum(lab.committed(topic).values())
            assert stopped["appended"] == stored - before
    lab.worker(topic)
    lab.expect_ledger(topic)


def test_second_signal_exits_at_once_and_loses_nothing(lab: Lab) -> None:
    topic = lab.topic()
    with lab.producing(topic, RECORDS):
        worker = lab.doomed(topic, as_people_do=True)
        lab.await_committed(topic, 500)
        worker.process.send_signal(signal.SIGINT)
        worker.process.send_signal(signal.SIGTERM)
        assert worker.exit_code() in (0, EXIT_AT_ONCE)
        lab.worker(topic)
    lab.expect_ledger(topic)


def test_partition_added_while_running_is_read_from_its_first_record(lab: Lab) -> None:
    topic = lab.topic(partitions=2)
    lab.produce(topic, 1000)
    worker = lab.worker(topic, start="latest")
    worker.await_event("partition opened", 2)
    lab.cluster.add_partitions(topic.name, 3)
    await_that(lambda: len(topic.partitions()) == 3, "a third partition that a producer can see")
    # One that has sent to the topic before learns of a partition minutes later.
    lab.produce(topic, 3000, settings={"client.id": "late"})
    worker.await_event("partition opened", 3)
    lab.await_no_lag(topic)
    held, stored = topic.holds(), lab.stored(topic)
    assert stored[2] == held[2]
    assert stored[2]


@BY_BOTH_WAYS
def test_frozen_owner_that_wakes_after_its_partitions_went_harms_nothing(lab: Lab) -> None:
    topic = lab.topic()
    with lab.producing(topic, RECORDS):
        frozen = lab.doomed(topic)
        lab.await_committed(topic, 500)
        frozen.freeze()
        heir = lab.worker(topic)
        heir.await_event("waiting for shard")
        frozen.wake()
        heir.await_event("partition opened")
    lab.expect_ledger(topic)


def produce_large(lab: Lab, topic: Topic, size: int) -> None:
    """Produce records to partition 0 of which each is too large for a file of such a size."""
    with lab.producer() as producer:
        for number in range(5):
            key, value = number.to_bytes(4, "big"), lab.chance.randbytes(2 * size)
            producer.send(topic.name, key, value, None, None, 0)
            topic.produced[key, value] += 1
    assert producer.first_failure is None, producer.first_failure


@BY_BOTH_WAYS
def test_shard_whose_disk_failed_is_reopened_and_its_neighbours_go_on(lab: Lab) -> None:
    topic = lab.topic(partitions=2)
    worker = lab.worker(topic)
    worker.await_event("partition opened", 2)
    with worker.files_limited_to(FULL_BYTES):
        lab.produce(topic, 200, partition=1)
        produce_large(lab, topic, FULL_BYTES)
        worker.await_event("write failed, reopening shard")
        lab.produce(topic, 200, partition=1)
        await_that(lambda: lab.committed(topic)[1] == 400, "the neighbour stores on")
    lab.expect_ledger(topic)
    assert worker.process.poll() is None, worker.said()


@pytest.mark.parametrize(
    ("size", "reopened"), [(64 * 1024, 5), (4096, 1)], ids=["writes fail", "opening fails too"]
)
def test_shard_whose_disk_keeps_failing_is_quarantined(lab: Lab, size: int, reopened: int) -> None:
    topic = lab.topic(partitions=2)
    worker = lab.worker(topic, lock_wait_s=0.5)
    worker.await_event("partition opened", 2)
    with worker.files_limited_to(size):
        # No round is so small that it would be taken, and the count begin anew.
        produce_large(lab, topic, size)
        worker.await_event("quarantined")
        assert worker.stop() == EXIT_WRITE_FAILED, worker.said()
    assert "a durable write failed" in worker.complaint()
    assert len(worker.events("write failed, reopening shard")) == reopened
    lab.worker(topic)
    lab.expect_ledger(topic)


@covering(fetch=ways_at_hand(), protocol=["classic", "consumer"])
def test_worker_whose_instance_id_another_has_too_ends_and_lets_go(lab: Lab, protocol: str) -> None:
    topic = lab.topic(partitions=2)
    lab.produce(topic, 200)
    settings: dict[str, Any] = {
        "kafka__group__instance__id": "twin",
        "kafka__group__protocol": protocol,
    }
    twins = [lab.worker(topic, **settings)]
    twins[0].await_event("partition opened", 2)
    twins.append(lab.worker(topic, **settings))
    await_that(lambda: any(twin.process.poll() is not None for twin in twins), "one of them ends")
    (fenced,) = (twin for twin in twins if twin.process.poll() is not None)
    assert fenced.exit_code() == EXIT_CLIENT_FAILED, fenced.said()
    assert "group.instance.id" in fenced.complaint()
    lab.expect_ledger(topic)

"""Goal: transactions of producers: what is committed is stored, what is aborted is not, no lag.

Method: a producer ends transactions either way, at random; control records take offsets of
their own, so a shard must move past them without a record.
"""

import pytest

from connectors.kafka_client import Producer
from tests.broker.lab import Lab, Topic
from tests.faults.campaign import campaigns
from tests.waiting import WAIT_MAX_S


def produce_transactions(lab: Lab, topic: Topic, count: int) -> None:
    producer = Producer(lab.bootstrap, {"transactional.id": topic.name})
    producer.prepare()
    for number in range(count):
        is_committed = lab.chance.random() < 0.5 and number < count - 1
        producer.begin()
        for at in range(lab.chance.randrange(1, 200)):
            key, value = (at % 7).to_bytes(4, "big"), b"%d/%d" % (number, at)
            producer.send(topic.name, key, value)
            topic.produced[key, value] += is_committed
        # NOTE: aborting before the broker knows the transaction's partitions is fatal (2.16).
        producer.flush(WAIT_MAX_S)
        producer.end(is_committed=is_committed)
    topic.produced = +topic.produced


@pytest.mark.parametrize("transactions", campaigns("SHARDLOG_BROKER_TRANSACTIONS", 10))
def test_committed_is_stored_and_aborted_is_passed(lab: Lab, transactions: int) -> None:
    topic = lab.topic()
    lab.worker(topic)
    produce_transactions(lab, topic, transactions)
    lab.expect_ledger(topic)


def test_shard_moves_past_aborted_records_at_the_end_also_after_a_restart(lab: Lab) -> None:
    topic = lab.topic(partitions=1)
    worker = lab.worker(topic)
    produce_transactions(lab, topic, 2)
    lab.await_no_lag(topic)
    assert worker.stop() == 0
    produce_transactions(lab, topic, 1)
    lab.worker(topic)
    lab.expect_ledger(topic)

"""Goal: transactions of producers: what is committed is stored, what is aborted is not, no lag.

Method: a producer ends transactions either way, at random; control records take offsets of
their own, so a shard must move past them without a record.
"""

import pytest

from tests.broker.support.cluster import Transactions
from tests.broker.support.fetch_ways import BY_BOTH_WAYS, alternated
from tests.broker.support.lab import Lab, Topic
from tests.faults.support.campaign import campaigns


def produce_transactions(lab: Lab, topic: Topic, count: int) -> None:
    transactions = Transactions(lab.bootstrap, topic.name)
    for number in range(count):
        is_committed = lab.chance.random() < 0.5 and number < count - 1
        sent = [
            ((place % 7).to_bytes(4, "big"), b"%d/%d" % (number, place))
            for place in range(lab.chance.randrange(1, 200))
        ]
        transactions.send(topic.name, sent, is_committed=is_committed)
        if is_committed:
            topic.produced.update(sent)


@pytest.mark.parametrize(
    ("fetch", "transactions"), alternated(campaigns("SHARDLOG_BROKER_TRANSACTIONS", 10))
)
def test_committed_is_stored_and_aborted_is_passed(lab: Lab, transactions: int) -> None:
    topic = lab.topic()
    lab.worker(topic)
    produce_transactions(lab, topic, transactions)
    lab.expect_ledger(topic)


@BY_BOTH_WAYS
def test_shard_moves_past_aborted_records_at_the_end_also_after_a_restart(lab: Lab) -> None:
    topic = lab.topic(partitions=1)
    worker = lab.worker(topic)
    produce_transactions(lab, topic, 2)
    lab.await_no_lag(topic)
    assert worker.stop() == 0
    produce_transactions(lab, topic, 1)
    lab.worker(topic)
    lab.expect_ledger(topic)

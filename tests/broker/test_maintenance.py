"""Goal: rows become parts beside ingestion, and killing the worker meanwhile costs none of them.

Method: workers that seal and join all the time are killed while a producer writes; in the end
broker and shards are compared record by record, and each sealed row is found in one part.
"""

import numpy as np
import pyarrow.parquet as pq
import pytest

from storage_core import Stream
from tests.broker.lab import Lab, Topic
from tests.faults.campaign import campaigns
from tests.waiting import await_that

RECORDS = 12_000
EVERY_S = 0.05


def sealing_soon(lab: Lab, topic: Topic) -> None:
    """Let a worker make the topic's stream, and its shards seal twenty rows."""
    worker = lab.worker(topic)
    worker.await_event("owned", len(topic.partitions()))
    assert worker.stop() == 0
    with Stream.open(lab.root, topic.name) as stream:
        stream.alter(seal_rows=20)


@pytest.mark.parametrize("kills", campaigns("SHARDLOG_BROKER_KILLS", 2))
def test_worker_killed_while_it_seals_loses_and_doubles_nothing(lab: Lab, kills: int) -> None:
    topic = lab.topic(partitions=2)
    sealing_soon(lab, topic)
    with lab.producing(topic, RECORDS):
        for number in range(kills):
            worker = lab.worker(topic, maintain_every_s=EVERY_S)
            lab.await_committed(topic, (number + 1) * RECORDS // (kills + 2))
            worker.kill()
        worker = lab.worker(topic, maintain_every_s=EVERY_S)
        await_that(lambda: bool(worker.events("maintained")), "a turn of maintenance")
    lab.expect_ledger(topic)
    assert worker.events("maintenance failed") == []
    assert worker.stop() == 0
    with Stream.open(lab.root, topic.name) as stream:
        stream.seal()
        parts, committed = stream.parts(), stream.committed()
        assert stream.verify().problems == ()
    for shard, end in committed.items():
        tables = [pq.read_table(part.path) for part in parts if part.shard == shard]
        addresses = np.concatenate([table.column("address").to_numpy() for table in tables])
        assert np.array_equal(np.sort(addresses), np.arange(end))

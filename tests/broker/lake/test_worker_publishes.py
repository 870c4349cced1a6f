"""Goal: what a worker stores is in the lake soon, and neither its store nor its death costs a row.

Method: workers publish to a table in a directory, or in a bucket of an S3 server that is away for a
while; they are killed, and partitions are taken from them. The table is read by deltalake.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from storage_core.lake.target import LakeTarget
from tests.broker.lake.lake_lab import (
    NEVER_S,
    PUBLISH_MAX_S,
    await_published,
    figures,
    lake_of,
    published_rows,
    stored_rows,
)
from tests.broker.support.lab import Lab
from tests.broker.worker.test_maintenance import makers_dying
from tests.broker.worker.test_monitoring import metrics
from tests.faults.support.campaign import campaigns
from tests.lake.support.stores import BucketStore, DirectoryStore, Store
from tests.log.serve.relay import Relay
from tests.waiting import await_that

RECORDS = 6000


@contextmanager
def store_away(bucket: BucketStore) -> Iterator[tuple[LakeTarget, Relay]]:
    """Give a place for a table whose server is reached by a relay, until that has no port."""
    with Relay(port_of(bucket)) as relay:
        yield bucket.through(f"http://{relay.address}").target(), relay


def port_of(bucket: BucketStore) -> int:
    """Return the port of a bucket's server."""
    return int(bucket.url.rpartition(":")[2])


def test_rows_are_in_the_lake_soon_and_metrics_say_so(lab: Lab, store: Store) -> None:
    topic, target = lab.topic(partitions=2, retention_ms="7200000"), store.target()
    worker = lab.worker(topic, **lake_of(target))
    lab.produce(topic, 1000)
    await_published(target, topic)
    ends = {str(shard): float(end) for shard, end in topic.ends().items()}
    await_that(lambda: figures(worker, "published_address") == ends, "metrics that say so")
    assert figures(worker, "published_rows_total") == {"": 1000}
    assert figures(worker, "published_bytes_total")[""] > 0
    assert figures(worker, "publish_failures_total") == {"": 0}
    assert figures(worker, "unpublished_rows") == {"0": 0, "1": 0}
    assert figures(worker, "unpublished_age_seconds") == {"0": 0, "1": 0}
    retention = "shardlog_topic_retention_seconds", ""
    await_that(lambda: metrics(worker).get(retention) == 7200, "the topic's retention")


def test_store_that_is_away_for_a_while_costs_no_row_and_is_told_once(
    lab: Lab, bucket_store: BucketStore
) -> None:
    topic = lab.topic(partitions=1)
    with store_away(bucket_store) as (target, relay):
        worker = lab.worker(topic, **lake_of(target))
        worker.await_event("partition opened")
        relay.port = None
        lab.produce(topic, 500)
        await_that(
            lambda: figures(worker, "publish_failures_total").get("", 0) >= 2,
            "some failures",
            PUBLISH_MAX_S,
        )
        # It stops neither fetching nor sealing.
        lab.produce(topic, 500)
        lab.await_no_lag(topic)
        await_that(
            lambda: metrics(worker)["shardlog_shard_unsealed", "0"] == 0, "parts of all rows"
        )
        assert figures(worker, "unpublished_rows") == {"0": 1000}
        assert figures(worker, "unpublished_age_seconds")["0"] > 0
        assert len(worker.events("publishing failed")) == 1
        relay.port = port_of(bucket_store)
        await_published(target, topic)
        assert worker.stop(PUBLISH_MAX_S) == 0


@pytest.mark.parametrize("kills", campaigns("SHARDLOG_BROKER_KILLS", 2))
def test_worker_killed_while_it_publishes_loses_and_doubles_nothing(
    lab: Lab, store: Store, kills: int
) -> None:
    topic, target = lab.topic(partitions=2), store.target()
    with lab.producing(topic, RECORDS):
        for number in range(kills):
            worker = lab.doomed(topic, **lake_of(target))
            worker.await_event("partition opened", count=2)
            # So do the processes that build and publish for it.
            with makers_dying(worker, seed=number):
                lab.await_committed(topic, (number + 1) * RECORDS // (kills + 2))
                worker.kill()
        lab.worker(topic, **lake_of(target))
    lab.expect_ledger(topic)
    await_published(target, topic)


def test_worker_that_stops_publishes_first(lab: Lab, tmp_path: Path) -> None:
    topic, target = lab.topic(partitions=2), DirectoryStore(tmp_path).target()
    lab.produce(topic, 500)
    worker = lab.worker(topic, **lake_of(target, NEVER_S))
    lab.await_no_lag(topic)
    assert published_rows(target) == []
    assert worker.stop(PUBLISH_MAX_S) == 0
    assert published_rows(target) == stored_rows(topic)


def test_partition_that_is_taken_away_is_published_first(lab: Lab, tmp_path: Path) -> None:
    topic, target = lab.topic(partitions=2), DirectoryStore(tmp_path).target()
    lab.produce(topic, 500)
    worker = lab.worker(topic, **lake_of(target, NEVER_S))
    lab.await_no_lag(topic)
    lab.worker(topic, **lake_of(target, NEVER_S))
    worker.await_event("partition closed", wait_s=PUBLISH_MAX_S)
    (closed,) = worker.events("partition closed")
    published = {address for shard, address in published_rows(target) if shard == closed["shard"]}
    assert published == {
        address for shard, address in stored_rows(topic) if shard == closed["shard"]
    }

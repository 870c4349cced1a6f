"""Goal: what a worker stores is in the lake soon, and neither its store nor its death costs a row.

Method: workers publish to a table in a directory, or in a bucket of an S3 server that is away for a
while; they are killed, and partitions are taken from them. The table is read by deltalake.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from storage_core.lake.target import LakeTarget
from tests.broker.support.lab import Lab, Topic, WorkerProcess
from tests.broker.worker.test_maintenance import makers_dying
from tests.broker.worker.test_monitoring import ANY_PORT, metrics
from tests.faults.support.campaign import campaigns
from tests.lake.support.stores import BucketStore, DirectoryStore, Store
from tests.log.serve.relay import Relay
from tests.waiting import WAIT_MAX_S, await_that

# What a busy machine does one after the other: seal, start a process, load, upload, commit.
PUBLISH_MAX_S = 3 * WAIT_MAX_S
LAG_S = 1
# Rows that wait for so long are published when somebody gives them back.
NEVER_S = 86_400
RECORDS = 6000


def lake_of(target: LakeTarget, lag_s: float = LAG_S) -> dict[str, Any]:
    """Return the settings of a worker whose streams are published there."""
    return {
        "stream__lake": target.uri,
        "stream__lake_lag_seconds": lag_s,
        "lake__options": json.dumps(dict(target.options)),
        "lake__revoke_wait_seconds": PUBLISH_MAX_S,
        "maintain_every_s": LAG_S,
        "metrics__listen": ANY_PORT,
    }


def published_rows(target: LakeTarget) -> list[tuple[int, int]]:
    """Return shard and address of each row; none where there is no table yet."""
    with suppress(TableNotFoundError):
        table = DeltaTable(target.uri, storage_options=dict(target.options))
        rows = table.to_pyarrow_table(columns=["shard", "address"]).to_pylist()
        return sorted((row["shard"], row["address"]) for row in rows)
    return []


def stored_rows(topic: Topic) -> list[tuple[int, int]]:
    """Return shard and address of each record that the broker has."""
    return sorted((shard, row[0]) for shard, rows in topic.holds().items() for row in rows)


def await_published(target: LakeTarget, topic: Topic) -> None:
    """Wait until the table has what the broker has, each record once."""
    stored = stored_rows(topic)
    await_that(
        lambda: published_rows(target) == stored, f"{len(stored)} rows in the lake", PUBLISH_MAX_S
    )


def figures(worker: WorkerProcess, name: str) -> dict[str, float]:
    """Return a metric of the lake by shard; without a shard by nothing."""
    named = f"shardlog_lake_{name}"
    return {shard: value for (metric, shard), value in metrics(worker).items() if metric == named}


@contextmanager
def store_away(bucket: BucketStore) -> Iterator[tuple[LakeTarget, Relay]]:
    """Give a place for a table whose server nobody reaches, until the relay has its port."""
    with Relay(None) as relay:
        yield bucket.through(f"http://{relay.address}").target(), relay


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
        relay.port = int(bucket_store.url.rpartition(":")[2])
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

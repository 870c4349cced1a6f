"""Goal: a shard whose log is damaged goes on from the lake and Kafka, by one command.

Method: the store of a shard is damaged while no worker runs. The worker that comes then quarantines
its partition; `shardlog lake begin` lets it begin anew, and the worker goes on.
"""

from pathlib import Path

import pytest

from connectors.cli.exit_codes import EXIT_USAGE
from storage_core import describe_stream
from tests.broker.lake.lake_lab import (
    NEVER_S,
    PUBLISH_MAX_S,
    await_published,
    expect_as_single_owner,
    lake_of,
    published_rows,
)
from tests.broker.support.lab import Lab, Topic
from tests.lake.support.damaged_logs import spoil_store
from tests.lake.support.stores import DirectoryStore
from tests.unit.connectors.command import Shardlog, runner


@pytest.fixture
def shardlog(capsys: pytest.CaptureFixture[str]) -> Shardlog:
    return runner(capsys)


def spoil_log(lab: Lab, topic: Topic) -> None:
    spoil_store(describe_stream(lab.root, topic.name).directories[0])


def test_damaged_shard_begins_from_the_lake_beside_its_worker(
    lab: Lab, tmp_path: Path, shardlog: Shardlog
) -> None:
    topic, target = lab.topic(partitions=2), DirectoryStore(tmp_path).target()
    lab.produce(topic, 600)
    worker = lab.worker(topic, **lake_of(target))
    lab.await_no_lag(topic)
    assert worker.stop(PUBLISH_MAX_S) == 0, worker.said()
    spoil_log(lab, topic)
    worker = lab.worker(topic, **lake_of(target))
    worker.await_event("quarantined", wait_s=PUBLISH_MAX_S)
    (line,) = worker.events("quarantined")
    assert (line["kind"], line["shards"]) == ("damage", [0])
    ran = shardlog("lake", "begin", lab.root, topic.name, "--shard", 0, "--execute")
    assert (ran.code, ran.err) == (0, "")
    assert shardlog("group", "retry", lab.root, topic.name, "--wait", PUBLISH_MAX_S).code == 0
    lab.produce(topic, 600)
    expect_as_single_owner(lab, topic)
    await_published(target, topic)


def test_log_with_rows_of_its_own_begins_anew_only_where_kafka_has_them(
    lab: Lab, tmp_path: Path, shardlog: Shardlog
) -> None:
    topic, target = lab.topic(partitions=1), DirectoryStore(tmp_path).target()
    lab.produce(topic, 300)
    worker = lab.worker(topic, **lake_of(target))
    lab.await_no_lag(topic)
    assert worker.stop(PUBLISH_MAX_S) == 0, worker.said()
    lab.produce(topic, 200)
    unpublishing = lab.doomed(topic, **lake_of(target, NEVER_S))
    lab.await_no_lag(topic)
    unpublishing.kill()
    spoil_log(lab, topic)
    begin = ("lake", "begin", lab.root, topic.name, "--shard", 0)
    refused = shardlog(*begin)
    assert (refused.code, refused.err.count("\n")) == (EXIT_USAGE, 1)
    assert "addresses [300, 500)" in refused.err
    with_brokers = (*begin, "--bootstrap", topic.bootstrap)
    assert shardlog(*with_brokers).code == 0
    lab.cluster.delete_records(topic.partitions()[0], 400)
    refused = shardlog(*with_brokers, "--execute")
    assert (refused.code, refused.err.count("\n")) == (EXIT_USAGE, 1)
    assert "the table ends at 300 and Kafka begins at 400" in refused.err
    assert published_rows(target) == [(0, address) for address in range(300)]

"""Goal: a partition goes on at any machine, from the lake and Kafka; no record is lost or doubled.

Method: a machine is a root of its own, whose disk a test may delete. Workers publish to a table in
a directory, or in a bucket of an S3 server; others go on at another machine.
"""

from pathlib import Path

import pytest

from storage_core import archived_shards
from tests.broker.lake.lake_lab import (
    NEVER_S,
    PUBLISH_MAX_S,
    at_machine,
    await_published,
    expect_as_single_owner,
    figures,
    lake_of,
    lose_machine,
    published_rows,
)
from tests.broker.support.lab import Lab, WorkerProcess
from tests.lake.support.proxy import S3Proxy
from tests.lake.support.stores import BucketStore, DirectoryStore, Store
from tests.waiting import await_that

BEGINS = "shard begins from the lake"
# So long a busy machine may wait for a store.
LONG_S = 3600


def begun_ends(worker: WorkerProcess) -> dict[int, int]:
    """Return where shards went on that began from the lake."""
    return {event["shard"]: event["end"] for event in worker.events(BEGINS)}


def test_machine_that_is_lost_is_replaced_by_another(
    lab: Lab, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, target = lab.topic(partitions=2), store.target()
    for name, value in target.options.items():
        monkeypatch.setenv(name, value)
    lab.produce(topic, 1000)
    worker = lab.doomed(topic, **lake_of(target))
    await_published(target, topic)
    # Of these nobody knows how far they are published.
    lab.produce(topic, 500)
    worker.kill()
    lose_machine(lab)
    at_machine(lab, "second")
    other = lab.worker(topic, **lake_of(target))
    expect_as_single_owner(lab, topic)
    assert begun_ends(other).keys() == {0, 1}
    await_that(lambda: figures(other, "takeovers_total") == {"": 2}, "a count of both")
    await_published(target, topic)


def test_machine_that_comes_back_with_old_shards_begins_them_anew(lab: Lab, tmp_path: Path) -> None:
    topic, target = lab.topic(partitions=2), DirectoryStore(tmp_path).target()
    workers = []
    for machine in ("first", "second", "first"):
        at_machine(lab, machine)
        lab.produce(topic, 500)
        workers.append(lab.worker(topic, **lake_of(target)))
        lab.await_no_lag(topic)
        assert workers[-1].stop(PUBLISH_MAX_S) == 0, workers[-1].said()
    assert [event["archived"] for event in workers[-1].events(BEGINS)] == [True, True]
    assert {log.shard for log in archived_shards(lab.root, topic.name)} == {0, 1}
    expect_as_single_owner(lab, topic)
    await_published(target, topic)


def test_log_that_publishes_goes_on_as_it_is(lab: Lab, tmp_path: Path) -> None:
    topic, target = lab.topic(partitions=1), DirectoryStore(tmp_path).target()
    for _ in range(2):
        lab.produce(topic, 300)
        worker = lab.worker(topic, **lake_of(target))
        lab.await_no_lag(topic)
        assert worker.stop(PUBLISH_MAX_S) == 0, worker.said()
        assert worker.events(BEGINS) == []
    lab.expect_ledger(topic)


def test_next_owner_begins_where_the_one_before_gave_back(lab: Lab, tmp_path: Path) -> None:
    topic, target = lab.topic(partitions=2), DirectoryStore(tmp_path).target()
    lab.produce(topic, 500)
    worker = lab.worker(topic, **lake_of(target, NEVER_S))
    lab.await_no_lag(topic)
    assert published_rows(target) == []
    at_machine(lab, "second")
    other = lab.worker(topic, **lake_of(target, NEVER_S))
    other.await_event(BEGINS, wait_s=PUBLISH_MAX_S)
    (closed,) = worker.events("partition closed")
    shard = closed["shard"]
    assert begun_ends(other) == {shard: topic.ends()[shard]}
    other.await_event("partition opened")
    assert [event["next"] for event in other.events("partition opened")] == [topic.ends()[shard]]


def test_machine_lost_before_it_published_anything_costs_nothing(lab: Lab, tmp_path: Path) -> None:
    topic, target = lab.topic(partitions=2), DirectoryStore(tmp_path).target()
    lab.produce(topic, 500)
    worker = lab.doomed(topic, **lake_of(target, NEVER_S))
    lab.await_no_lag(topic)
    await_that(lambda: lab.group_offsets(topic) == topic.ends(), "the group's offsets")
    worker.kill()
    at_machine(lab, "second")
    # What it starts with does not count for partitions that others have stored already.
    other = lab.worker(topic, start="latest", **lake_of(target))
    lab.expect_ledger(topic)
    assert len(other.events("shard begins anew")) == 2
    await_published(target, topic)


@pytest.mark.parametrize("has_table", [False, True])
def test_offsets_that_nobody_has_are_told_by_one_line(
    lab: Lab, tmp_path: Path, has_table: bool
) -> None:
    topic, target = lab.topic(partitions=1), DirectoryStore(tmp_path).target()
    lab.produce(topic, 300)
    worker = lab.doomed(topic, **lake_of(target, 1 if has_table else NEVER_S))
    lab.await_no_lag(topic)
    if has_table:
        await_published(target, topic)
    published = 300 * has_table
    await_that(lambda: lab.group_offsets(topic) == {0: 300}, "the group's offset")
    worker.kill()
    lab.produce(topic, 200)
    lab.cluster.delete_records(topic.partitions()[0], 400)
    at_machine(lab, "second")
    refused = lab.worker(topic, **lake_of(target))
    refused.await_event("quarantined", wait_s=PUBLISH_MAX_S)
    (line,) = refused.events("quarantined")
    assert (line["kind"], line["shards"]) == ("out_of_range", [0])
    for named in (f"addresses [{published}, 400)", "on_out_of_range=skip", topic.name):
        assert named in line["reason"]
    refused.exit_code(PUBLISH_MAX_S)
    assert refused.events(BEGINS) == refused.events("partition opened") == []
    skipping = lab.worker(topic, on_out_of_range="skip", **lake_of(target))
    lab.await_no_lag(topic)
    assert begun_ends(skipping) == ({0: 300} if has_table else {})
    expected = [*range(published), *range(400, 500)]
    assert [row[0] for row in lab.stored(topic)[0]] == expected


def test_store_that_is_silent_is_waited_for(
    lab: Lab, bucket_store: BucketStore, proxy: S3Proxy
) -> None:
    topic = lab.topic(partitions=2)
    target = bucket_store.through(proxy.url).target(timeout="5s", retry_timeout="5s")
    lab.produce(topic, 300)
    proxy.fail()
    worker = lab.worker(topic, lock_wait_s=LONG_S, **lake_of(target))
    worker.await_event("waiting for shard", count=2)
    assert worker.events("partition opened") == []
    proxy.pass_on()
    lab.await_no_lag(topic, PUBLISH_MAX_S)
    await_published(target, topic)
    # Who had them last goes on also without it.
    assert worker.stop(PUBLISH_MAX_S) == 0, worker.said()
    proxy.fail()
    lab.produce(topic, 300)
    again = lab.worker(topic, lock_wait_s=LONG_S, **lake_of(target))
    lab.await_no_lag(topic, PUBLISH_MAX_S)
    (line,) = again.events("lake not asked")
    assert line["shards"] == [0, 1]
    proxy.pass_on()
    await_published(target, topic)


def test_store_that_refuses_is_told_by_one_line(
    lab: Lab, bucket_store: BucketStore, proxy: S3Proxy
) -> None:
    topic = lab.topic(partitions=2)
    lab.produce(topic, 100)
    proxy.refuse_credentials()
    worker = lab.worker(topic, **lake_of(bucket_store.through(proxy.url).target()))
    worker.await_event("quarantined", wait_s=PUBLISH_MAX_S)
    worker.exit_code(PUBLISH_MAX_S)
    (line,) = worker.events("quarantined")
    assert (line["kind"], line["shards"]) == ("refused", [0, 1])
    assert "refuses the credentials" in line["reason"]

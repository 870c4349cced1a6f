"""Goal: a partition goes on at any machine, from the lake and Kafka; no record is lost or doubled.

Method: a machine is a root of its own, whose disk a test may delete. Workers publish to a table in
a directory, or in a bucket of an S3 server; others go on at another machine.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from connectors.dlq.record import decode_dead_letter
from connectors.group.retry_shards import retry_shard_of
from storage_core import Stream, StreamReader, archived_shards
from storage_core.lake import publish_stream
from tests.broker.lake.lake_lab import (
    NEVER_S,
    PUBLISH_MAX_S,
    at_machine,
    await_published,
    expect_as_single_owner,
    figures,
    lake_of,
    lose_machine,
    name_other_owner,
    published_rows,
)
from tests.broker.support.lab import Lab, Topic, WorkerProcess
from tests.lake.support.proxy import S3Proxy
from tests.lake.support.stores import BucketStore, DirectoryStore, Store
from tests.waiting import await_that

BEGINS = "shard begins from the lake"
# So long a busy machine may wait for a store.
LONG_S = 3600
RETRY = retry_shard_of(0)


def store_retried(lab: Lab, topic: Topic, rows: int) -> None:
    """Have a retry shard with so many rows, as a retry of dead letters stores and seals them."""
    Stream.add_shards(lab.root, topic.name, {RETRY: 0})
    with Stream.open(lab.root, topic.name, shards=[RETRY]) as stream:
        numbers = pa.array(range(rows), pa.int64())
        batch = pa.record_batch(
            {
                "primary": numbers,
                "secondary": numbers.cast(pa.int32()),
                "payload": pa.array([b"retried"] * rows, pa.binary()),
            }
        )
        stream.append_batch(batch, shard=RETRY, addresses=np.arange(rows))
        stream.commit()
        stream.seal()


def begun_ends(worker: WorkerProcess) -> dict[int, int]:
    """Return where shards went on that began from the lake."""
    return {event["shard"]: event["end"] for event in worker.events(BEGINS)}


def test_machine_that_is_lost_is_replaced_by_another(
    lab: Lab, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, target = lab.topic(partitions=2), store.target()
    for name, value in target.options.items():
        monkeypatch.setenv(name, value)
    settings = lake_of(target)
    if isinstance(store, DirectoryStore):
        settings["stream__key_mode"] = "dictionary"
    lab.produce(topic, 1000)
    worker = lab.doomed(topic, **settings)
    await_published(target, topic)
    # Of these nobody knows how far they are published.
    lab.produce(topic, 500)
    worker.kill()
    lose_machine(lab)
    at_machine(lab, "second")
    other = lab.worker(topic, **settings)
    expect_as_single_owner(lab, topic)
    assert begun_ends(other).keys() == {0, 1}
    await_that(lambda: figures(other, "begun_shards_total") == {"": 2}, "a count of both")
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
    expect_as_single_owner(lab, topic)
    await_published(target, topic)
    # The old logs went with the first rows that were published since.
    assert not archived_shards(lab.root, topic.name)


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


def test_dead_letters_and_their_retried_rows_come_along(lab: Lab, tmp_path: Path) -> None:
    topic, target = lab.topic(partitions=1), DirectoryStore(tmp_path).target()
    lab.produce(topic, 100)
    with lab.producer() as producer:
        producer.send(topic.name, b"no integer", b"poison", 1000, None, 0)
    worker = lab.worker(topic, **lake_of(target))
    lab.await_no_lag(topic)
    assert worker.stop(PUBLISH_MAX_S) == 0, worker.said()
    store_retried(lab, topic, rows=3)
    publish_stream(lab.root, topic.name)
    lose_machine(lab)
    at_machine(lab, "second")
    other = lab.worker(topic, **lake_of(target))
    lab.produce(topic, 50)
    lab.await_no_lag(topic)
    assert begun_ends(other) == {0: 101, RETRY: 3}
    assert {shard: len(rows) for shard, rows in lab.stored(topic).items()} == {0: 150, RETRY: 3}
    with StreamReader.open(lab.root, topic.name) as reader:
        ((address, raw),) = reader.dead_letters(0)
        assert (address, decode_dead_letter(raw).value) == (100, b"poison")


def test_owner_that_wakes_behind_another_doubles_and_hides_nothing(
    lab: Lab, tmp_path: Path
) -> None:
    topic, target = lab.topic(partitions=1), DirectoryStore(tmp_path).target()
    lab.produce(topic, 300)
    frozen = lab.doomed(topic, **lake_of(target))
    await_published(target, topic)
    frozen.freeze()
    first = lab.root
    at_machine(lab, "second")
    lab.produce(topic, 300)
    other = lab.worker(topic, **lake_of(target))
    lab.await_no_lag(topic)
    await_published(target, topic)
    frozen.wake()
    frozen.await_event("partition closed")
    lab.produce(topic, 300)
    await_published(target, topic)
    # The one that went on gives it back to the one that woke, at last.
    assert other.stop(PUBLISH_MAX_S) == 0, other.said()
    lab.root = first
    lab.produce(topic, 300)
    expect_as_single_owner(lab, topic)
    assert begun_ends(frozen) == {0: 900}
    await_published(target, topic)


def test_worker_takes_a_partition_anew_that_another_log_publishes(lab: Lab, tmp_path: Path) -> None:
    topic, target = lab.topic(partitions=2), DirectoryStore(tmp_path).target()
    lab.produce(topic, 500)
    worker = lab.worker(topic, **lake_of(target))
    await_published(target, topic)
    name_other_owner(lab, topic, target, shard=1)
    lab.produce(topic, 500)
    await_published(target, topic)
    (line,) = worker.events("partition taken anew")
    assert line["shard"] == 1
    assert begun_ends(worker).keys() == {1}
    await_that(lambda: figures(worker, "other_owner") == {"0": 0, "1": 0}, "no other owner")
    expect_as_single_owner(lab, topic)


def test_worker_of_chosen_partitions_leaves_one_to_the_log_that_publishes_it(
    lab: Lab, tmp_path: Path
) -> None:
    topic, target = lab.topic(partitions=2), DirectoryStore(tmp_path).target()
    lab.produce(topic, 500)
    partitions = json.dumps({topic.name: [0, 1]})
    chosen: dict[str, Any] = {"mode": "static", "topics": [], "partitions": partitions}
    worker = lab.worker(topic, **chosen, **lake_of(target))
    worker.await_event("published", wait_s=PUBLISH_MAX_S)
    await_published(target, topic)
    name_other_owner(lab, topic, target, shard=1)
    lab.produce(topic, 500)
    worker.await_event("partition not taken anew", wait_s=PUBLISH_MAX_S)
    lab.await_no_lag(topic)
    (line,) = worker.events("partition not taken anew")
    assert (line["shard"], "static" in line["reason"]) == (1, True)
    assert worker.events(BEGINS) == worker.events("partition closed") == []
    assert figures(worker, "other_owner") == {"0": 0, "1": 1}
    lab.expect_ledger(topic)


def test_log_that_alone_has_rows_goes_on_though_another_publishes_it(
    lab: Lab, tmp_path: Path
) -> None:
    topic, target = lab.topic(partitions=1), DirectoryStore(tmp_path).target()
    lab.produce(topic, 300)
    worker = lab.worker(topic, **lake_of(target))
    await_published(target, topic)
    assert worker.stop(PUBLISH_MAX_S) == 0, worker.said()
    lab.produce(topic, 200)
    # It stores, and does not publish.
    unpublishing = lab.doomed(topic, **lake_of(target, NEVER_S))
    lab.await_no_lag(topic)
    unpublishing.kill()
    name_other_owner(lab, topic, target, shard=0)
    lab.cluster.delete_records(topic.partitions()[0], 400)
    lab.produce(topic, 100)
    again = lab.worker(topic, on_out_of_range="skip", **lake_of(target))
    lab.await_no_lag(topic)
    (line,) = again.events("shard goes on though another log publishes it")
    assert (line["shard"], line["published"]) == (0, 300)
    assert again.events(BEGINS) == []
    assert [row[0] for row in lab.stored(topic)[0]] == list(range(600))
    assert again.stop(PUBLISH_MAX_S) == 0, again.said()
    publish_stream(lab.root, topic.name, take_over=True)
    assert published_rows(target) == [(0, address) for address in range(600)]


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

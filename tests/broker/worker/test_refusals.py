"""Goal: where records would be mixed, lost or hidden the worker stops and says so in one line.

Method: topics are made anew, cut, and deleted by retention, while a worker runs and while none
does; roots are foreign, copied, forbidden. Exit code, the line, and what is still stored are
compared.
"""

import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from connectors.cli.exit_codes import EXIT_DAMAGE, EXIT_FOREIGN, EXIT_UNAVAILABLE, EXIT_USAGE
from connectors.dlq.record import decode_dead_letter
from connectors.kafka import Consumer, Partition, Place
from storage_core import StreamReader
from tests.broker.support.fetch_ways import BY_BOTH_WAYS
from tests.broker.support.lab import FAST_GROUP, Lab, Topic, WorkerProcess
from tests.broker.support.raw_producer import produce_with_raw_header
from tests.waiting import WAIT_MAX_S, await_that

BEGINS_LATER = "log start offset is not 0"


def recreate(lab: Lab, topic: Topic, partitions: int = 4) -> None:
    lab.cluster.delete_topic(topic.name)
    await_that(lambda: topic.name not in lab.admin.partitions(), "the topic is gone")
    lab.admin.create_topic(topic.name, partitions, {})


def stored_and_stopped(lab: Lab, records: int = 1000, **settings: Any) -> Topic:
    """Return a topic whose records are stored, its worker stopped."""
    topic = lab.topic(partitions=settings.pop("partitions", 4))
    lab.produce(topic, records)
    worker = lab.worker(topic, **settings)
    lab.await_no_lag(topic)
    assert worker.stop() == 0, worker.said()
    return topic


def expect_refusal(worker: WorkerProcess, code: int, *words: str) -> None:
    """The worker ends with this code, and its last line holds the words; nothing spills."""
    assert worker.exit_code() == code, worker.said()
    assert "Traceback" not in worker.said()
    for word in words:
        assert word in worker.complaint()


def test_topic_recreated_while_running_stops_the_worker(lab: Lab) -> None:
    topic = lab.topic()
    lab.produce(topic, 1000)
    worker = lab.worker(topic)
    lab.await_no_lag(topic)
    before = lab.stored(topic)
    recreate(lab, topic)
    lab.produce(topic, 3000)
    expect_refusal(worker, EXIT_FOREIGN, topic.name, "deleted and re-created")
    assert lab.stored(topic) == before


def test_topic_recreated_while_stopped_with_a_longer_one_is_refused(lab: Lab) -> None:
    topic = stored_and_stopped(lab)
    before = lab.stored(topic)
    recreate(lab, topic)
    lab.produce(topic, 3000)
    expect_refusal(lab.worker(topic), EXIT_FOREIGN, topic.name, "deleted and re-created")
    assert lab.stored(topic) == before


def out_of_range(lab: Lab, **settings: Any) -> tuple[Topic, Partition]:
    """Return a topic of which retention took records before they were stored."""
    topic = stored_and_stopped(lab, partitions=1, **settings)
    lab.produce(topic, 500)
    (partition,) = topic.partitions()
    lab.cluster.delete_records(partition, 1200)
    return topic, partition


def test_retention_that_overtook_the_shard_is_told_with_the_range(lab: Lab) -> None:
    topic, _ = out_of_range(lab)
    worker = lab.worker(topic)
    expect_refusal(worker, EXIT_DAMAGE, "addresses [1000, 1200)", "on_out_of_range=skip")


def test_range_deleted_by_retention_is_skipped_and_recorded_if_configured(lab: Lab) -> None:
    topic, _ = out_of_range(lab)
    lab.worker(topic, on_out_of_range="skip")
    lab.await_no_lag(topic)
    with StreamReader.open(lab.root, topic.name) as reader:
        assert reader.gaps() == {0: [(1000, 1200)]}
    assert [row[0] for row in lab.stored(topic)[0]] == [*range(1000), *range(1200, 1500)]


def test_topic_whose_first_records_are_gone_is_told_to_begin_later(lab: Lab) -> None:
    topic = lab.topic(partitions=3)
    for number, end in ((0, 100), (1, 40)):
        lab.produce(topic, 100, partition=number)
        lab.cluster.delete_records(topic.partitions()[number], end)
    worker = lab.worker(topic)
    worker.await_event("partition opened", 3)
    ranges = [(each["shard"], each["offset"], each["end"]) for each in worker.events(BEGINS_LATER)]
    assert ranges == [(0, 100, 100), (1, 40, 100)]
    all_gone, some_gone = (each["reason"] for each in worker.events(BEGINS_LATER))
    assert "all there was" in all_gone
    assert "all there was" not in some_gone
    lab.await_no_lag(topic)
    assert worker.stop() == 0, worker.said()
    again = lab.worker(topic)
    again.await_event("partition opened", 3)
    assert again.events(BEGINS_LATER) == []


def test_retention_that_overtakes_a_running_worker_is_told(lab: Lab) -> None:
    topic = lab.topic(partitions=1)
    lab.produce(topic, 100)
    worker = lab.worker(topic)
    lab.await_no_lag(topic)
    worker.freeze()
    lab.produce(topic, 20_000)
    (partition,) = topic.partitions()
    lab.cluster.delete_records(partition, 20_100)
    lab.produce(topic, 10)
    worker.wake()
    if lab.committed(topic)[0] < 20_110:
        worker.exit_code()
    # What had been fetched before it froze may still be stored; the rest is named.
    expect_refusal(worker, EXIT_DAMAGE, "20100)", "on_out_of_range=skip")


def test_running_worker_goes_on_behind_what_retention_took(lab: Lab) -> None:
    topic = lab.topic(partitions=1)
    lab.produce(topic, 100)
    worker = lab.worker(topic, on_out_of_range="skip")
    lab.await_no_lag(topic)
    worker.freeze()
    lab.produce(topic, 20_000)
    (partition,) = topic.partitions()
    lab.cluster.delete_records(partition, 20_100)
    lab.produce(topic, 10)
    worker.wake()
    lab.await_no_lag(topic)
    lab.produce(topic, 10)
    lab.await_no_lag(topic)
    assert [row[0] for row in lab.stored(topic)[0]][-20:] == list(range(20_100, 20_120))


def test_retention_over_aborted_records_alone_is_no_loss(lab: Lab) -> None:
    topic = lab.topic(partitions=1)
    lab.produce(topic, 10)
    worker = lab.worker(topic)
    lab.abort(topic, 50)
    lab.await_no_lag(topic)
    assert worker.stop() == 0
    (partition,) = topic.partitions()
    lab.cluster.delete_records(partition, lab.committed(topic)[0])
    lab.produce(topic, 10)
    lab.worker(topic)
    lab.await_no_lag(topic)
    assert len(lab.stored(topic)[0]) == 20


def test_partition_whose_data_lies_in_another_root_is_refused(lab: Lab) -> None:
    topic = stored_and_stopped(lab)
    elsewhere = lab.root.with_name("elsewhere")
    worker = lab.worker(topic, root=str(elsewhere))
    expect_refusal(worker, EXIT_FOREIGN, topic.name, "its data lies in root")
    assert not (elsewhere / topic.name).exists()


def test_copy_of_a_root_goes_on_only_when_adopted(lab: Lab) -> None:
    topic = stored_and_stopped(lab)
    copy = lab.root.with_name("copy")
    shutil.copytree(lab.root, copy)
    lab.set_root_id(copy)
    lab.produce(topic, 500)
    worker = lab.worker(topic)
    lab.await_no_lag(topic)
    assert worker.stop() == 0
    expect_refusal(lab.worker(topic, root=str(copy)), EXIT_FOREIGN, "adopt=true")
    lab.root = copy
    lab.worker(topic, adopt=True)
    lab.expect_ledger(topic)


def test_store_that_was_set_back_fetches_what_it_lacks(lab: Lab) -> None:
    topic = stored_and_stopped(lab)
    backup = lab.root.with_name("backup")
    shutil.copytree(lab.root, backup)
    lab.produce(topic, 500)
    worker = lab.worker(topic)
    lab.await_no_lag(topic)
    assert worker.stop() == 0
    shutil.rmtree(lab.root)
    behind = stood_at(backup, topic)
    backup.rename(lab.root)
    again = lab.worker(topic)
    lab.expect_ledger(topic)
    warnings = again.events("group offset is ahead of the shard")
    assert {each["shard"]: each["shard_next"] for each in warnings} == behind
    assert all(each["group_offset"] > each["shard_next"] for each in warnings)
    assert worker.events("group offset is ahead of the shard") == []


def stood_at(root: Path, topic: Topic) -> dict[int, int]:
    with StreamReader.open(root, topic.name) as reader:
        return reader.committed()


def test_group_offset_moved_by_others_is_ignored(lab: Lab) -> None:
    topic = lab.topic(partitions=1)
    lab.produce(topic, 100)
    lab.move_group(topic, 60)
    lab.worker(topic)
    lab.expect_ledger(topic)


def test_broker_that_is_down_at_the_start_is_told(lab: Lab) -> None:
    topic = Topic("any", "127.0.0.1:1")
    settings: dict[str, Any] = {"kafka.bootstrap.servers": "127.0.0.1:1", "broker_wait_s": 5}
    worker = lab.worker(topic, **settings)
    expect_refusal(worker, EXIT_UNAVAILABLE, "127.0.0.1:1", "Connection refused", "start")


def test_directory_without_permission_is_told(lab: Lab) -> None:
    lab.root.mkdir()
    lab.root.chmod(0o500)
    worker = lab.worker(lab.topic(), without_root_rights=True)
    expect_refusal(worker, EXIT_USAGE, str(lab.root), "permission denied; set another root")
    assert list(lab.root.iterdir()) == []


def test_unknown_key_of_the_file_is_named(lab: Lab, tmp_path) -> None:
    config = tmp_path / "shardlog.toml"
    config.write_text(f'root = "{lab.root}"\ntopics = ["a"]\nlinger = 5\n')
    command = [sys.executable, "-m", "connectors.cli.main", "worker", f"--config={config}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_MAX_S, check=False)
    assert done.returncode == EXIT_USAGE
    assert done.stderr.count("\n") == 1
    assert "linger: unknown key" in done.stderr
    assert not lab.root.exists()


@pytest.mark.parametrize("name", ["group.instance.ids", "auto.offset.reset"])
def test_setting_that_kafka_or_shardlog_does_not_take_is_named(lab: Lab, name: str) -> None:
    worker = lab.worker(lab.topic(), **dict[str, Any]({f"kafka.{name}": "x"}))
    expect_refusal(worker, EXIT_USAGE, name)


def test_session_time_that_the_group_refuses_is_named(lab: Lab) -> None:
    worker = lab.worker(lab.topic(), **dict[str, Any]({"kafka.session.timeout.ms": 1}))
    expect_refusal(worker, EXIT_USAGE, "session.timeout.ms")


def test_partition_that_was_paused_when_it_went_is_fetched_when_it_returns(lab: Lab) -> None:
    topic = lab.topic(partitions=1)
    lab.produce(topic, 10)
    consumer = Consumer({"bootstrap.servers": lab.bootstrap, "group.id": topic.name})
    (partition,) = topic.partitions()
    consumer.begin({partition: Place(0)})
    consumer.pause([partition])
    consumer.unassign([partition])
    consumer.begin({partition: Place(5)})
    offsets: list[int] = []

    def has_come() -> bool:
        for fetched, _ in consumer.fetch(10, 0.1):
            offsets.extend(fetched.offsets.tolist())
        return bool(offsets)

    await_that(has_come, "records of a partition that returned")
    consumer.close()
    assert offsets[0] == 5


def test_offsets_of_many_partitions_are_those_of_each(lab: Lab) -> None:
    topic = lab.topic(partitions=3)
    for number, count in enumerate((0, 10, 20)):
        lab.produce(topic, count, partition=number)
    cut, absent = Partition(topic.name, 2), Partition(topic.name, 9)
    lab.cluster.delete_records(cut, 5)
    consumer = Consumer({"bootstrap.servers": lab.bootstrap, "group.id": topic.name})
    edges = consumer.watermarks_of([*topic.partitions(), absent], WAIT_MAX_S)
    assert edges == {at: consumer.watermarks(at) for at in topic.partitions()}
    assert edges[cut] == (5, 20)
    consumer.close()


def test_position_is_unknown_after_going_back_until_a_record_comes(lab: Lab) -> None:
    # A shard moves to a position without records; one from before would pass over some.
    topic = lab.topic(partitions=1)
    lab.produce(topic, 100)
    consumer = Consumer({"bootstrap.servers": lab.bootstrap, "group.id": topic.name})
    (partition,) = topic.partitions()
    consumer.begin({partition: Place(0)})
    await_that(lambda: bool(consumer.fetch(50, 0.1)), "records")
    positions = [consumer.positions([partition])]
    consumer.seek(partition, Place(10))
    positions.append(consumer.positions([partition]))
    await_that(lambda: bool(consumer.fetch(50, 0.1)), "records from where it went back to")
    consumer.unassign([partition])
    consumer.begin({partition: Place(5)})
    positions.append(consumer.positions([partition]))
    consumer.close()
    assert positions[0].get(partition)
    assert positions[1:] == [{}, {}]


def test_leaving_a_group_takes_a_bounded_time(lab: Lab) -> None:
    topic, may_go, held = lab.topic(partitions=1), threading.Event(), threading.Event()
    others = threading.enumerate()
    consumer = Consumer({"bootstrap.servers": lab.bootstrap, "group.id": topic.name, **FAST_GROUP})

    def take(partitions: list[Partition]) -> None:
        consumer.begin(dict.fromkeys(partitions, Place(0)))
        held.set()

    def hang(partitions: list[Partition]) -> None:
        may_go.wait(WAIT_MAX_S)
        consumer.unassign(partitions)

    consumer.subscribe([topic.name], take, hang, hang)
    await_that(lambda: bool(consumer.fetch(1, 0.1)) or held.is_set(), "it holds its partition")
    assert not consumer.close(wait_s=0.2)
    may_go.set()
    # It leaves by itself then; other tests count what is left of clients.
    (leaving,) = [
        thread
        for thread in threading.enumerate()
        if thread not in others and thread.name == "shardlog-leave"
    ]
    leaving.join(WAIT_MAX_S)
    assert not leaving.is_alive()


@BY_BOTH_WAYS
def test_record_with_a_header_name_that_is_no_text_is_a_dead_letter(lab: Lab) -> None:
    topic = lab.topic(partitions=1)
    lab.produce(topic, 5)
    produce_with_raw_header(lab.bootstrap, topic.name, b"tr\xff\xfeace")
    lab.produce(topic, 5)
    lab.worker(topic)
    lab.await_no_lag(topic)
    with StreamReader.open(lab.root, topic.name) as reader:
        ((address, raw),) = reader.dead_letters(0)
    dead_letter = decode_dead_letter(raw)
    assert (address, dead_letter.value, dead_letter.headers) == (5, b"poison", None)
    assert "UTF-8" in dead_letter.reason
    assert len(lab.stored(topic)[0]) == 10

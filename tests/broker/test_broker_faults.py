"""Goal: a broker that dies and comes back costs time, never a record; a log that was cut is told.

Method: a broker of the test's own is killed while a producer writes and a worker stores, or its
files are cut while it is down, as a restored disk would leave them.
"""

import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from connectors.cli.exit_codes import EXIT_DAMAGE, EXIT_FOREIGN
from connectors.dev_stack.broker import BROKER
from connectors.dev_stack.server import Server
from connectors.ingest.log_lines import LIBRARY_TELL_EVERY_S
from connectors.kafka_client import Consumer, FetchWay, Place
from tests.broker.lab import CLOCK, Lab, Topic
from tests.broker.ways import BY_BOTH_WAYS, alternated
from tests.faults.campaign import campaigns, fault_seed
from tests.log.disks import BesideThread
from tests.waiting import WAIT_MAX_S, await_that

# Of each kind one is told each ten seconds; without a limit they are some twenty a second.
LIBRARY_LINES_AT_ONCE_MAX = 25


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Server]:
    with Server(BROKER, tmp_path / "broker") as broker:
        yield broker


@pytest.fixture
def own_lab(own_broker: Server, tmp_path: Path, fetch: FetchWay) -> Iterator[Lab]:
    lab = Lab(own_broker.address, tmp_path, fault_seed(), fetch)
    yield lab
    lab.close()


@pytest.mark.parametrize(("fetch", "kills"), alternated(campaigns("SHARDLOG_BROKER_RESTARTS", 1)))
def test_killed_broker_loses_and_doubles_nothing(
    own_broker: Server, own_lab: Lab, kills: int
) -> None:
    topic = own_lab.topic()
    worker = own_lab.worker(topic)
    began_s = CLOCK.monotonic_s()
    with own_lab.producing(topic, 5000 * kills):
        for number in range(kills):
            own_lab.await_committed(topic, 3000 * number + own_lab.chance.randrange(1, 1000))
            own_broker.kill()
            own_broker.start()
    own_lab.expect_ledger(topic)
    assert worker.process.poll() is None, worker.said()
    times = kills + (CLOCK.monotonic_s() - began_s) / LIBRARY_TELL_EVERY_S
    assert len(worker.events("librdkafka")) <= LIBRARY_LINES_AT_ONCE_MAX * times, worker.said()


def cut_log(broker: Server, topic: Topic) -> None:
    """Cut a partition's log to a part of it, as an old copy of the disk would be."""
    (log,) = broker.directory.glob(f"data/{topic.name}-0/*.log")
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size // 3)
    for index in log.parent.glob("*.*index"):
        index.unlink()
    for checkpoint in broker.directory.glob("data/*checkpoint*"):
        if "recovery" in checkpoint.name or "replication" in checkpoint.name:
            checkpoint.unlink()
    (broker.directory / "data" / ".kafka_cleanshutdown").unlink(missing_ok=True)


def spoil_middle(broker: Server, topic: Topic) -> None:
    """Change a byte in the second of a log's batches, behind Kafka's back."""
    (log,) = broker.directory.glob(f"data/{topic.name}-0/*.log")
    with log.open("r+b") as file:
        file.seek(8)
        first_bytes = int.from_bytes(file.read(4), "big") + 12
        file.seek(first_bytes + 80)
        spoiled = bytes([file.read(1)[0] ^ 1])
        file.seek(first_bytes + 80)
        file.write(spoiled)


def small_batches(lab: Lab, topic: Topic) -> None:
    lab.produce(topic, 3000, settings={"batch.num.messages": "50"})


@BY_BOTH_WAYS
def test_log_that_was_cut_while_no_worker_ran_is_told(own_broker: Server, own_lab: Lab) -> None:
    topic = own_lab.topic(partitions=1)
    small_batches(own_lab, topic)
    worker = own_lab.worker(topic)
    own_lab.await_no_lag(topic)
    assert worker.stop() == 0
    own_broker.kill()
    cut_log(own_broker, topic)
    own_broker.start()
    again = own_lab.worker(topic)
    assert again.exit_code() == EXIT_FOREIGN, again.said()
    assert "its log was cut" in again.complaint()


@BY_BOTH_WAYS
def test_log_that_was_cut_under_a_running_worker_is_told(own_broker: Server, own_lab: Lab) -> None:
    topic = own_lab.topic(partitions=1)
    small_batches(own_lab, topic)
    worker = own_lab.worker(topic)
    own_lab.await_no_lag(topic)
    before = own_lab.stored(topic)
    own_broker.kill()
    cut_log(own_broker, topic)
    own_broker.start()
    assert worker.exit_code() == EXIT_FOREIGN, worker.said()
    assert "was cut" in worker.complaint()
    assert own_lab.stored(topic) == before


@BY_BOTH_WAYS
def test_log_that_was_cut_and_written_anew_is_told(own_broker: Server, own_lab: Lab) -> None:
    topic = own_lab.topic(partitions=1)
    small_batches(own_lab, topic)
    worker = own_lab.worker(topic)
    own_lab.await_no_lag(topic)
    before = own_lab.stored(topic)
    assert worker.stop() == 0
    own_broker.kill()
    cut_log(own_broker, topic)
    own_broker.start()
    own_lab.produce(topic, 5000)
    again = own_lab.worker(topic)
    assert again.exit_code() == EXIT_FOREIGN, again.said()
    assert "written anew" in again.complaint()
    assert own_lab.stored(topic) == before


def all_stand(process_id: int) -> bool:
    """Tell whether each thread of a process was stopped; until then one may still answer."""
    try:
        stats = [path.read_text() for path in Path(f"/proc/{process_id}/task").glob("*/stat")]
    except OSError:
        # One has ended meanwhile, so not all of them stand.
        return False
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)


def test_group_that_does_not_answer_keeps_nobody_for_long(own_broker: Server, own_lab: Lab) -> None:
    topic = own_lab.topic(partitions=1)
    (partition,) = topic.partitions()
    consumer = Consumer({"bootstrap.servers": own_lab.bootstrap, "group.id": topic.name})
    consumer.begin({partition: Place(0)})
    consumer.commit_group({partition: Place(1)}, is_last=True, wait_s=WAIT_MAX_S)
    assert consumer.take_group_answer() == {partition: 1}
    assert own_broker.running is not None
    own_broker.running.program.send(signal.SIGSTOP)
    await_that(partial(all_stand, own_broker.running.program.pid), "a broker that stands")
    with BesideThread(
        lambda: consumer.commit_group({partition: Place(2)}, is_last=True, wait_s=0.5)
    ):
        pass
    # It never hears of it.
    own_broker.kill()
    assert consumer.take_group_answer() == {}
    consumer.close(wait_s=0.5)


@BY_BOTH_WAYS
def test_records_that_cannot_be_read_are_told(own_broker: Server, own_lab: Lab) -> None:
    topic = own_lab.topic(partitions=1)
    for _ in range(3):
        own_lab.produce(topic, 10)
    spoil_middle(own_broker, topic)
    worker = own_lab.worker(topic)
    worker.await_event("Kafka reports")
    assert worker.exit_code() == EXIT_DAMAGE, worker.said()
    assert own_lab.committed(topic)[0] < 30

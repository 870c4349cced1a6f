"""Goal: a broker that dies and comes back costs time, never a record; a log that was cut is told.

Method: a broker of these tests' own is killed while a producer writes and workers store, or its
files are cut while it is down, as a restored disk would leave them. Each test has a worker of each
way to fetch, so that the broker comes back once for both.
"""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

import pytest

from connectors.cli.exit_codes import EXIT_DAMAGE, EXIT_FOREIGN
from connectors.devtools.broker import BROKER
from connectors.devtools.java import SHORT_LIVED
from connectors.devtools.server import Server
from connectors.dlq.replay import Replay
from connectors.ingest.status.log_lines import LIBRARY_LOG_EVERY_S
from connectors.kafka import Consumer, Place
from storage_core import BrokerUnavailableError
from tests.broker.support.fetch_ways import ways_at_hand
from tests.broker.support.lab import CLOCK, Lab, Row, Topic, WorkerProcess
from tests.faults.support.campaign import campaigns, fault_seed
from tests.log.disks import BesideThread
from tests.waiting import WAIT_MAX_S, await_that

# Of each kind one is told each ten seconds; without a limit they are some twenty a second.
LIBRARY_LINES_AT_ONCE_MAX = 25


@pytest.fixture(scope="module")
def kept_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    place = tmp_path_factory.mktemp("broker")
    with Server(BROKER, place, jvm_options=SHORT_LIVED) as broker:
        yield broker


def revive(broker: Server) -> None:
    """Start a broker that a test has killed."""
    assert broker.running is not None
    if not broker.running.program.is_alive():
        broker.start()


@pytest.fixture
def own_broker(kept_broker: Server) -> Server:
    """A broker that answers, and is nobody else's while a test runs."""
    revive(kept_broker)
    return kept_broker


def labs_at(broker: Server, place: Path) -> Iterator[list[Lab]]:
    """A lab of each way to fetch; what is done to the broker all of their workers bear."""
    made = [Lab(broker.address, place / way, fault_seed(), way) for way in ways_at_hand()]
    for lab in made:
        lab.root.parent.mkdir()
    try:
        yield made
    finally:
        for lab in made:
            lab.close()


@pytest.fixture
def labs(own_broker: Server, tmp_path: Path) -> Iterator[list[Lab]]:
    yield from labs_at(own_broker, tmp_path)


@pytest.mark.parametrize("kills", campaigns("SHARDLOG_BROKER_RESTARTS", 1))
def test_killed_broker_loses_and_doubles_nothing(
    own_broker: Server, labs: list[Lab], kills: int
) -> None:
    topics = [lab.topic() for lab in labs]
    workers = [lab.worker(topic) for lab, topic in zip(labs, topics, strict=True)]
    began_s = CLOCK.monotonic_s()
    with ExitStack() as producing:
        for lab, topic in zip(labs, topics, strict=True):
            producing.enter_context(lab.producing(topic, 5000 * kills))
        for number in range(kills):
            for lab, topic in zip(labs, topics, strict=True):
                lab.await_committed(topic, 3000 * number + lab.chance.randrange(1, 1000))
            own_broker.kill()
            own_broker.start()
    for lab, topic in zip(labs, topics, strict=True):
        lab.expect_ledger(topic)
    times = kills + (CLOCK.monotonic_s() - began_s) / LIBRARY_LOG_EVERY_S
    for worker in workers:
        assert worker.process.poll() is None, worker.said()
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


class Chain(NamedTuple):
    """A topic of small batches, the worker that has stored them, and what is stored."""

    lab: Lab
    topic: Topic
    worker: WorkerProcess
    before: dict[int, list[Row]]

    @classmethod
    def stored(cls, lab: Lab) -> Self:
        topic = lab.topic(partitions=1)
        lab.produce(topic, 3000, settings={"batch.num.messages": "50"})
        worker = lab.worker(topic)
        lab.await_no_lag(topic)
        return cls(lab, topic, worker, lab.stored(topic))

    def expect_foreign(self, words: str, worker: WorkerProcess) -> None:
        assert worker.exit_code() == EXIT_FOREIGN, worker.said()
        assert words in worker.complaint()


class Cut(NamedTuple):
    """Chains of a broker that was killed, the log of each cut while it was down, and is back."""

    under_workers: list[Chain]
    without_workers: list[Chain]
    to_be_written: list[Chain]


@pytest.fixture(scope="module")
def cut(kept_broker: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cut]:
    revive(kept_broker)
    for labs in labs_at(kept_broker, tmp_path_factory.mktemp("cut")):
        cut = Cut(*([Chain.stored(lab) for lab in labs] for _ in Cut._fields))
        stopped = [*cut.without_workers, *cut.to_be_written]
        assert [chain.worker.stop() for chain in stopped] == [0] * len(stopped)
        kept_broker.kill()
        for chain in [*cut.under_workers, *stopped]:
            cut_log(kept_broker, chain.topic)
        kept_broker.start()
        yield cut


@pytest.mark.usefixtures("own_broker")
def test_log_that_was_cut_while_no_worker_ran_is_told(cut: Cut) -> None:
    for chain in cut.without_workers:
        chain.expect_foreign("its log was cut", chain.lab.worker(chain.topic))


@pytest.mark.usefixtures("own_broker")
def test_log_that_was_cut_under_a_running_worker_is_told(cut: Cut) -> None:
    for chain in cut.under_workers:
        chain.expect_foreign("was cut", chain.worker)
        assert chain.lab.stored(chain.topic) == chain.before


@pytest.mark.usefixtures("own_broker")
def test_log_that_was_cut_and_written_anew_is_told(cut: Cut) -> None:
    for chain in cut.to_be_written:
        chain.lab.produce(chain.topic, 5000)
        chain.expect_foreign("written anew", chain.lab.worker(chain.topic))
        assert chain.lab.stored(chain.topic) == chain.before


def all_stand(process_id: int) -> bool:
    """Tell whether each thread of a process was stopped; until then one may still answer."""
    try:
        stats = [path.read_text() for path in Path(f"/proc/{process_id}/task").glob("*/stat")]
    except OSError:
        # One has ended meanwhile, so not all of them stand.
        return False
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)


def test_group_that_does_not_answer_keeps_nobody_for_long(
    own_broker: Server, labs: list[Lab]
) -> None:
    own_lab = labs[0]
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


def test_records_that_cannot_be_read_are_told(own_broker: Server, labs: list[Lab]) -> None:
    topics = [lab.topic(partitions=1) for lab in labs]
    for lab, topic in zip(labs, topics, strict=True):
        for _ in range(3):
            lab.produce(topic, 10)
        spoil_middle(own_broker, topic)
    workers = [lab.worker(topic) for lab, topic in zip(labs, topics, strict=True)]
    for lab, topic, worker in zip(labs, topics, workers, strict=True):
        worker.await_event("Kafka reports")
        assert worker.exit_code() == EXIT_DAMAGE, worker.said()
        assert lab.committed(topic)[0] < 30


def test_replay_from_a_broker_that_falls_silent_ends_and_names_it(
    own_broker: Server, labs: list[Lab]
) -> None:
    own_lab = labs[0]
    dlq = own_lab.topic(partitions=1)
    own_lab.produce(dlq, 5)
    settings = {"bootstrap.servers": own_lab.bootstrap, "group.id": dlq.name}
    replay = Replay(settings, dlq.name, is_dry_run=True, silent_s_max=0.5)
    assert own_broker.running is not None
    own_broker.running.program.send(signal.SIGSTOP)
    await_that(partial(all_stand, own_broker.running.program.pid), "a broker that stands")
    with pytest.raises(BrokerUnavailableError, match=f"{own_lab.bootstrap} brought nothing"):
        replay.run(None, lambda _: None)
    own_broker.kill()
    replay.close()

"""The vocabulary of the broker tests: topics, producers, workers, and the ledger they must keep.

    topic = lab.topic(partitions=4)
    with lab.producing(topic, 20_000):
        worker = lab.worker(topic)
        worker.kill()
    lab.expect_ledger(topic)

The ledger compares, offset by offset and byte for byte, what the broker holds of a topic with
what the shards hold, and both with what the producer was told is there.
"""

import itertools
import json
import os
import random
import resource
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from connectors.group.retry_shards import partition_of
from connectors.kafka import Consumer, FetchWay, Partition, Place, Producer
from storage_core import BrokerUnavailableError, InvalidRequestError, StreamReader, SystemClock
from storage_core.platform.durable_file import encode_document, read_document, replace_durably
from tests.broker.support.cluster import Cluster, PatientAdmin, Transactions
from tests.broker.support.fetch_ways import ways_at_hand
from tests.broker.support.forked_command import ForkedCommand
from tests.unit.connectors.records import Plain, plain
from tests.waiting import WAIT_MAX_S, await_that

CLOCK = SystemClock()
# Less than a test waits, so that who waits in vain can say so.
PATIENT_S = WAIT_MAX_S - 20
FAST_GROUP = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500}
# Of one that is to be missed soon. Where a crowded machine keeps it from being heard of, it joins
# again and goes on.
DOOMED: dict[str, Any] = {
    "kafka__session__timeout__ms": 1500,
    "kafka__heartbeat__interval__ms": 300,
}
# Names ascend as topics were made: commands list topics by name.
_NAMES = itertools.count()
# Root writes where nobody may, unless this right is taken from it.
_NO_ROOT_RIGHTS = (
    ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
)

Row = tuple[int, bytes | None, bytes | None, int]


@dataclass
class Topic:
    """A topic of one test, and what its producer was told is there."""

    name: str
    bootstrap: str
    produced: Counter[tuple[bytes | None, bytes | None]] = field(default_factory=Counter)

    def partitions(self) -> list[Partition]:
        count = PatientAdmin({"bootstrap.servers": self.bootstrap}).partitions()[self.name]
        return [Partition(self.name, number) for number in range(count)]

    def ends(self) -> dict[int, int]:
        """Return the end of what is committed in each partition."""
        consumer = self._consumer()
        try:
            return {part.number: end for part, (_, end) in self._watermarks(consumer).items()}
        finally:
            consumer.close()

    def holds(self) -> dict[int, list[Row]]:
        """Return what the broker holds, by partition."""
        return {
            number: [(each.offset, each.key, each.value, each.timestamp) for each in records]
            for number, records in self.records().items()
        }

    def records(self) -> dict[int, list[Plain]]:
        """Return the records that the broker holds, with all they have, by partition."""
        consumer = self._consumer()
        try:
            ends = self._watermarks(consumer)
            consumer.begin({part: Place(low) for part, (low, _) in ends.items()})
            rows: dict[int, list[Plain]] = {part.number: [] for part in ends}
            left = {part for part, (low, end) in ends.items() if low < end}
            deadline = CLOCK.monotonic_s() + WAIT_MAX_S
            while left:
                assert CLOCK.monotonic_s() < deadline, f"the broker withholds {left}"
                for fetched, fault in consumer.fetch(5000, 0.05):
                    assert fault is None, fault
                    for record in plain(fetched):
                        rows[record.partition.number].append(record)
                reached = consumer.positions(left)
                left = {part for part in left if reached.get(part, 0) < ends[part][1]}
            return rows
        finally:
            consumer.close()

    def _watermarks(self, consumer: Consumer) -> dict[Partition, tuple[int, int]]:
        """Return where each partition begins and ends, once the broker leads them all."""
        watermarks: dict[Partition, tuple[int, int]] = {}

        def is_told() -> bool:
            with suppress(BrokerUnavailableError):
                watermarks.update({part: consumer.watermarks(part) for part in self.partitions()})
                return True
            return False

        await_that(is_told, f"a broker that leads {self.name}")
        return watermarks

    def _consumer(self) -> Consumer:
        return Consumer({"bootstrap.servers": self.bootstrap, "group.id": f"{self.name}-ledger"})


class WorkerProcess:
    """A worker, forked from a process that has loaded it, or as people run it."""

    def __init__(
        self,
        settings: Mapping[str, object],
        log: Path,
        prefix: Sequence[str] = (),
        *,
        is_forked: bool = True,
    ) -> None:
        self.log = log
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("SHARDLOG_", "KAFKA_"))}
        environment = {
            **clean,
            "PYTHONPATH": os.fspath(Path(__file__).parents[3]),
            # `files_limited_to` would cut it short, and every later import of it would fail.
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        sets = (f"--set={name}={_text(value)}" for name, value in settings.items())
        arguments = ["worker", *sets, "--log-format=json"]
        log.touch()
        self.process: ForkedCommand | subprocess.Popen[bytes]
        if is_forked:
            self.process = ForkedCommand(arguments, log, environment)
            return
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [*prefix, sys.executable, "-m", "connectors.cli.main", *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
            )

    def said(self) -> str:
        return self.log.read_text()

    def events(self, name: str) -> list[dict[str, Any]]:
        # Behind the last end of a line stands one that is still being written.
        *whole, _ = self.said().split("\n")
        lines = (line for line in whole if line.startswith("{"))
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def await_event(self, name: str, count: int = 1, wait_s: float = WAIT_MAX_S) -> None:
        def happened() -> bool:
            done = len(self.events(name)) >= count
            assert done or self.process.poll() is None, self.said()
            return done

        await_that(happened, f"{count} x {name!r} of a worker", wait_s)

    def owned(self) -> int:
        """Return how many shards it owns."""
        return len(self.events("partition opened")) - len(self.events("partition closed"))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self, wait_s: float = WAIT_MAX_S) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.exit_code(wait_s)

    def ask_progress(self) -> None:
        self.process.send_signal(signal.SIGUSR1)

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    @contextmanager
    def files_limited_to(self, size: int) -> Iterator[None]:
        """Let no file of the process grow beyond a size, as a full disk would."""
        pid, (_, most) = self.process.pid, resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, most))
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))

    def exit_code(self, wait_s: float = WAIT_MAX_S) -> int:
        return self.process.wait(wait_s)

    def complaint(self) -> str:
        """Return the one line it ended with; librdkafka may have more to say behind it."""
        lines = self.said().rstrip().splitlines()
        return next(line for line in reversed(lines) if '"event": "librdkafka"' not in line)

    def end(self) -> None:
        if self.process.poll() is None:
            self.kill()


class Lab:
    """One test's topics, root and workers, which fetch in one way or in turn; seeded chance."""

    def __init__(
        self,
        bootstrap: str,
        directory: Path,
        seed: int,
        fetch: FetchWay = "auto",
        producer: Producer | None = None,
    ) -> None:
        self._producer = producer
        # What the n-th record has as its value, where it has one.
        self.make_value: Callable[[int, random.Random], bytes] = _noise
        self.bootstrap = bootstrap
        self._ways: Iterator[FetchWay] = itertools.repeat(fetch)
        self.root = directory / "root"
        self.chance = random.Random(seed)
        self._directory = directory
        self._workers: list[WorkerProcess] = []
        self.admin = PatientAdmin({"bootstrap.servers": bootstrap})
        self.cluster = Cluster(bootstrap)

    def topic(self, partitions: int = 4, **config: str) -> Topic:
        name = f"t{os.getpid()}-{next(_NAMES):04}"
        dotted = {key.replace("_", "."): value for key, value in config.items()}
        self.admin.create_topic(name, partitions, dotted)
        return Topic(name, self.bootstrap)

    def worker(
        self,
        topic: Topic,
        *others: Topic,
        as_people_do: bool = False,
        without_root_rights: bool = False,
        **settings: Any,
    ) -> WorkerProcess:
        """Start a worker; a double underscore in a name stands for a dot.

        Args:
            topic: What it stores.
            others: What it stores too.
            as_people_do: It is started as a command, not forked; those whose begin, signals or end
                a test is of are.
            without_root_rights: It writes where it may only, also where root runs the tests.
            settings: Its settings.
        """
        options: dict[str, object] = {
            "root": os.fspath(self.root),
            "topics": [topic.name, *(other.name for other in others)],
            "fetch": next(self._ways),
            "kafka.bootstrap.servers": self.bootstrap,
            "kafka.group.id": topic.name,
            "kafka.topic.metadata.refresh.interval.ms": 250,
            # A broker that is short of processor time is neither away nor silent.
            "broker_wait_s": PATIENT_S,
            "stop_timeout_s": PATIENT_S,
        }
        if settings.get("kafka__group__protocol") != "consumer":
            options |= {f"kafka.{name}": value for name, value in FAST_GROUP.items()}
        options |= {name.replace("__", "."): value for name, value in settings.items()}
        log = self._directory / f"worker-{len(self._workers)}.log"
        prefix = _NO_ROOT_RIGHTS if without_root_rights else ()
        is_forked = not (as_people_do or prefix)
        worker = WorkerProcess(options, log, prefix, is_forked=is_forked)
        self._workers.append(worker)
        return worker

    def alternate_ways(self) -> None:
        """Let each worker fetch in another way than the one before it."""
        self._ways = itertools.cycle(ways_at_hand())

    def doomed(self, topic: Topic, *others: Topic, **settings: Any) -> WorkerProcess:
        """Start a worker that the group misses soon after it was killed or frozen."""
        return self.worker(topic, *others, **DOOMED, **settings)

    def producer(self) -> Producer:
        """Return what sends records; leaving it waits for the last of them.

        It is the same each time, its counts begun anew: librdkafka lets half a second go by before
        the first record of one that sends each record once.
        """
        if self._producer is None:
            self._producer = Producer(self.bootstrap)
        self._producer.acknowledged, self._producer.first_failure = 0, None
        return self._producer

    def produce(
        self,
        topic: Topic,
        records: int,
        partition: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        with Producer(self.bootstrap, settings) if settings else self.producer() as producer:
            self._send(producer, topic, records, lambda: False, partition=partition)
        assert producer.acknowledged == records, producer.first_failure

    @contextmanager
    def producing(
        self, topic: Topic, records: int, pause_s: float = 0.01
    ) -> Iterator[threading.Event]:
        """Produce in the background while the block runs; leaving waits for the last record.

        Behind each 200 records there is a pause.
        """
        stop, failures = threading.Event(), []

        def run() -> None:
            try:
                with Producer(self.bootstrap, {"linger.ms": "2"}) as producer:
                    self._send(producer, topic, records, stop.is_set, pause_s=pause_s)
                    # A broker that comes back takes longer than leaving the producer waits.
                    left = producer.flush(WAIT_MAX_S)
                assert not left, f"{left} records were not acknowledged"
                assert producer.first_failure is None, producer.first_failure
            except Exception as error:  # noqa: BLE001 - told to the test below
                failures.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield stop
        finally:
            thread.join(WAIT_MAX_S)
        assert not thread.is_alive(), "the producer hangs"
        assert not failures, failures

    def abort(self, topic: Topic, records: int) -> None:
        """Produce records and abort their transaction."""
        sent = [(None, b"%d" % number) for number in range(records)]
        Transactions(self.bootstrap, f"{topic.name}-abort").send(
            topic.name, sent, is_committed=False
        )

    def move_group(self, topic: Topic, offset: int) -> None:
        """Move the group's offset as a tool would."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": topic.name})
        try:
            consumer.commit_group(
                {Partition(topic.name, 0): Place(offset)}, is_last=True, wait_s=WAIT_MAX_S
            )
            assert consumer.group_places([Partition(topic.name, 0)])
        finally:
            consumer.close()

    def group_offsets(self, topic: Topic) -> dict[int, int]:
        """Return what the group has committed, by partition."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": topic.name})
        try:
            places = consumer.group_places(topic.partitions())
            return {at.number: place.offset for at, place in places.items()}
        finally:
            consumer.close()

    def set_root_id(self, root: Path) -> None:
        """Make a copy of a root a root of its own, as a restore would."""
        replace_durably(
            root / "root.json",
            encode_document({**read_document(root / "root.json"), "root_id": "c0" * 16}),
        )

    def _send(  # noqa: PLR0913 - what may differ
        self,
        producer: Producer,
        topic: Topic,
        records: int,
        is_over: Callable[[], bool],
        pause_s: float = 0.0,
        partition: int | None = None,
    ) -> None:
        base_ms = CLOCK.now_ns() // 10**6
        for number in range(records):
            key = self.chance.randrange(100).to_bytes(4, "big") if number % 50 else None
            value = None if number % 97 == 0 else self.make_value(number, self.chance)
            late_ms = 5000 if number % 31 == 0 else 0
            stamp = base_ms + number - late_ms
            producer.send(topic.name, key, value, stamp, None, partition)
            topic.produced[key, value] += 1
            if number % 200 == 0:
                producer.poll()
                if pause_s:
                    CLOCK.sleep(pause_s)
                if is_over():
                    return

    # --- what must hold --------------------------------------------------------------------

    def committed(self, topic: Topic) -> dict[int, int]:
        """Return where the shards of partitions stand; those of retried dead letters are none."""
        try:
            with StreamReader.open(self.root, topic.name) as reader:
                committed = reader.committed()
                return {at: end for at, end in committed.items() if partition_of(at) is None}
        except InvalidRequestError:
            return {}

    def await_committed(self, topic: Topic, records: int) -> None:
        """Wait until so many addresses are readable."""
        await_that(
            lambda: sum(self.committed(topic).values()) >= records, f"{records} records stored"
        )

    def await_no_lag(self, topic: Topic, wait_s: float = WAIT_MAX_S) -> None:
        """Wait until every shard stands at the end of its partition."""
        ends = topic.ends()

        def is_there() -> bool:
            committed = self.committed(topic)
            if committed == ends:
                return True
            # A transaction's marker may be written behind its producer's last word.
            is_behind = any(committed.get(shard, 0) < end for shard, end in ends.items())
            return not is_behind and committed == topic.ends()

        await_that(is_there, f"committed {ends} of {topic.name}", wait_s)

    def stored(self, topic: Topic) -> dict[int, list[Row]]:
        """Return what the shards hold, by shard, in order."""
        columns = ["address", "key", "payload", "timestamp"]
        with StreamReader.open(self.root, topic.name) as reader:
            return {
                shard: [
                    tuple(row.values())
                    for batch in reader.tail(shard, columns=columns)
                    for row in batch.select(columns).to_pylist()
                ]
                for shard in reader.committed()
            }

    def expect_ledger(self, topic: Topic, *, with_producer: bool = True) -> None:
        """Compare producer, broker and shards: set, order and bytes are exact, lag is zero."""
        self.await_no_lag(topic)
        held, stored = topic.holds(), self.stored(topic)
        assert sorted(stored) == sorted(held)
        for shard, rows in held.items():
            assert stored[shard] == rows, f"shard {shard} differs from its partition"
        if with_producer:
            acknowledged = Counter(
                (key, value) for rows in held.values() for _, key, value, _ in rows
            )
            lost, doubled = topic.produced - acknowledged, acknowledged - topic.produced
            # Pytest explains no assertion of a helper by itself.
            assert not lost, f"the broker lacks {len(lost)}, as {sorted(map(repr, lost))[:3]}"
            assert not doubled, f"doubled are {len(doubled)}, as {sorted(map(repr, doubled))[:3]}"

    def close(self) -> None:
        for worker in self._workers:
            worker.end()


def _noise(number: int, chance: random.Random) -> bytes:
    return b"%d:" % number + chance.randbytes(20)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)

"""A worker as others see it: how old a record is when it can be read, how long a takeover takes.

The worker is the command that people run; it is watched through the shards' markers by another
process, as a reader would. What is produced for the row of latency comes at a fixed pace from
Kafka's own producer with its defaults; if it cannot hold the pace the run is void. A first round
is not counted, nor are the first seconds of any: they are those of JVMs that compile.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final

import numpy as np

from bench.child import child_process
from bench.measure import Contestant, Experiment, Measured, Row, check_pace
from bench.records import PARTITIONS
from bench.topics import make_topic
from bench.workspace import await_records, await_shards, committed, empty_directory
from connectors.devtools.broker import BROKER, KAFKA, KAFKA_VERSION
from connectors.devtools.fetch import Bundle, fetched
from connectors.devtools.java import find_java
from connectors.devtools.server import Server
from connectors.kafka import Admin, Producer
from storage_core import StreamReader, SystemClock

# Kafka's own producer comes from a jar that the dev stack does not need, fetched once into the same
# cache. It holds a pace beside a worker on two processors, which one in Python does not.
_TOOLS: Final = Bundle(
    name=f"kafka-tools-{KAFKA_VERSION}",
    # What it needs itself lies beside the broker.
    dependencies=f"""\
    <dependency org="org.apache.kafka" name="kafka-tools" rev="{KAFKA_VERSION}"
                transitive="false" conf="default->default"/>""",
    files=1,
    megabytes=1,
    sha256="074f92301d7a679305b0f8038c11868fae768b358f8232b5afb3e1a373ce32af",
)
# A tool is not what is measured: on two processors its JVM must not take them from the others with
# threads that collect, nor with threads that optimise.
_JVM: Final = (
    *("-Xms256m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:-UsePerfData"),
    "-XX:TieredStopAtLevel=1",
)
_PRODUCER: Final = "org.apache.kafka.tools.ProducerPerformance"
_PRODUCED: Final = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec", re.MULTILINE)
_PRODUCE_MAX_S: Final = 120.0
_PACE: Final = 50_000
_PACE_SECONDS: Final = 10
_VALUE_BYTES: Final = 100
_SETTLE_MS: Final = 3000
_SESSION_MS: Final = 6000
_WATCH_S: Final = 0.001
_TICK_S: Final = 0.005
_CLOCK: Final = SystemClock()


@contextmanager
def _latency(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    with Server(BROKER, workspace / "broker") as broker:
        numbers = count()

        def ours() -> Measured:
            topic = f"paced{next(numbers)}"
            make_topic(broker.address, topic)
            records = _PACE * _PACE_SECONDS
            with (
                empty_directory(workspace) as root,
                running_worker(broker.address, topic, root, {"stream.key_mode": "none"}),
                child_process(_watch, root, topic, records) as seen,
            ):
                seen.answer()
                check_pace(_produce_at_pace(broker.address, topic, records), _PACE)
                return seen.answer()

        # A young broker takes three times the processor time for the same records, until its
        # JVM has compiled what they pass through.
        ours()
        yield {"ours": ours}


def _watch(root: Path, topic: str, records: int) -> Iterator[Measured]:
    """Watch committed from outside; tell how old each record was when it became readable.

    The rows are read afterwards: what is measured is the way, not this process's own reading,
    which would take the processors from those that are on it. A record's age counts from its
    timestamp, which the producer set when it was asked to send; of whole milliseconds, so that
    ages are too high by half of one.
    """
    await_shards(root, topic, PARTITIONS)
    reader = StreamReader.open(root, topic)
    begin = reader.committed()
    yield {}
    looks: dict[int, list[tuple[int, int]]] = {shard: [] for shard in begin}
    ends, goal = dict(begin), sum(begin.values()) + records
    while sum(ends.values()) < goal:
        committed, now_ns = reader.committed(), _CLOCK.now_ns()
        for shard, end in committed.items():
            if end > ends[shard]:
                looks[shard].append((end, now_ns))
                ends[shard] = end
        _CLOCK.sleep(_WATCH_S)
    reader.refresh()
    sent_ms, ages_s = [], []
    for shard, seen in looks.items():
        bounds, times_ns = (np.array(column) for column in zip(*seen, strict=True))
        for batch in reader.tail(shard, begin[shard], columns=["address", "primary"]):
            commits = bounds.searchsorted(batch.column("address").to_numpy(), side="right")
            sent_ms.append(batch.column("primary").to_numpy())
            ages_s.append(times_ns[commits] / 1e9 - sent_ms[-1] / 1e3)
    sent, ages = np.concatenate(sent_ms), np.concatenate(ages_s)
    # Until then all sides wait for connections and run cold code.
    settled = ages[sent >= sent.min() + _SETTLE_MS]
    p50, p99 = np.quantile(settled, [0.5, 0.99]).tolist()
    yield {"p50": p50, "p99": p99}


def _produce_at_pace(bootstrap: str, topic: str, records: int) -> float:
    """Produce with Kafka's own producer and its defaults; return the rate."""
    path = f"{fetched(_TOOLS)}/*:{fetched(KAFKA)}/*"
    command = [
        *(str(find_java()), *_JVM, "-cp", path, _PRODUCER, "--topic", topic),
        *("--num-records", str(records), "--record-size", str(_VALUE_BYTES)),
        *("--throughput", str(_PACE), "--producer-props", f"bootstrap.servers={bootstrap}"),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_PRODUCE_MAX_S, check=True
    )
    produced, rate = _PRODUCED.findall(done.stdout)[-1]
    assert int(produced) == records, done.stdout
    return float(rate)


@contextmanager
def _takeover(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    with Server(BROKER, workspace / "broker") as broker:
        numbers = count()

        def ours() -> Measured:
            topic = f"taken{next(numbers)}"
            make_topic(broker.address, topic, 1)
            with (
                empty_directory(workspace) as root,
                running_worker(broker.address, topic, root) as owner,
                child_process(pace, broker.address, topic, 1000, 60),
            ):
                await_records(root, topic, 100)
                with running_worker(broker.address, topic, root):
                    # The heir is a member before the owner dies.
                    _CLOCK.sleep(3.0)
                    owner.kill()
                    owner.wait()
                    start = _CLOCK.monotonic_s()
                    await_records(root, topic, sum(committed(root, topic).values()) + 1)
                    return {"seconds": _CLOCK.monotonic_s() - start}

        yield {"ours": ours}


def pace(bootstrap: str, topic: str, rate: int, seconds: int) -> Measured:
    """Produce keyed records at a rate that Python holds."""
    partitions = Admin({"bootstrap.servers": bootstrap}).partitions()[topic]
    value = bytes(100)
    keys = [number.to_bytes(4, "big") for number in range(1000)]
    records = rate * seconds
    begin = _CLOCK.monotonic_s()
    sent = 0
    with Producer(bootstrap, {"linger.ms": "1", "acks": "1", "enable.idempotence": "false"}) as out:
        while sent < records:
            due = min(records, int((_CLOCK.monotonic_s() - begin) * rate) + 1)
            for number in range(sent, due):
                out.send(topic, keys[number % 1000], value, None, None, number % partitions)
            sent = max(sent, due)
            out.poll()
            _CLOCK.sleep(_TICK_S)
    return {"rate": records / (_CLOCK.monotonic_s() - begin)}


@contextmanager
def running_worker(
    bootstrap: str, topic: str, root: Path, more: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the worker as people do, in a group of the topic's name; it is killed at the end."""
    settings = {
        "root": os.fspath(root),
        "topics": f'["{topic}"]',
        "kafka.bootstrap.servers": bootstrap,
        "kafka.group.id": topic,
        "kafka.session.timeout.ms": str(_SESSION_MS),
        "kafka.heartbeat.interval.ms": "500",
        **(more or {}),
    }
    arguments = [f"--set={name}={value}" for name, value in settings.items()]
    process = subprocess.Popen(
        [sys.executable, "-m", "connectors.cli.main", "worker", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


LATENCY: Final = Experiment(
    "latency",
    (
        Row(
            "latency/p99",
            "produce to readable by another process at 50,000 records/s, p99",
            ("ours", "p99"),
            None,
            "at most",
            limit=0.120,
            wanted=0.050,
        ),
        Row("latency/p50", "the same, p50", ("ours", "p50"), None, "at most"),
    ),
    _latency,
)
TAKEOVER: Final = Experiment(
    "takeover",
    (
        Row(
            "takeover/seconds",
            "takeover after kill -9 with a 6 s session, to the first new record",
            ("ours", "seconds"),
            None,
            "at most",
            limit=8,
            wanted=6.5,
        ),
    ),
    _takeover,
)

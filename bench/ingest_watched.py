"""A worker as others see it: how old a record is when it can be read, how long a takeover takes.

The worker is the command that people run; it is watched through the shards' markers by another
process, as a reader would. What is produced for the row of latency comes at a fixed pace from
Kafka's own producer with its defaults; if it cannot hold the pace the run is void. A first round
is not counted, nor are the first seconds of any: they are those of JVMs that compile.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.kafka_tools import produce_at_pace
from bench.measure import Contestant, Experiment, Measured, Row
from bench.records import PARTITIONS
from bench.stored import await_records, committed
from bench.void import check_pace
from bench.workspace import KAFKA_TASKS, child_process, empty_directory
from connectors.dev_stack.broker import BROKER
from connectors.dev_stack.server import Server
from connectors.kafka_client import create_topic
from storage_core import SystemClock

PACE: Final = 50_000
_PACE_SECONDS: Final = 10
_VALUE_BYTES: Final = 100
_SESSION_MS: Final = 6000
_CLOCK: Final = SystemClock()


@contextmanager
def _latency(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    with Server(BROKER, workspace / "broker") as broker:
        numbers = iter(range(1000))

        def ours() -> Measured:
            topic = f"paced{next(numbers)}"
            create_topic(broker.address, topic, PARTITIONS)
            records = PACE * _PACE_SECONDS
            with (
                empty_directory(workspace) as root,
                _worker(broker.address, topic, root, {"stream.key_mode": "none"}),
                child_process(
                    "watch", root, topic, PARTITIONS, records, module=KAFKA_TASKS
                ) as seen,
            ):
                seen.answer()
                achieved = produce_at_pace(broker.address, topic, records, _VALUE_BYTES, PACE)
                check_pace(achieved, PACE)
                return seen.answer()

        # A young broker takes three times the processor time for the same records, until its
        # JVM has compiled what they pass through.
        ours()
        yield {"ours": ours}


@contextmanager
def _takeover(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    with Server(BROKER, workspace / "broker") as broker:
        numbers = iter(range(1000))

        def ours() -> Measured:
            topic = f"taken{next(numbers)}"
            create_topic(broker.address, topic, 1)
            with (
                empty_directory(workspace) as root,
                _worker(broker.address, topic, root) as owner,
                child_process("pace", broker.address, topic, 1000, 60, module=KAFKA_TASKS),
            ):
                await_records(root, topic, 100)
                with _worker(broker.address, topic, root):
                    # The heir is a member before the owner dies.
                    _CLOCK.sleep(3.0)
                    owner.kill()
                    owner.wait()
                    start = _CLOCK.monotonic_s()
                    await_records(root, topic, sum(committed(root, topic).values()) + 1)
                    return {"seconds": _CLOCK.monotonic_s() - start}

        yield {"ours": ours}


@contextmanager
def _worker(
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
            limit=0.150,
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

"""Ingest from a real broker: durable against a bare consumer loop, latency, takeover, memory.

Both sides use the same consumer settings, on the same topic, one process each, in turn; the
broker runs on the same processors. A round in which the bare loop itself is slow is void.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from bench.measure import Contestant, Experiment, Measured, Row
from bench.workspace import child_process, empty_directory
from connectors.dev_stack.broker import Broker
from connectors.kafka_client import create_topic
from storage_core import InvalidRequestError, StreamReader, SystemClock

_TASKS: Final = "bench.kafka_child"
PARTITIONS: Final = 4
SMALL_RECORDS: Final = 2_000_000
LARGE_RECORDS: Final = 400_000
BARE_RATE_MIN: Final = 1_200_000
PACE: Final = 50_000
_PACE_SECONDS: Final = 10
_PACE_SHARE_MIN: Final = 0.97
_TRIES_MAX: Final = 3
_WAIT_MAX_S: Final = 60.0
_SESSION_MS: Final = 6000
_CLOCK: Final = SystemClock()


@contextmanager
def filled_topic(workspace: Path, records: int, value_bytes: int) -> Iterator[tuple[str, str]]:
    """Yield a broker's address and a topic of so many records."""
    with Broker(workspace / "broker") as broker:
        create_topic(broker.bootstrap, "filled", PARTITIONS)
        with child_process(
            "produce", broker.bootstrap, "filled", records, value_bytes, module=_TASKS
        ) as child:
            child.answer()
        yield broker.bootstrap, "filled"


def _against_the_loop(
    records: int, value_bytes: int, rate_min: float
) -> Callable[[Path], AbstractContextManager[Mapping[str, Contestant]]]:
    @contextmanager
    def contestants(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
        with filled_topic(workspace, records, value_bytes) as (bootstrap, topic):

            def bare() -> Measured:
                rates = []
                for _ in range(_TRIES_MAX):
                    with child_process("bare", bootstrap, topic, records, module=_TASKS) as child:
                        measured = child.answer()
                    if measured["rate"] >= rate_min:
                        return measured
                    rates.append(round(measured["rate"]))
                message = f"void: the bare loop makes no more than {max(rates)} records/s"
                raise SystemExit(message)

            def ours() -> Measured:
                with (
                    empty_directory(workspace) as root,
                    child_process(
                        "ingest", bootstrap, topic, root, records, module=_TASKS
                    ) as child,
                ):
                    return child.answer()

            yield {"ours": ours, "bare loop": bare}

    return contestants


@contextmanager
def _latency(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    with Broker(workspace / "broker") as broker:
        numbers = iter(range(1000))

        def ours() -> Measured:
            topic = f"paced{next(numbers)}"
            create_topic(broker.bootstrap, topic, PARTITIONS)
            records = PACE * _PACE_SECONDS
            with (
                empty_directory(workspace) as root,
                _worker(broker.bootstrap, topic, root, topic),
                child_process("follow", root, topic, records, module=_TASKS) as reader,
            ):
                reader.answer()
                with child_process(
                    "pace", broker.bootstrap, topic, PACE, _PACE_SECONDS, module=_TASKS
                ) as pace:
                    achieved = pace.answer()["rate"]
                    measured = reader.answer()
            if achieved < _PACE_SHARE_MIN * PACE:
                message = f"void: the producer makes no more than {achieved:.0f} records/s"
                raise SystemExit(message)
            return measured

        yield {"ours": ours}


@contextmanager
def _takeover(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
    with Broker(workspace / "broker") as broker:
        numbers = iter(range(1000))

        def ours() -> Measured:
            topic = f"taken{next(numbers)}"
            create_topic(broker.bootstrap, topic, 1)
            with (
                empty_directory(workspace) as root,
                _worker(broker.bootstrap, topic, root, topic) as owner,
                child_process("pace", broker.bootstrap, topic, 1000, 60, module=_TASKS),
            ):
                _await_records(root, topic, 100)
                with _worker(broker.bootstrap, topic, root, topic):
                    # The heir is a member before the owner dies.
                    _CLOCK.sleep(3.0)
                    owner.kill()
                    owner.wait()
                    start = _CLOCK.monotonic_s()
                    _await_records(root, topic, _committed(root, topic) + 1)
                    return {"seconds": _CLOCK.monotonic_s() - start}

        yield {"ours": ours}


@contextmanager
def _worker(
    bootstrap: str, topic: str, root: Path, group: str
) -> Iterator[subprocess.Popen[bytes]]:
    settings = {
        "root": os.fspath(root),
        "topics": f'["{topic}"]',
        "kafka.bootstrap.servers": bootstrap,
        "kafka.group.id": group,
        "kafka.session.timeout.ms": str(_SESSION_MS),
        "kafka.heartbeat.interval.ms": "500",
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


def _committed(root: Path, topic: str) -> int:
    try:
        with StreamReader.open(root, topic) as reader:
            return sum(reader.committed().values())
    except InvalidRequestError:
        return 0


def _await_records(root: Path, topic: str, records: int) -> None:
    deadline = _CLOCK.monotonic_s() + _WAIT_MAX_S
    while _committed(root, topic) < records:
        if _CLOCK.monotonic_s() > deadline:
            message = f"{records} records were not stored within {_WAIT_MAX_S:g} s"
            raise SystemExit(message)
        _CLOCK.sleep(0.01)


def _rows(name: str, what: str) -> tuple[Row, ...]:
    return (
        Row(
            f"{name}/rate",
            f"durable ingest of {what} against the bare loop, one process each",
            ("ours", "rate"),
            ("bare loop", "rate"),
            limit=0.38,
            wanted=0.6,
        ),
        Row(
            f"{name}/cpu",
            f"processor time a record of {what} against the bare loop",
            ("ours", "cpu"),
            ("bare loop", "cpu"),
            "at most",
            limit=2.2,
            wanted=1.5,
        ),
        Row(
            f"{name}/memory",
            f"peak memory of a worker that ingests {what}",
            ("ours", "memory_bytes"),
            None,
            "at most",
            limit=400 * 10**6,
            wanted=250 * 10**6,
        ),
    )


INGEST: Final = Experiment(
    "ingest",
    _rows("ingest", "100-byte values"),
    _against_the_loop(SMALL_RECORDS, 100, BARE_RATE_MIN),
)
INGEST_LARGE: Final = Experiment(
    "ingest1k",
    _rows("ingest1k", "1 kB values"),
    _against_the_loop(LARGE_RECORDS, 1000, 0),
)
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

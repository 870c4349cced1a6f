"""Ingest from a real broker: durable against a bare consumer loop, and the worker's memory.

Both sides use the same consumer settings, on the same topic, one process each, in turn; the
broker runs on the same processors. The bare loop is the client library's own, as people write it;
how fast it was is reported beside.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from confluent_kafka import Consumer, Message, TopicPartition

from bench.child import answer_of, memory_peak
from bench.measure import Contestant, Experiment, Measured, Row
from bench.records import PARTITIONS
from bench.topics import make_topic
from bench.workspace import empty_directory
from connectors.cli.commands.worker import tune_process
from connectors.devtools.broker import BROKER
from connectors.devtools.server import Server
from connectors.ingest.status.line_output import LogFormat
from connectors.ingest.status.log_lines import open_log
from connectors.ingest.worker import Worker
from connectors.kafka import Admin, Producer, printable_consumer_settings
from connectors.settings.loading import load_options
from storage_core import SystemClock

SMALL_RECORDS: Final = 2_000_000
_LARGE_RECORDS: Final = 400_000
_CONSUME_RECORDS: Final = 1000
_CONSUME_WAIT_S: Final = 0.005
_LOOK_S: Final = 0.005
_CLOCK: Final = SystemClock()


@contextmanager
def filled_topic(workspace: Path, records: int, value_bytes: int) -> Iterator[tuple[str, str]]:
    """Yield a broker's address and a topic of so many records."""
    with Server(BROKER, workspace / "broker") as broker:
        make_topic(broker.address, "filled")
        answer_of(fill, broker.address, "filled", records, value_bytes, PARTITIONS)
        yield broker.address, "filled"


def fill(bootstrap: str, topic: str, records: int, value_bytes: int, partitions: int) -> Measured:
    """Fill the partitions of a topic evenly."""
    settings = {"linger.ms": "20", "batch.size": "500000", "compression.type": "none"}
    keys = [(number * 617 % 1000).to_bytes(4, "big") for number in range(1024)]
    value = np.random.default_rng(1).bytes(value_bytes)
    now_ms = _CLOCK.now_ns() // 10**6 - records // 100
    with Producer(bootstrap, settings) as producer:
        for number in range(records):
            # Runs of one partition, as batches of producers are.
            partition = number // 500 % partitions
            producer.send(
                topic, keys[number % 1024], value, now_ms + number // 100, None, partition
            )
            if number % 1000 == 0:
                producer.poll()
    assert producer.acknowledged == records, producer.first_failure
    return {}


def _against_the_loop(
    records: int, value_bytes: int, way: str = "auto"
) -> Callable[[Path], AbstractContextManager[Mapping[str, Contestant]]]:
    @contextmanager
    def contestants(workspace: Path) -> Iterator[Mapping[str, Contestant]]:
        with filled_topic(workspace, records, value_bytes) as (bootstrap, topic):

            def bare() -> Measured:
                return answer_of(bare_loop, bootstrap, topic, records)

            def ours() -> Measured:
                with empty_directory(workspace) as root:
                    return answer_of(ingest, bootstrap, topic, root, records, way=way)

            yield {"ours": ours, "bare loop": bare}

    return contestants


def bare_loop(bootstrap: str, topic: str, records: int) -> Measured:
    """Consume a topic and touch five fields of each record."""
    tune_process()
    own = {"bootstrap.servers": bootstrap, "group.id": "bench-bare"}
    consumer = Consumer(printable_consumer_settings(own))
    partitions = Admin({"bootstrap.servers": bootstrap}).partitions()[topic]
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    fields: Any = Message
    touched = (fields.value, fields.key, fields.offset, fields.timestamp, fields.partition)
    seen, start, start_cpu = 0, 0.0, 0.0
    while seen < records:
        messages = consumer.consume(_CONSUME_RECORDS, _CONSUME_WAIT_S)
        if messages and not seen:
            start, start_cpu = time.perf_counter(), time.process_time()
        for field in touched:
            list(map(field, messages))
        seen += len(messages)
    seconds, cpu = time.perf_counter() - start, time.process_time() - start_cpu
    consumer.close()
    return {"rate": records / seconds, "cpu": cpu / records}


def ingest(  # noqa: PLR0913 - what a worker is told
    bootstrap: str,
    topic: str,
    root: Path,
    records: int,
    partitions: Sequence[int] | None = None,
    way: str = "auto",
    more: Sequence[str] = (),
) -> Measured:
    """Run a worker until it has stored a topic, or so many records of the partitions given.

    `way` is how it fetches, `more` are settings besides.

    Rates count from the first record that arrives; processor time is that of all threads.
    """
    tune_process()
    settings = [f"root={root}", f"kafka.bootstrap.servers={bootstrap}", f"fetch={way}", *more]
    if partitions is None:
        settings.append(f'topics=["{topic}"]')
    else:
        settings += ["mode=static", f'partitions={{"{topic}": {partitions}}}']
    # A group for each root: what another has committed is none of its concern.
    options = load_options(None, [*settings, f"kafka.group.id={root.name}"], {})
    worker = Worker(options, _CLOCK, open_log(LogFormat.JSON))
    measured: dict[str, float] = {}

    def watch() -> None:
        while not worker.counts.received:
            _CLOCK.sleep(_LOOK_S)
        start, start_cpu = time.perf_counter(), time.process_time()
        while worker.counts.appended < records:
            _CLOCK.sleep(_LOOK_S)
        end = time.perf_counter()
        measured.update(rate=records / (end - start), start_s=start, end_s=end)
        measured["cpu"] = (time.process_time() - start_cpu) / records
        worker.stop()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    worker.run()
    watcher.join()
    appended = float(worker.counts.appended)
    return {**measured, "appended": appended, "memory_bytes": memory_peak()}


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Limits and what is wanted of the rate and the processor time against the bare loop."""

    rate: tuple[float, float]
    cpu: tuple[float, float]


def _rows(name: str, kind: str, bounds: _Bounds) -> tuple[Row, ...]:
    return (
        Row(
            f"{name}/rate",
            f"durable ingest of {kind} against the bare loop, one process each",
            ("ours", "rate"),
            ("bare loop", "rate"),
            "at least",
            *bounds.rate,
        ),
        Row(
            f"{name}/cpu",
            f"processor time a record of {kind} against the bare loop",
            ("ours", "cpu"),
            ("bare loop", "cpu"),
            "at most",
            *bounds.cpu,
        ),
        Row(
            f"{name}/memory",
            f"peak memory of a worker that ingests {kind}",
            ("ours", "memory_bytes"),
            None,
            "at most",
            limit=400 * 10**6,
            wanted=250 * 10**6,
        ),
        Row(f"{name}/loop", f"the bare loop's rate over {kind}", ("bare loop", "rate"), None, None),
    )


INGEST: Final = Experiment(
    "ingest",
    _rows("ingest", "100-byte values", _Bounds((0.8, 1.1), (1.3, 1.0))),
    _against_the_loop(SMALL_RECORDS, 100),
)
INGEST_PYTHON: Final = Experiment(
    "ingest-python",
    _rows("ingest-python", "100-byte values, fetched in Python,", _Bounds((0.38, 0.6), (2.2, 1.5))),
    _against_the_loop(SMALL_RECORDS, 100, "python"),
)
INGEST_LARGE: Final = Experiment(
    "ingest1k",
    _rows("ingest1k", "1 kB values", _Bounds((0.27, 0.6), (3.3, 2.0))),
    _against_the_loop(_LARGE_RECORDS, 1000),
)

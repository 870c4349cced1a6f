"""What ingest benchmarks run in processes of their own: `python -m bench.kafka_child TASK …`.

Each task answers with a line of JSON. Rates count from the first record that arrives; processor
time is that of all threads.
"""

import sys
import threading
import time
from collections.abc import Callable
from typing import Final

import numpy as np

from bench.child import answer, memory_peak
from bench.stored import await_shards
from connectors.cli.worker import tune_process
from connectors.ingest.log_lines import LogFormat, open_log
from connectors.ingest.worker import Worker
from connectors.kafka_client import FIELDS, Admin, Consumer, Partition, Place, Producer
from connectors.settings.loading import load_options
from storage_core import StreamReader, SystemClock

CONSUME_RECORDS: Final = 1000
_CONSUME_WAIT_S: Final = 0.005
_LOOK_S: Final = 0.005
_TICK_S: Final = 0.005
_WATCH_S: Final = 0.001
_SETTLE_MS: Final = 3000
_CLOCK: Final = SystemClock()


def produce(bootstrap: str, topic: str, records: str, value_bytes: str) -> None:
    """Fill a topic evenly; answer with the rate."""
    count, size = int(records), int(value_bytes)
    settings = {"linger.ms": "20", "batch.size": "500000", "compression.type": "none"}
    pool = [number * 617 % 1000 for number in range(1024)]
    keys = [number.to_bytes(4, "big") for number in pool]
    value = np.random.default_rng(1).bytes(size)
    now_ms = _CLOCK.now_ns() // 10**6 - count // 100
    partitions = Admin({"bootstrap.servers": bootstrap}).partitions()[topic]
    start = time.perf_counter()
    with Producer(bootstrap, settings) as producer:
        for number in range(count):
            # Runs of one partition, as batches of producers are.
            at = number // 500 % partitions
            producer.send(topic, keys[number % 1024], value, now_ms + number // 100, None, at)
            if number % 1000 == 0:
                producer.poll()
    assert producer.acknowledged == count, producer.first_failure
    answer({"rate": count / (time.perf_counter() - start)})


def bare_loop(bootstrap: str, topic: str, records: str) -> None:
    """Consume a topic and touch five fields of each record."""
    count = int(records)
    tune_process()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench-bare"})
    partitions = Admin({"bootstrap.servers": bootstrap}).partitions()[topic]
    consumer.begin({Partition(topic, number): Place(0) for number in range(partitions)})
    touched = (FIELDS.value, FIELDS.key, FIELDS.offset, FIELDS.timestamp, FIELDS.partition)
    seen, start, start_cpu = 0, 0.0, 0.0
    while seen < count:
        messages = consumer.consume(CONSUME_RECORDS, _CONSUME_WAIT_S)
        if messages and not seen:
            start, start_cpu = time.perf_counter(), time.process_time()
        for field in touched:
            list(map(field, messages))
        seen += len(messages)
    seconds, cpu = time.perf_counter() - start, time.process_time() - start_cpu
    answer({"rate": count / seconds, "cpu": cpu / count})
    consumer.close()


def ingest(
    bootstrap: str, topic: str, root: str, records: str, partitions: str | None = None
) -> None:
    """Run a worker until it has stored a topic, or so many records of the partitions given."""
    count = int(records)
    tune_process()
    settings = [f"root={root}", f"kafka.bootstrap.servers={bootstrap}"]
    if partitions is None:
        settings.append(f'topics=["{topic}"]')
    else:
        settings += ["mode=static", f'partitions={{"{topic}": {partitions}}}']
    # A group for each root: what another has committed is none of its concern.
    options = load_options(None, [*settings, f"kafka.group.id={root.rpartition('/')[2]}"], {})
    worker = Worker(options, _CLOCK, open_log(LogFormat.JSON))
    measured: dict[str, float] = {}

    def watch() -> None:
        while not worker.counts.brought:
            _CLOCK.sleep(_LOOK_S)
        start, start_cpu = time.perf_counter(), time.process_time()
        while worker.counts.appended < count:
            _CLOCK.sleep(_LOOK_S)
        end = time.perf_counter()
        measured.update(rate=count / (end - start), start_s=start, end_s=end)
        measured["cpu"] = (time.process_time() - start_cpu) / count
        worker.stop()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    worker.run()
    watcher.join()
    answer({**measured, "memory_bytes": memory_peak(), "rounds": worker.counts.rounds})


def pace(bootstrap: str, topic: str, rate: str, seconds: str) -> None:
    """Produce keyed records at a rate that Python holds."""
    partitions = Admin({"bootstrap.servers": bootstrap}).partitions()[topic]
    value = bytes(100)
    keys = [number.to_bytes(4, "big") for number in range(1000)]
    count = int(float(rate) * float(seconds))
    begin = _CLOCK.monotonic_s()
    sent = 0
    with Producer(bootstrap, {"linger.ms": "1", "acks": "1", "enable.idempotence": "false"}) as out:
        while sent < count:
            due = min(count, int((_CLOCK.monotonic_s() - begin) * float(rate)) + 1)
            for number in range(sent, due):
                out.send(topic, keys[number % 1000], value, None, None, number % partitions)
            sent = max(sent, due)
            out.poll()
            _CLOCK.sleep(_TICK_S)
    answer({"rate": count / (_CLOCK.monotonic_s() - begin)})


def watch(root: str, topic: str, partitions: str, records: str) -> None:
    """Watch committed from outside; answer how old each record was when it became readable.

    The rows are read afterwards: what is measured is the way, not this process's own reading,
    which would take the processors from those that are on it. A record's age counts from its
    timestamp, which the producer set when it was asked to send; of whole milliseconds, so that
    ages are too high by half of one.
    """
    await_shards(root, topic, int(partitions))
    reader = StreamReader.open(root, topic)
    begin = reader.committed()
    answer({"ready": 1.0})
    looks: dict[int, list[tuple[int, int]]] = {shard: [] for shard in begin}
    ends, goal = dict(begin), sum(begin.values()) + int(records)
    while sum(ends.values()) < goal:
        found, now_ns = reader.committed(), _CLOCK.now_ns()
        for shard, end in found.items():
            if end > ends[shard]:
                looks[shard].append((end, now_ns))
                ends[shard] = end
        _CLOCK.sleep(_WATCH_S)
    reader.refresh()
    sent_ms, ages_s = [], []
    for shard, seen in looks.items():
        bounds, times_ns = (np.array(column) for column in zip(*seen, strict=True))
        for batch in reader.tail(shard, begin[shard], columns=["address", "primary"]):
            at = bounds.searchsorted(batch.column("address").to_numpy(), side="right")
            sent_ms.append(batch.column("primary").to_numpy())
            ages_s.append(times_ns[at] / 1e9 - sent_ms[-1] / 1e3)
    sent, ages = np.concatenate(sent_ms), np.concatenate(ages_s)
    # Until then all sides wait for connections and run cold code.
    settled = ages[sent >= sent.min() + _SETTLE_MS]
    p50, p99 = np.quantile(settled, [0.5, 0.99]).tolist()
    answer({"p50": p50, "p99": p99, "max": float(settled.max())})


TASKS: Final[dict[str, Callable[..., None]]] = {
    "produce": produce,
    "bare": bare_loop,
    "ingest": ingest,
    "pace": pace,
    "watch": watch,
}

if __name__ == "__main__":
    TASKS[sys.argv[1]](*sys.argv[2:])

"""Goal: rows become parts beside ingestion, and killing the worker meanwhile costs none of them.

Method: workers that seal, join and trim all the time are killed while a producer writes, and so are
the processes that make parts for them; another worker that waits takes over. In the end broker and
shards are compared record by record, by every read, and each sealed row is found in one part.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage_core import Stream
from storage_core.sql.sql import batches_of
from tests.broker.lab import Lab, Topic, WorkerProcess
from tests.faults.campaign import campaigns
from tests.waiting import await_that

RECORDS = 6000
EVERY_S = 0.05


def sealing_soon(lab: Lab, topic: Topic) -> None:
    """Let a worker make the topic's stream, and its shards seal twenty rows and trim them."""
    worker = lab.worker(topic)
    worker.await_event("owned", len(topic.partitions()))
    assert worker.stop() == 0
    with Stream.open(lab.root, topic.name) as stream:
        stream.alter(seal_rows=20, keep_hot=timedelta(milliseconds=1))


def makers_of(worker: WorkerProcess) -> list[int]:
    """Return the processes that make parts for a worker."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{worker.process.pid}/task").iterdir():
            with suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def await_turn(worker: WorkerProcess) -> None:
    """Wait until a worker has done something of what is due in parts."""
    await_that(lambda: bool(worker.events("maintained")), "a turn of maintenance")


def await_join(lab: Lab, topic: Topic, worker: WorkerProcess) -> None:
    """Produce a little at a time, each to be a part of its own, until a worker has joined some."""

    def has_joined() -> bool:
        lab.produce(topic, 100)
        return any(turn["compacted"] for turn in worker.events("maintained"))

    await_that(has_joined, "parts that are joined")


@contextmanager
def makers_dying(worker: WorkerProcess, seed: int) -> Iterator[None]:
    """Kill the processes that make parts for a worker, again and again at random moments."""
    chance, is_over = np.random.default_rng(seed), threading.Event()

    def kill_again_and_again() -> None:
        while not is_over.wait(float(chance.random())):
            for process_id in makers_of(worker):
                with suppress(ProcessLookupError):
                    os.kill(process_id, signal.SIGKILL)

    killing = threading.Thread(target=kill_again_and_again)
    killing.start()
    try:
        yield
    finally:
        is_over.set()
        killing.join()


@pytest.mark.parametrize("kills", campaigns("SHARDLOG_BROKER_KILLS", 2))
def test_worker_killed_while_it_seals_loses_and_doubles_nothing(lab: Lab, kills: int) -> None:
    topic = lab.topic(partitions=2)
    sealing_soon(lab, topic)
    with lab.producing(topic, RECORDS):
        for number in range(kills):
            worker = lab.doomed(topic, maintain_every_s=EVERY_S)
            lab.await_committed(topic, (number + 1) * RECORDS // (kills + 2))
            worker.kill()
        worker = lab.worker(topic, maintain_every_s=EVERY_S)
        await_turn(worker)
    await_join(lab, topic, worker)
    lab.expect_ledger(topic)
    assert worker.events("maintenance failed") == []
    assert worker.stop() == 0
    expect_each_row_in_one_part(lab, topic)


@pytest.mark.parametrize("kills", campaigns("SHARDLOG_BROKER_KILLS", 2))
def test_makers_of_parts_killed_beside_their_workers_cost_nothing(lab: Lab, kills: int) -> None:
    topic = lab.topic(partitions=2)
    sealing_soon(lab, topic)
    with lab.producing(topic, RECORDS):
        for number in range(kills):
            worker = lab.doomed(topic, maintain_every_s=EVERY_S)
            with makers_dying(worker, seed=number):
                lab.await_committed(topic, (number + 1) * RECORDS // (kills + 2))
                worker.kill()
        worker = lab.worker(topic, maintain_every_s=EVERY_S)
        await_turn(worker)
        (maker,) = makers_of(worker)
    lab.expect_ledger(topic)
    assert worker.stop() == 0
    await_that(lambda: not Path(f"/proc/{maker}").exists(), "the end of the maker")
    expect_each_row_in_one_part(lab, topic)


@pytest.mark.parametrize("kills", campaigns("SHARDLOG_BROKER_KILLS", 2))
def test_worker_that_waits_takes_over_from_one_killed_in_its_maintenance(
    lab: Lab, kills: int
) -> None:
    topic = lab.topic(partitions=2)
    sealing_soon(lab, topic)
    with lab.producing(topic, RECORDS):
        worker = lab.doomed(topic, maintain_every_s=EVERY_S)
        for number in range(kills):
            heir = lab.doomed(topic, maintain_every_s=EVERY_S)
            lab.await_committed(topic, (number + 1) * RECORDS // (kills + 2))
            for process_id in makers_of(worker):
                with suppress(ProcessLookupError):
                    os.kill(process_id, signal.SIGKILL)
            worker.kill()
            worker = heir
        # All may be stored before it stands; a signal would end it by itself then.
        worker.await_event("owned", 2)
    lab.expect_ledger(topic)
    assert worker.stop() == 0
    expect_each_row_in_one_part(lab, topic)


def expect_each_row_in_one_part(lab: Lab, topic: Topic) -> None:
    """Find each row in one part and by every read, once nothing else works on them."""
    with Stream.open(lab.root, topic.name) as stream:
        stream.seal()
        parts, committed = stream.parts(), stream.committed()
        assert stream.verify().problems == ()
        expect_every_read(lab, topic, stream)
        stream.trim()
        expect_every_read(lab, topic, stream)
    for shard, end in committed.items():
        tables = [pq.read_table(part.path) for part in parts if part.shard == shard]
        addresses = np.concatenate([table.column("address").to_numpy() for table in tables])
        assert np.array_equal(np.sort(addresses), np.arange(end))


def expect_every_read(lab: Lab, topic: Topic, stream: Stream) -> None:
    """Find what the partitions hold by read, scan and SQL; the ledger has asked tail."""
    held = {
        (shard, offset): value
        for shard, rows in topic.holds().items()
        for offset, _, value, _ in rows
    }
    columns = ["shard", "address", "payload"]
    scanned = pa.Table.from_batches(list(stream.scan(columns=columns)))
    _, batches = batches_of(lab.root, f'SELECT shard, address FROM "{topic.name}"')
    for rows in (scanned, stream.read(columns=columns)):
        found = {(row["shard"], row["address"]): row["payload"] for row in rows.to_pylist()}
        assert (len(rows), found) == (len(held), held)
    asked = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    assert sorted(asked) == sorted(held)

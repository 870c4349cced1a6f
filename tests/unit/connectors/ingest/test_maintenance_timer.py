"""A worker makes parts of rows that have waited: in its time, beside its rounds, if it keeps up."""

from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from structlog.testing import CapturingLogger

from connectors.ingest.maintenance_timer import MaintenanceTimer
from connectors.ingest.status.counts import WorkerCounts
from connectors.kafka import Partition
from storage_core import DirectoryLock
from tests.log.workbench import batch_of
from tests.unit.connectors.writers import TOPIC, open_writers
from tests.waiting import WAIT_MAX_S

A, B = Partition(TOPIC, 0), Partition(TOPIC, 1)
EVERY_S = 60.0
LAG_MAX = 100
# Two million rows are sealed by a process that gives way to all others.
SETTLE_MAX_S = 5 * WAIT_MAX_S


@pytest.fixture
def writers(tmp_path):
    """Two shards that seal five rows, each with five."""
    with open_writers(tmp_path, 2) as writers:
        for writer in writers.values():
            writer.stream.alter(seal_rows=5)
            number = writer.partition.number
            writer.stream.append_batch(batch_of(range(5)), shard=number, addresses=range(5))
            writer.commit()
        yield writers


class Timed:
    """A timer, what it knows of Kafka, and what it has told."""

    def __init__(self, root: Any, every_s: float = EVERY_S) -> None:
        self.counts, self.log = WorkerCounts(), CapturingLogger()
        self.timer = MaintenanceTimer(root, every_s, LAG_MAX, self.counts, self.log)
        self.ends = {A: 5, B: 5}

    def tick(self, writers: Any, now_s: float) -> None:
        self.timer.tick(writers, lambda _: self.ends, now_s)

    def logged(self) -> list[tuple[str, int]]:
        self.timer.settle(SETTLE_MAX_S)
        return [(call.args[0], call.kwargs["shard"]) for call in self.log.calls]


@pytest.fixture
def timed(tmp_path):
    timed = Timed(tmp_path)
    yield timed
    timed.timer.close(SETTLE_MAX_S)


def test_turn_comes_once_its_time_is_over_and_seals_what_is_due(writers, timed):
    timed.tick(writers, 5.0)
    timed.tick(writers, 5.0 + EVERY_S - 0.1)
    assert timed.logged() == []
    timed.tick(writers, 5.0 + EVERY_S)
    assert timed.logged() == [("maintained", 0), ("maintained", 1)]
    assert (timed.counts.sealed, timed.counts.compacted) == (10, 0)
    assert (
        sum(part.entry.rows for writer in writers.values() for part in writer.stream.parts()) == 10
    )
    # Where nothing is due nothing is told.
    timed.tick(writers, 5.0 + 2 * EVERY_S)
    assert len(timed.logged()) == 2


def test_it_never_comes_where_it_is_set_to_0(writers, tmp_path):
    timed = Timed(tmp_path, every_s=0)
    for now_s in (0.0, 1e9):
        timed.tick(writers, now_s)
    assert timed.logged() == []


def test_turn_is_skipped_while_the_worker_falls_behind(writers, timed):
    timed.ends = {A: 1_000_005, B: 5}
    timed.tick(writers, 0.0)
    timed.tick(writers, EVERY_S)
    assert len(timed.logged()) == 2
    timed.ends = {A: 2_000_005, B: 5}
    timed.tick(writers, 2 * EVERY_S)
    assert not timed.timer.is_under_way
    assert timed.counts.maintenance_skipped == 1
    # It has many to fetch, but fewer than before.
    timed.ends = {A: 1_900_005, B: 5}
    timed.tick(writers, 3 * EVERY_S)
    assert timed.counts.maintenance_skipped == 1


def test_turn_is_not_skipped_for_rows_that_the_lake_has_waited_for_too_long(writers, timed):
    timed.tick(writers, 0.0)
    timed.tick(writers, EVERY_S)
    assert len(timed.logged()) == 2
    for number, writer in enumerate(writers.values()):
        rows = range(5, 10)
        writer.stream.append_batch(batch_of(rows), shard=number, addresses=rows)
        writer.commit()
    timed.ends = {A: 1_000_005, B: 5}
    timed.timer.tick(writers, lambda _: timed.ends, 2 * EVERY_S, lambda at, _: at == B)
    assert timed.logged()[2:] == [("maintained", 1)]
    assert timed.counts.maintenance_skipped == 1


def test_turns_come_as_often_as_rows_are_to_be_in_the_lake(writers, timed):
    for writer in writers.values():
        writer.stream.alter(lake="s3://bucket/orders", lake_lag=timedelta(seconds=2))
    timed.tick(writers, 0.0)
    timed.tick(writers, 2.0)
    assert timed.logged() == [("maintained", 0), ("maintained", 1)]


def test_turn_that_leaves_more_than_it_sealed_is_followed_by_another_at_once(writers, timed):
    rows = 2_100_000
    columns: dict[str, Any] = {
        "primary": np.arange(5, rows),
        "secondary": np.zeros(rows - 5, np.int32),
        "payload": pa.nulls(rows - 5, pa.binary()),
    }
    stream = writers[A].stream
    stream.append_batch(pa.RecordBatch.from_pydict(columns), shard=0, addresses=range(5, rows))
    writers[A].commit()
    timed.tick(writers, 0.0)
    timed.tick(writers, EVERY_S)
    assert timed.logged() == [("maintained", 0), ("maintained", 1)]
    assert rows / 2 < stream.unsealed()[0] < rows
    timed.tick(writers, EVERY_S + 0.1)
    assert timed.logged()[2:] == [("maintained", 0)]
    assert 0 < stream.unsealed()[0] < rows / 2
    # What is left is for the next one in its time.
    timed.tick(writers, EVERY_S + 0.2)
    assert not timed.timer.is_under_way


def test_small_lag_that_grows_holds_nothing_up(writers, timed):
    for turn in range(3):
        timed.ends = {A: 5 + 40 * turn, B: 5}
        timed.tick(writers, turn * EVERY_S)
        timed.logged()
    assert timed.counts.maintenance_skipped == 0


def test_one_process_at_a_time_is_at_it_in_a_root(writers, timed, tmp_path):
    place = tmp_path / "~maintained"
    place.mkdir()
    lock = DirectoryLock.if_free(place)
    assert lock is not None
    with lock:
        timed.tick(writers, 0.0)
        timed.tick(writers, EVERY_S)
        assert timed.logged() == []
    assert timed.counts.maintenance_skipped == 2
    timed.tick(writers, 2 * EVERY_S)
    assert len(timed.logged()) == 2


def test_failure_of_one_shard_is_told_and_the_others_go_on(writers, timed):
    writers[A].stream._shards[0].guard.fail(OSError("no space left"))
    timed.tick(writers, 0.0)
    timed.tick(writers, EVERY_S)
    assert timed.logged() == [("maintenance failed", 0), ("maintained", 1)]


def test_failure_that_stays_is_told_at_once_and_then_every_ten_minutes(writers, timed):
    writers[A].stream._shards[0].guard.fail(OSError("no space left"))
    for turn in range(12):
        timed.tick(writers, turn * EVERY_S)
        timed.timer.settle(SETTLE_MAX_S)
    lines = [call.kwargs for call in timed.log.calls if call.args[0] == "maintenance failed"]
    assert [(line["shard"], line.get("times")) for line in lines] == [(0, None), (0, 10)]
    assert timed.counts.maintenance_failed == 11

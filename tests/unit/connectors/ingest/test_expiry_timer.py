"""A worker lets what it no longer keeps expire: in its time, beside its rounds, shard by shard."""

from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import CapturingLogger

from connectors.ingest.expiry_timer import ExpiryTimer
from connectors.ingest.status.counts import WorkerCounts
from connectors.kafka import Partition
from tests.log.workbench import batch_of
from tests.unit.connectors.workers import Door
from tests.unit.connectors.writers import TOPIC, open_writers
from tests.waiting import WAIT_MAX_S

A, B = Partition(TOPIC, 0), Partition(TOPIC, 1)
EVERY_S = 60.0
OLD, RECENT = 1_000, 4_000_000_000_000


@pytest.fixture
def writers(tmp_path):
    """Two shards that keep a week, each with three rows of which two are older."""
    with open_writers(tmp_path, 2) as writers:
        for writer in writers.values():
            writer.stream.alter(retention=timedelta(days=7), ahead_max=2**62)
            writer.stream.append_batch(
                batch_of([OLD, OLD + 1]), shard=writer.partition.number, addresses=[0, 1]
            )
            writer.stream.append_batch(
                batch_of([RECENT]), shard=writer.partition.number, addresses=[2]
            )
            writer.commit()
        yield writers


class BackgroundPasses:
    """A timer, and what it has told."""

    def __init__(self, every_s: float = EVERY_S) -> None:
        self.counts, self.log = WorkerCounts(), CapturingLogger()
        self.timer = ExpiryTimer(every_s, self.counts, self.log)

    def tick(self, writers: Any, now_s: float) -> None:
        self.timer.tick(writers, now_s)

    def told(self) -> list[tuple[str, int]]:
        self.timer.settle(WAIT_MAX_S)
        return [(call.args[0], call.kwargs["shard"]) for call in self.log.calls]


def test_turn_comes_once_its_time_is_over_and_not_before(writers):
    turns = BackgroundPasses()
    turns.tick(writers, 5.0)
    turns.tick(writers, 5.0 + EVERY_S - 0.1)
    assert turns.told() == []
    turns.tick(writers, 5.0 + EVERY_S)
    assert turns.told() == [("expired", 0), ("expired", 1)]
    assert turns.counts.expired == 4
    assert [writer.stream.read().num_rows for writer in writers.values()] == [1, 1]
    assert turns.log.calls[0].kwargs["rows"] == 2


def test_turn_that_finds_nothing_tells_nothing(writers):
    turns = BackgroundPasses()
    for at in range(3):
        turns.tick(writers, at * EVERY_S)
        turns.timer.settle(WAIT_MAX_S)
    assert len(turns.told()) == 2


def test_it_never_comes_where_it_is_set_to_0(writers):
    turns = BackgroundPasses(every_s=0)
    for now_s in (0.0, 1e9):
        turns.tick(writers, now_s)
    assert not turns.timer.is_under_way
    assert turns.told() == []


def test_stream_that_keeps_all_is_not_asked(writers):
    turns = BackgroundPasses()
    for writer in writers.values():
        writer.stream.alter(retention=None)
    turns.tick(writers, 0.0)
    turns.tick(writers, EVERY_S)
    assert not turns.timer.is_under_way


def test_one_turn_at_a_time_and_the_worker_goes_on_beside_it(writers):
    turns, door = BackgroundPasses(), Door()
    expire = writers[A].stream.expire

    def wait_and_expire() -> Any:
        door.pass_through()
        return expire()

    writers[A].stream.expire = wait_and_expire
    turns.tick(writers, 0.0)
    turns.tick(writers, EVERY_S)
    door.await_comer()
    for later in range(2, 5):
        turns.tick(writers, later * EVERY_S)
    assert writers[B].commit() == 3
    door.open()
    assert turns.told() == [("expired", 0), ("expired", 1)]


def test_failure_of_one_shard_is_told_and_the_others_go_on(writers):
    turns = BackgroundPasses()
    writers[A].stream._shards[0].guard.fail(OSError("no space left"))
    turns.tick(writers, 0.0)
    turns.tick(writers, EVERY_S)
    assert turns.told() == [("expiry failed", 0), ("expired", 1)]
    assert "no space left" in turns.log.calls[0].kwargs["reason"]


def test_shard_that_is_closed_meanwhile_is_let_be(writers):
    turns = BackgroundPasses()
    writers[A].stream.close()
    turns.tick(writers, 0.0)
    turns.tick(writers, EVERY_S)
    assert turns.told() == [("expired", 1)]

"""A round is appended beside the fetching of the next; whoever moves a shard waits for it."""

import os
import subprocess
import sys
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from connectors.cli.exit_codes import EXIT_UNAVAILABLE
from connectors.ingest import worker as loop
from connectors.ingest.assignment.group_offsets import GroupOffsets
from connectors.ingest.commit_round import RoundInFlight, RoundReport
from connectors.ingest.pending_batch import PendingBatch
from connectors.kafka import Partition, Place
from connectors.kafka.python_fetch import fetch_results_of
from connectors.kafka.translate import fault_of
from storage_core import (
    ClosedError,
    ShardLockedError,
    ShardPoisonedError,
    Stream,
    StreamReader,
    UnavailableError,
)
from tests.unit.connectors.records import denial, record, refusal
from tests.unit.connectors.workers import AllAreRight, ScriptedStream, gather, held_up, open_worker
from tests.unit.connectors.writers import TOPIC, ScriptedOpening
from tests.unit.forks import in_fork
from tests.waiting import WAIT_MAX_S

A, B = Partition(TOPIC, 0), Partition(TOPIC, 1)


@pytest.fixture
def worker(tmp_path):
    identities: Any = AllAreRight()
    with open_worker(tmp_path) as opened:
        opened._rounds._identities = identities
        yield opened


@pytest.fixture
def hasty(worker):
    """A worker that waits for no round."""
    worker._rounds._wait_s = 0.01
    return worker


def begin(worker, *messages):
    """Gather records and begin a round of them."""
    gather(worker, list(messages))
    worker._rounds._begin(worker._assignment.writers, {})


def committed(root):
    with StreamReader.open(root, TOPIC) as reader:
        return reader.committed()


def open_soon(door):
    """Open a door from another thread, once somebody stands before it."""

    def run():
        door.await_comer()
        door.open()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def ended_hanging(rounds):
    rounds.end(0.0)
    return rounds.is_left_hanging


# --- beside each other ------------------------------------------------------------------------


def test_records_gather_while_a_shard_is_appended_to(worker, tmp_path):
    with held_up(worker, A) as door:
        begin(worker, record(0))
        door.await_comer()
        gather(worker, [record(1), record(0, partition=1)])
        worker._rounds.conclude_if_done()
        assert (worker._pending.count, committed(tmp_path)) == (2, {0: 0, 1: 0})
        door.open()
        worker._rounds.flush(worker._assignment.writers)
    assert committed(tmp_path) == {0: 2, 1: 1}


class Backlog:
    """A consumer that brings two records with each call, and whose group is told nothing."""

    def fetch(self, _records_max, _wait_s):
        return fetch_results_of([record(1), record(2)])

    def take_group_answer(self):
        return None

    def commit_group(self, _places, *, is_last):
        pass


def test_round_that_fetching_waited_for_is_followed_at_once(worker, monkeypatch):
    backlog: Any = Backlog()
    monkeypatch.setattr(worker, "_consumer", backlog)
    worker._group = GroupOffsets(backlog)
    worker._pending = worker._rounds._pending = worker._intake._pending = PendingBatch(
        worker.counts, 1, 2**20
    )
    with held_up(worker, A) as door:
        begin(worker, record(0))
        opened = open_soon(door)
        worker._step()
        opened.join()
    assert (worker.counts.appended, worker._pending.count) == (1, 0)
    worker._rounds.settle()
    assert worker.counts.appended == 3


def test_shard_with_few_records_is_committed_though_a_larger_one_hangs(worker, tmp_path):
    with held_up(worker, A) as door:
        begin(worker, *(record(offset) for offset in range(9)), record(0, partition=1))
        door.await_comer()
        # Its commit was begun before, and the worker's closing waits for it.
        worker._assignment.writers[B].stream.commit()
        assert committed(tmp_path) == {0: 0, 1: 1}


def test_feed_moves_once_its_round_is_acknowledged_and_not_before(worker, tmp_path):
    writer = worker._assignment.writers[A]
    writer.move(Place(0, 7))
    begin(worker, record(0), record(1))
    assert worker._rounds.in_flight.is_done(60)
    assert (committed(tmp_path)[0], writer.place) == (2, Place(0, 7))
    worker._rounds.settle()
    assert writer.place == Place(2, None)


def test_feed_whose_rows_are_not_durable_keeps_its_epoch_too(worker):
    writer = worker._assignment.writers[A]
    writer.move(Place(0, 7))
    writer.stream = ScriptedStream(writer.stream, failure=UnavailableError("busy"))
    begin(worker, record(0))
    worker._rounds.settle()
    assert writer.place == Place(0, 7)


def test_what_moves_while_a_round_is_under_way_is_none_of_its(worker, tmp_path):
    with held_up(worker, A) as door:
        begin(worker, record(0))
        writer = worker._assignment.writers.pop(A)
        door.open()
        worker._rounds.settle()
    assert (committed(tmp_path)[0], writer.next) == (1, 1)
    worker._assignment.writers[A] = writer


# --- what waits for the round -----------------------------------------------------------------


def test_revocation_waits_for_the_append_that_is_under_way(worker, tmp_path):
    with held_up(worker, A) as door:
        begin(worker, record(0))
        gather(worker, [record(1)])
        # Nothing is left to tell the group, which would not answer.
        worker._group._committed.update({A: 2, B: 0})
        thread = open_soon(door)
        worker._rebalance.revoked([A])
        thread.join()
    assert committed(tmp_path)[0] == 2
    assert list(worker._assignment.writers) == [B]
    Stream.open(tmp_path, TOPIC, shards=[0]).close()


def test_loss_waits_for_the_append_and_drops_what_has_gathered_since(worker, tmp_path):
    with held_up(worker, A) as door:
        begin(worker, record(0))
        gather(worker, [record(1)])
        thread = open_soon(door)
        worker._rebalance.lost([A])
        thread.join()
    assert committed(tmp_path)[0] == 1
    assert worker.counts.discarded == 1


def test_partitions_that_come_wait_for_the_append_that_is_under_way(worker):
    with held_up(worker, A) as door:
        begin(worker, record(0))
        thread = open_soon(door)
        worker._rebalance.assigned([])
        thread.join()
        assert worker._rounds.in_flight is None


def test_fault_is_acted_on_behind_the_append_that_is_under_way(worker, tmp_path):
    with held_up(worker, A) as door:
        begin(worker, record(0))
        thread = open_soon(door)
        worker._intake.act_on(fault_of(denial()), 0.0)
        thread.join()
    assert committed(tmp_path)[0] == 1
    assert list(worker._assignment.writers) == [B]


@pytest.mark.parametrize("act", ["assigned", "revoked", "lost"])
def test_append_that_hangs_is_waited_for_in_bounded_time(hasty, act):
    with held_up(hasty, A) as door:
        begin(hasty, record(0))
        door.await_comer()
        with pytest.raises(UnavailableError, match="a sync takes longer"):
            getattr(hasty._rebalance, act)([A])
        # What happens to it is the worker's end, which goes on from here.
        assert list(hasty._assignment.writers) == [A, B]


def test_stop_is_bounded_while_an_append_hangs_and_its_shards_stay_locked(
    hasty, tmp_path, monkeypatch
):
    monkeypatch.setattr(loop, "_UNPOLLED_MAX_S", 0.0)
    with held_up(hasty, A) as door:
        begin(hasty, record(0))
        door.await_comer()
        hasty.stop()
        with pytest.raises(UnavailableError, match="a sync takes longer"):
            hasty._finish()
        hasty._leave()
        assert hasty.is_left_hanging
        # Whatever the append still does, nobody else goes on in its shard meanwhile.
        with pytest.raises(ShardLockedError):
            Stream.open(tmp_path, TOPIC, shards=[0])


class TakenBack:
    """A group that takes all back while it is left."""

    def __init__(self, worker):
        self._worker = worker

    def unassign(self, partitions):
        assert partitions == [A, B]

    def close(self, _wait_s):
        self._worker._rebalance.revoked([A, B])
        return True


def test_round_that_hangs_is_not_waited_for_again_while_the_group_is_left(hasty, monkeypatch):
    monkeypatch.setattr(loop, "_UNPOLLED_MAX_S", 0.0)
    with held_up(hasty, A) as door:
        begin(hasty, record(0))
        door.await_comer()
        monkeypatch.setattr(hasty, "_consumer", TakenBack(hasty))
        hasty._leave()
        assert hasty.is_left_hanging
        assert list(hasty._assignment.writers) == [A, B]


STOPPED_WHILE_AN_APPEND_HANGS = """
import sys, threading
from pathlib import Path
from connectors.cli.commands.worker import end, run_to_its_end
from connectors.ingest import worker as loop
from tests.unit.connectors import workers
from tests.unit.connectors.records import record

loop._UNPOLLED_MAX_S = 0.0
with workers.open_worker(Path(sys.argv[1])) as worker:
    worker._rounds._identities, worker._rounds._wait_s = workers.AllAreRight(), 0.01
    writer, door = next(iter(worker._assignment.writers.values())), workers.Door(wait_s=None)
    writer.stream = workers.ScriptedStream(writer.stream, door)
    workers.gather(worker, [record(0)])
    worker._rounds._begin(worker._assignment.writers, {})
    door.await_comer()
    worker.stop()
    end(run_to_its_end(worker, worker._log), worker)
"""


def test_process_ends_with_its_exit_code_though_an_append_hangs_for_ever(tmp_path):
    command = [sys.executable, "-c", STOPPED_WHILE_AN_APPEND_HANGS, os.fspath(tmp_path)]
    assert subprocess.run(command, check=False, timeout=WAIT_MAX_S).returncode == EXIT_UNAVAILABLE


def test_stop_is_heard_while_an_append_hangs(worker, monkeypatch):
    monkeypatch.setattr(loop, "_UNPOLLED_MAX_S", 0.0)
    with held_up(worker, A) as door:
        begin(worker, record(0))
        door.await_comer()
        worker.stop()
        worker._hold_back()
        assert worker._rounds.in_flight is not None


def test_what_gathers_beside_an_append_is_bounded(worker, monkeypatch):
    monkeypatch.setattr(loop, "_UNPOLLED_MAX_S", 0.0)
    held = []
    with held_up(worker, A) as door:
        begin(worker, record(0))
        door.await_comer()
        thread = open_soon(door)
        worker._hold_back()
        held.append(worker._rounds.in_flight)
        thread.join()
    assert held == [None]


# --- how far a flush goes ---------------------------------------------------------------------


class Ahead:
    """A consumer inside a callback: it has handed out more than `fetch` has returned."""

    def positions(self, _partitions):
        return {A: 9, B: 9}


def test_flush_moves_no_shard_past_what_was_gathered(worker, tmp_path):
    worker._rounds._consumer = Ahead()
    gather(worker, [record(0)])
    worker._rounds.flush(worker._assignment.writers)
    assert committed(tmp_path) == {0: 1, 1: 0}


def test_what_stands_before_a_refused_offset_is_stored_before_its_shard_is_opened_anew(
    worker, tmp_path
):
    # Kafka may not have it any more when it is asked again.
    worker._assignment._opening = ScriptedOpening(tmp_path)
    gather(worker, [record(0), refusal(1)])
    assert committed(tmp_path) == {0: 1, 1: 0}
    assert worker._assignment._opening.requested == [A]


# --- what fails -------------------------------------------------------------------------------


def test_shard_that_a_round_poisons_is_reopened_and_its_neighbours_move(worker, tmp_path):
    writer = worker._assignment.writers[A]
    writer.stream = ScriptedStream(writer.stream, failure=ShardPoisonedError("full"))
    begin(worker, record(0), record(0, partition=1))
    worker._rounds.settle()
    assert (list(worker._assignment.writers), worker._assignment.waiting_count) == ([B], 1)
    assert committed(tmp_path)[1] == 1


class Surprise:
    """Asking fails as nobody has thought of."""

    def ask(self, _expected):
        message = "a fault of our own"
        raise AssertionError(message)


def test_what_breaks_a_round_off_is_told_when_it_is_over(worker):
    worker._rounds._identities = Surprise()
    begin(worker, record(0))
    with pytest.raises(AssertionError, match="of our own"):
        worker._rounds.settle()
    assert worker._rounds.in_flight is None


class Interrupted:
    """A round of which the first wait is cut short, as by Ctrl-C; else as it is."""

    def __init__(self, round_):
        self._round, self._is_cut = round_, False

    def is_done(self, wait_s=0.0):
        if not self._is_cut:
            self._is_cut = True
            raise KeyboardInterrupt
        return self._round.is_done(wait_s)

    def acknowledge(self):
        return self._round.acknowledge()


def test_interrupted_wait_leaves_the_round_to_be_waited_for_again(worker, tmp_path):
    with held_up(worker, A) as door:
        begin(worker, record(0))
        door.await_comer()
        worker._rounds.in_flight = Interrupted(worker._rounds.in_flight)
        with pytest.raises(KeyboardInterrupt):
            worker._rounds.settle()
        door.open()
        worker._rounds.settle()
    assert committed(tmp_path)[0] == 1
    assert worker._assignment.writers[A].next == 1


def test_fork_beside_an_append_changes_nothing(worker, tmp_path):
    with held_up(worker, A) as door:
        begin(worker, record(0))
        door.await_comer()
        assert isinstance(in_fork(worker._assignment.writers[B].stream.commit), ClosedError)
        assert in_fork(lambda: ended_hanging(worker._rounds)) is True
        door.open()
        worker._rounds.settle()
    assert committed(tmp_path)[0] == 1


def test_round_that_is_over_is_known_without_waiting():
    outcome: Future[RoundReport] = Future()
    round_ = RoundInFlight(outcome, {})
    assert not round_.is_done()
    outcome.set_result(RoundReport(3))
    assert round_.is_done()
    assert round_.acknowledge().records == 3

"""What a worker holds: partitions come, wait, go back and go; no broker answers here."""

from typing import Any

import pytest
from structlog.testing import CapturingLogger

from connectors.group.pauses import Pause, Pauses, PauseWatch
from connectors.group.quarantine_notes import WHOLE_TOPIC, QuarantineNote, QuarantineNotes
from connectors.ingest.assignment.assignment import Assignment
from connectors.ingest.assignment.group_offsets import GroupOffsets
from connectors.ingest.assignment.operator_requests import OperatorRequests
from connectors.ingest.assignment.quarantine import Quarantine
from connectors.ingest.lake.lake_shards import BeginningShardError
from connectors.ingest.pending_batch import PendingBatch
from connectors.ingest.status.counts import WorkerCounts
from connectors.kafka import Consumer, Partition
from connectors.settings.options import FaultSettings
from storage_core import (
    BrokerUnavailableError,
    CorruptionError,
    ForeignDataError,
    InvalidRequestError,
    ShardLockedError,
    ShardPoisonedError,
    UnavailableError,
)
from storage_core.testing import ManualClock
from tests.unit.connectors.records import fetched_of, record
from tests.unit.connectors.writers import NOWHERE, TOPIC, ScriptedOpening, make_stream

A, B, C = (Partition(TOPIC, number) for number in range(3))


class Bench:
    """Assignment with all that they concern."""

    def __init__(self, root, on_fault="quarantine"):
        make_stream(root, 3)
        settings = {"bootstrap.servers": NOWHERE, "group.id": "any"}
        self.clock, self.log, self.consumer = ManualClock(), CapturingLogger(), Consumer(settings)
        self.opening = ScriptedOpening(root)
        self.pending = PendingBatch(WorkerCounts(), 100, 2**20)
        opening: Any = self.opening
        self.notes = QuarantineNotes(root)
        settings_of_faults = FaultSettings.model_validate(on_fault)
        self.quarantine = Quarantine(
            settings_of_faults, self.notes, lambda _: 1, self.clock, self.log
        )
        pauses = PauseWatch(root)
        self.assignment = Assignment(
            self.consumer,
            opening,
            self.pending,
            self.quarantine,
            pauses,
            10.0,
            self.clock,
            self.log,
            lambda: None,
        )
        group = GroupOffsets(self.consumer)
        self.requests = OperatorRequests(
            root, pauses, self.assignment, self.quarantine, group, self.clock
        )

    def close(self):
        self.assignment.close_all()
        self.consumer.close()

    def said(self, event):
        lines = [call.kwargs for call in self.log.calls if call.args == (event,)]
        return [line.get("shard", line.get("shards")) for line in lines]

    def takes(self, seconds):
        """Let the opening of a shard take so long."""

        def pass_by():
            self.clock.elapsed_s += seconds

        self.opening.meanwhile = pass_by

    def pause(self, *partitions):
        self.assignment.pause({at: Pause(at.topic, at.number, 0) for at in partitions})

    def try_waiting(self, after_s):
        self.opening.requested.clear()
        self.clock.elapsed_s += after_s
        self.assignment.try_waiting(self.clock.elapsed_s)
        return self.opening.requested


@pytest.fixture
def root(tmp_path):
    return tmp_path


@pytest.fixture
def bench(root):
    made = Bench(root)
    yield made
    made.close()


@pytest.fixture
def strict(tmp_path):
    """A bench on which every fault stops the worker."""
    made = Bench(tmp_path, "stop")
    yield made
    made.close()


def silent():
    return BrokerUnavailableError("no answer")


def test_silent_broker_is_asked_once_and_the_rest_wait(bench):
    bench.opening.refusals = {B: silent(), C: silent()}
    bench.assignment.take([A, B, C])
    assert bench.opening.requested == [A, B]
    assert (bench.said("partition opened"), bench.said("waiting for shard")) == ([0], [1, 2])


def test_shard_that_another_holds_keeps_no_neighbour_waiting(bench):
    bench.opening.refusals = {A: ShardLockedError("held")}
    bench.assignment.take([A, B])
    assert (bench.said("partition opened"), bench.said("waiting for shard")) == ([1], [0])


def test_broker_still_silent_is_asked_about_one_partition_a_turn(bench):
    bench.opening.refusals = dict.fromkeys((A, B), silent())
    bench.assignment.take([A, B])
    assert bench.try_waiting(1) == [A]
    assert bench.try_waiting(0) == [B]
    assert bench.try_waiting(0) == []


def test_partitions_that_waited_for_the_broker_are_opened_when_it_answers(bench):
    bench.opening.refusals = dict.fromkeys((A, B), silent())
    bench.assignment.take([A, B])
    bench.opening.refusals = {}
    assert bench.try_waiting(1) == [A, B]
    assert bench.said("partition opened") == [0, 1]


@pytest.mark.parametrize("error", [silent(), ShardLockedError("held"), UnavailableError("full")])
def test_partition_waits_for_its_shard_for_a_bounded_time(bench, error):
    bench.opening.refusals = {A: error}
    bench.assignment.take([A, B])
    bench.try_waiting(9.9)
    assert bench.said("quarantined") == []
    bench.try_waiting(0.5)
    assert bench.quarantine.oldest is error
    assert list(bench.assignment.writers) == [B]


def test_partition_that_waited_too_long_stops_the_worker_where_that_is_wanted(strict):
    strict.opening.refusals = {A: ShardLockedError("held")}
    strict.assignment.take([A])
    with pytest.raises(ShardLockedError):
        strict.try_waiting(10.1)


def test_shard_that_is_beginning_from_the_lake_is_waited_for_without_a_line(bench):
    bench.opening.refusals = {A: BeginningShardError("from the lake")}
    bench.assignment.take([A])
    bench.try_waiting(0)
    bench.try_waiting(5)
    assert (bench.said("waiting for shard"), bench.said("quarantined")) == ([], [])
    bench.opening.refusals = {A: UnavailableError("no answer")}
    bench.try_waiting(1)
    assert bench.said("waiting for shard") == [0]
    bench.opening.refusals = {}
    assert bench.try_waiting(1) == [A]
    assert bench.said("partition opened") == [0]


def test_fault_of_a_topic_is_told_once_of_all_its_partitions_that_wait(bench):
    bench.opening.refusals = dict.fromkeys((A, B), BeginningShardError("from the lake"))
    bench.assignment.take([A, B, C])
    refused = InvalidRequestError("credentials are refused", stream=TOPIC)
    bench.opening.refusals = dict.fromkeys((A, B), refused)
    assert bench.try_waiting(1) == [A]
    assert bench.said("quarantined") == [[0, 1]]
    assert list(bench.assignment.writers) == [C]


def test_shard_that_is_beginning_from_the_lake_may_take_as_long_as_it_does(bench):
    bench.opening.refusals = {A: BeginningShardError("from the lake")}
    bench.assignment.take([A])
    for _ in range(3):
        bench.try_waiting(3600)
    assert bench.said("quarantined") == []


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (UnavailableError("full"), ShardPoisonedError),
        (ShardPoisonedError("full"), ShardPoisonedError),
        (InvalidRequestError("read-only"), ShardPoisonedError),
        (ShardLockedError("held"), ShardLockedError),
        (silent(), BrokerUnavailableError),
    ],
)
def test_suspended_shard_that_does_not_open_again_is_told_by_its_cause(bench, error, expected):
    bench.assignment.take([A])
    bench.opening.refusals = {A: error}
    bench.assignment.suspend(A, ShardPoisonedError("full"), 1)
    bench.try_waiting(9.9)
    bench.try_waiting(0.5)
    assert type(bench.quarantine.oldest) is expected


def test_suspended_shard_is_tried_again_before_its_time_is_over(bench):
    bench.assignment.take([A])
    bench.assignment.suspend(A, ShardPoisonedError("full"), 100)
    assert bench.try_waiting(9.9) == []
    assert bench.try_waiting(0.1) == [A]


def test_partitions_that_are_resumed_together_are_opened_in_turns_of_half_a_second(bench):
    bench.assignment.take([A, B, C])
    bench.pause(A, B, C)
    bench.takes(0.3)
    bench.assignment.resume([A, B, C])
    assert bench.try_waiting(0) == [A, B]
    # Between two turns the worker stores what others have.
    assert sorted(bench.assignment.writers) == [A, B]
    assert bench.try_waiting(0) == [C]
    bench.takes(60)
    bench.pause(A, B)
    bench.assignment.resume([A, B])
    for turn in ([A], [B], []):
        assert bench.try_waiting(0) == turn


def test_shard_that_fails_slowly_again_and_again_leaves_the_others_their_turn(bench):
    bench.assignment.take([A, B])
    bench.pause(A, B)
    bench.opening.refusals = {A: ShardLockedError("held")}
    bench.takes(0.6)
    bench.assignment.resume([A, B])
    assert bench.try_waiting(0) == [A]
    assert bench.try_waiting(0.3) == [B]


def test_partition_whose_turn_is_long_in_coming_waits_from_its_first_try_on(bench):
    bench.assignment.take([A, B])
    bench.pause(A, B)
    bench.opening.refusals = {B: ShardLockedError("held")}
    bench.assignment.resume([A, B])
    bench.takes(60)
    bench.try_waiting(0)
    bench.takes(0)
    assert bench.try_waiting(0) == [B]
    assert (bench.said("quarantined"), bench.said("waiting for shard")) == ([], [1])
    bench.try_waiting(9.9)
    assert bench.said("quarantined") == []
    bench.try_waiting(0.5)
    assert bench.said("quarantined") == [[1]]


@pytest.mark.parametrize("number", [0, WHOLE_TOPIC])
def test_shard_that_is_paused_while_it_is_opened_is_not_open_behind_the_pause(bench, root, number):
    """The command looked before the shard was locked, and said that nobody has it."""
    bench.opening.meanwhile = lambda: Pauses(root).write(Pause(TOPIC, number, 0))
    bench.assignment.take([A])
    assert (bench.said("partition opened"), bench.said("waiting for shard")) == ([], [0])
    bench.try_waiting(60)
    bench.opening.meanwhile = lambda: None
    assert (list(bench.assignment.writers), bench.said("quarantined")) == ([], [])
    Pauses(root).remove(Partition(TOPIC, number))
    bench.try_waiting(1)
    assert bench.said("partition opened") == [0]


def test_quarantined_one_that_is_paused_while_it_is_tried_keeps_its_fault(bench, root):
    bench.assignment.take([A])
    bench.assignment.quarantine([A], CorruptionError("torn"))
    bench.assignment.try_now(A)
    bench.opening.meanwhile = lambda: Pauses(root).write(Pause(TOPIC, 0, 0))
    assert bench.try_waiting(0) == [A]
    assert [note.reason for note in bench.notes.read()] == ["torn"]
    assert bench.said("partition opened") == [0]


def test_note_of_a_worker_that_lost_the_shard_goes_while_another_has_it_open(bench):
    bench.assignment.take([A])
    # The other one did not know yet that the partition is no longer its own.
    for number in (0, 1):
        bench.notes.write(QuarantineNote(TOPIC, number, 1, "unavailable", "held"))
    bench.requests.keep_room()
    assert [note.shard for note in bench.notes.read()] == [1]


def test_first_records_after_going_back_are_fetched_again(bench):
    bench.assignment.take([A, B])
    bench.assignment.fetch_again([A, B])
    bench.assignment.go_back([A])
    fetched = fetched_of([record(5), record(9, partition=1)])
    assert bench.assignment.touched_of(fetched) == {A}
    bench.assignment.fetch_again([A])
    assert bench.assignment.touched_of(fetched) == set()


@pytest.mark.parametrize(
    "leave",
    [
        lambda assignment: assignment.close([A]),
        lambda assignment: assignment.go_back([A]),
        lambda assignment: assignment.retake(A),
        lambda assignment: assignment.suspend(A, ShardPoisonedError("full"), 1),
        lambda assignment: assignment.quarantine([A], ForeignDataError("made anew")),
    ],
    ids=["close", "go back", "retake", "suspend", "set aside"],
)
def test_whatever_moves_a_partition_drops_what_was_gathered_of_it(bench, leave):
    bench.assignment.take([A, B])
    both = fetched_of([record(5), record(9, partition=1)])
    bench.pending.add(both, bench.assignment.writers, 0)
    leave(bench.assignment)
    assert list(bench.pending.take()) == [B]


def test_partition_that_is_taken_anew_is_opened_as_if_it_came(bench):
    bench.assignment.take([A, B])
    assert bench.assignment.take_anew(A)
    assert bench.assignment.writers.keys() == {B}
    assert bench.try_waiting(0) == [A]
    assert bench.assignment.writers.keys() == {A, B}


def test_partition_is_taken_anew_some_times_and_more_often_once_it_comes_again(bench):
    bench.assignment.take([A, B])
    taken = []
    for _ in range(5):
        taken.append(bench.assignment.take_anew(A))
        bench.try_waiting(0)
    assert taken == [True, True, True, False, False]
    assert bench.assignment.take_anew(B)
    bench.assignment.close([A])
    bench.consumer.unassign([A])
    bench.assignment.take([A])
    assert bench.assignment.take_anew(A)

"""What is gathered never has a hole; no broker answers here."""

from concurrent.futures import Future

import pytest

from connectors.ingest import worker as loop
from connectors.ingest.assignment import assignment_watch
from connectors.ingest.commit_round import RoundInFlight, RoundReport
from connectors.kafka import Partition
from connectors.kafka.translate import fault_of
from connectors.settings.stream_settings import MappingRules
from storage_core import (
    BrokerUnavailableError,
    ForeignDataError,
    InvalidRequestError,
    ShardLockedError,
    StreamReader,
    UnavailableError,
)
from tests.unit.connectors.records import damage, denial, denial_of_all, fetched_of, record
from tests.unit.connectors.workers import AllAreRight, gather, open_worker
from tests.unit.connectors.writers import TOPIC

A, B = Partition(TOPIC, 0), Partition(TOPIC, 1)


@pytest.fixture
def worker(tmp_path):
    with open_worker(tmp_path) as opened:
        yield opened


def fail_in_flight(worker, partition):
    """Let a round be over in which a partition's commit was not done in time."""
    outcome: Future[RoundReport] = Future()
    outcome.set_result(RoundReport(delayed={partition: UnavailableError("busy")}))
    worker._rounds.in_flight = RoundInFlight(outcome, worker._assignment.writers)


def test_records_before_a_fault_are_kept_before_it_is_acted_on(worker, tmp_path):
    worker._rounds._identities = AllAreRight()
    gather(worker, [record(0), record(1), denial(), record(5, partition=1)])
    with StreamReader.open(tmp_path, TOPIC) as reader:
        assert reader.committed() == {0: 2, 1: 0}
    assert (list(worker._assignment.writers), worker._pending.count) == ([B], 1)


def test_topic_that_may_not_be_read_stops_no_other(worker):
    worker._intake.act_on(fault_of(denial_of_all()), 0.0)
    worker._end_if_all_are_quarantined()
    assert isinstance(worker._quarantine.oldest, InvalidRequestError)


def test_worker_ends_when_none_of_its_topics_may_be_read(worker):
    worker._assignment.close([A, B])
    worker._intake.act_on(fault_of(denial_of_all()), 0.0)
    with pytest.raises(InvalidRequestError, match="does not let this group read"):
        worker._end_if_all_are_quarantined()


def test_worker_whose_every_partition_is_set_aside_ends_with_the_oldest_fault(worker):
    oldest = ForeignDataError("made anew", stream=TOPIC)
    worker._assignment.quarantine([A], oldest)
    worker._end_if_all_are_quarantined()
    worker._assignment.quarantine([B], ShardLockedError("held", stream=TOPIC, shard=1))
    with pytest.raises(ForeignDataError) as raised:
        worker._end_if_all_are_quarantined()
    assert raised.value is oldest


def test_records_in_hand_when_their_round_fails_are_fetched_again(worker):
    worker._assignment.go_back([A])
    fail_in_flight(worker, B)
    gather(worker, [record(0), record(100, partition=1)])
    assert worker._pending.take() == {}
    assert worker.counts.commit_rounds_dropped == 1


def halves():
    """One fetch in two results, in each of which is something of either partition."""
    first = [record(0), record(0, partition=1)]
    return [(fetched_of(first), None), (fetched_of([record(1), record(1, partition=1)]), None)]


def test_touched_partition_is_left_out_of_all_that_one_fetch_brings(worker):
    worker._assignment.go_back([A])
    worker._intake.take(halves(), 0.0)
    taken = worker._pending.take()
    assert {at: [part.start for part in parts] for at, parts in taken.items()} == {B: [0, 1]}
    assert ledger(worker) == (2, 2)
    gather(worker, [record(0)])
    assert list(worker._pending.take()) == [A]


def test_partition_touched_between_two_fetch_results_is_left_out_of_the_rest(worker):
    worker._assignment.go_back([B])
    fail_in_flight(worker, A)
    worker._intake.take([*halves(), *halves()], 0.0)
    assert worker._pending.take() == {}
    assert ledger(worker) == (8, 8)


def test_fault_of_a_neighbour_makes_no_hole_in_what_a_touched_partition_stores(worker, tmp_path):
    worker._rounds._identities = AllAreRight()
    worker._assignment.go_back([A])
    gather(worker, [record(0), damage(1), record(1)])
    worker._rounds.flush(worker._assignment.writers)
    gather(worker, [record(0), record(1)])
    worker._rounds.flush(worker._assignment.writers)
    with StreamReader.open(tmp_path, TOPIC) as reader:
        assert sum(batch.num_rows for batch in reader.scan()) == 2


def test_records_of_others_stay_when_a_round_fails(worker):
    gather(worker, [record(0)])
    fail_in_flight(worker, B)
    worker._rounds.settle()
    assert list(worker._pending.take()) == [A]


def test_stop_is_heard_while_a_disk_hangs(worker, monkeypatch):
    monkeypatch.setattr(loop, "_UNPOLLED_MAX_S", 0.0)
    hanging: Future[RoundReport] = Future()
    worker._rounds.in_flight = RoundInFlight(hanging, worker._assignment.writers)
    worker.stop()
    worker._hold_back()
    assert worker._rounds.in_flight is not None
    hanging.set_result(RoundReport())


def test_worker_that_leaves_opens_nothing_it_is_given(worker):
    worker._leave()
    worker._rebalance.assigned([A, B])
    assert not worker._assignment.are_any


def test_streams_of_one_worker_are_fed_by_the_rules_each_was_made_with(worker):
    writers = worker._assignment.writers
    writers[B].rules = MappingRules(key_mode="none")
    text = b"text"
    gather(worker, [record(0, key=text * 2), record(0, key=text * 2, partition=1)])
    taken = worker._pending.take()
    assert [list(part.dead_letters) for part in taken[A]] == [[0]]
    assert [part.rows.num_rows for part in taken[B]] == [1]


# --- the ledger -------------------------------------------------------------------------------


def ledger(worker):
    """Return what was consumed, and what became of it."""
    totals = worker.counts.totals
    consumed = totals["fetched"]
    assert consumed == sum(
        totals[name] for name in ("appended", "duplicates", "dead_letters", "discarded")
    )
    return consumed, totals["discarded"]


def test_records_made_durable_are_fetched_and_none_is_discarded(worker):
    worker._rounds._identities = AllAreRight()
    gather(worker, [record(0), record(1, key=b"text"), record(0, partition=1)])
    assert ledger(worker) == (0, 0)
    worker._rounds.flush(worker._assignment.writers)
    assert ledger(worker) == (3, 0)


def test_records_of_a_partition_that_goes_are_discarded(worker):
    gather(worker, [record(0), record(1), record(0, partition=1)])
    worker._rebalance.lost([A])
    assert ledger(worker) == (2, 2)
    gather(worker, [record(2)])
    assert ledger(worker) == (3, 3)


def test_records_left_out_after_going_back_are_discarded(worker):
    worker._assignment.go_back([A])
    gather(worker, [record(0), record(0, partition=1)])
    assert ledger(worker) == (1, 1)


class NobodyAnswers:
    """The broker is away."""

    def ask(self, _expected):
        message = "no answer"
        raise BrokerUnavailableError(message)


class NoTopicIsKnown:
    """The cluster has no answer for any topic at the moment."""

    def ask(self, expected):
        return lambda: dict.fromkeys(expected, BrokerUnavailableError("not now"))


@pytest.mark.parametrize("identities", [NobodyAnswers(), NoTopicIsKnown()])
def test_records_of_a_round_that_is_dropped_are_discarded(worker, identities):
    worker._rounds._identities = identities
    gather(worker, [record(0), record(1, key=b"text"), record(0, partition=1)])
    worker._rounds.flush(worker._assignment.writers)
    assert ledger(worker) == (3, 3)
    assert worker.counts.commit_rounds_dropped == 1


def test_records_gathered_twice_count_once_as_stored(worker):
    worker._rounds._identities = AllAreRight()
    gather(worker, [record(0), record(1)])
    gather(worker, [record(1), record(2)])
    worker._rounds.flush(worker._assignment.writers)
    assert ledger(worker) == (4, 1)


def test_records_gathered_when_a_worker_ends_are_discarded(worker):
    gather(worker, [record(0)])
    worker._leave()
    assert ledger(worker) == (1, 1)


# --- the broker is away -----------------------------------------------------------------------


def test_worker_without_partitions_notices_that_the_broker_is_away(worker, monkeypatch):
    monkeypatch.setattr(assignment_watch, "_ANSWER_WAIT_S", 0.1)
    worker._assignment.close([A, B])
    for now_s in (0.0, 30.0):
        for periodic in worker._periodics:
            periodic.tick(now_s)
    assert worker._broker.is_away

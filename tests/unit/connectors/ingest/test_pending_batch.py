"""What gathers for a round is counted as it comes and as it is dropped."""

import pytest

from connectors.ingest.pending_batch import PendingBatch
from connectors.ingest.status.counts import WorkerCounts
from connectors.kafka import Partition
from tests.unit.connectors.records import fetched_of, record
from tests.unit.connectors.writers import TOPIC, open_writers

A, B = Partition(TOPIC, 0), Partition(TOPIC, 1)


@pytest.fixture
def writers(tmp_path):
    with open_writers(tmp_path, 2) as opened:
        yield opened


def gathering(records_max=10**9, bytes_max=10**9):
    return PendingBatch(WorkerCounts(), records_max, bytes_max)


def both():
    """Two records of A, one that cannot become a row, and three large ones of B."""
    of_a = [record(0), record(1, key=b"text")]
    return fetched_of(of_a + [record(n, value=b"v" * 1000, partition=1) for n in range(3)])


def test_records_of_partitions_that_are_not_held_do_not_count(writers):
    pending = gathering(records_max=2)
    pending.add(both(), {A: writers[A]}, 5.0)
    assert (pending.count, pending.rounds) == (2, 1.0)


def test_round_begins_to_gather_with_the_first_record_that_is_kept(writers):
    pending = gathering()
    pending.add(both(), {}, 5.0)
    pending.add(both(), {A: writers[A]}, 7.0)
    assert pending.since_s == 7.0


@pytest.mark.parametrize("largest", [{"records_max": 1}, {"bytes_max": 1}], ids=str)
def test_what_is_dropped_makes_no_round(writers, largest):
    pending, without = gathering(**largest), gathering(**largest)
    pending.add(both(), writers, 0.0)
    pending.drop([B])
    without.add(both(), {A: writers[A]}, 0.0)
    assert (pending.count, pending.rounds) == (without.count, without.rounds)
    pending.drop_all()
    assert (pending.count, pending.rounds) == (0, 0.0)

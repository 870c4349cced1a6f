"""What gathers for a round is counted as it comes and as it is dropped."""

import pytest

from connectors.ingest.pending_batch import Gathering
from connectors.ingest.status.counts import WorkerCounts
from connectors.kafka import Partition
from tests.unit.connectors.feeds import TOPIC, open_feeds
from tests.unit.connectors.records import fetched_of, record

A, B = Partition(TOPIC, 0), Partition(TOPIC, 1)


@pytest.fixture
def feeds(tmp_path):
    with open_feeds(tmp_path, 2) as opened:
        yield opened


def gathering(records_max=10**9, bytes_max=10**9):
    return Gathering(WorkerCounts(), records_max, bytes_max)


def both():
    """Two records of A, one that cannot become a row, and three large ones of B."""
    of_a = [record(0), record(1, key=b"text")]
    return fetched_of(of_a + [record(n, value=b"v" * 1000, partition=1) for n in range(3)])


def test_records_of_partitions_that_are_not_held_do_not_count(feeds):
    gathered = gathering(records_max=2)
    gathered.add(both(), {A: feeds[A]}, 5.0)
    assert (gathered.count, gathered.rounds) == (2, 1.0)


def test_round_begins_to_gather_with_the_first_record_that_is_kept(feeds):
    gathered = gathering()
    gathered.add(both(), {}, 5.0)
    gathered.add(both(), {A: feeds[A]}, 7.0)
    assert gathered.since_s == 7.0


@pytest.mark.parametrize("largest", [{"records_max": 1}, {"bytes_max": 1}], ids=str)
def test_what_is_dropped_makes_no_round(feeds, largest):
    gathered, without = gathering(**largest), gathering(**largest)
    gathered.add(both(), feeds, 0.0)
    gathered.drop([B])
    without.add(both(), {A: feeds[A]}, 0.0)
    assert (gathered.count, gathered.rounds) == (without.count, without.rounds)
    gathered.drop_all()
    assert (gathered.count, gathered.rounds) == (0, 0.0)

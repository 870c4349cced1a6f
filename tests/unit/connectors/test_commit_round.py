"""The end of a round: each shard's commit counts for itself, whatever the others' did."""

from concurrent.futures import Future

import pytest

from connectors.commit_round import RoundInFlight, RoundReport
from connectors.kafka_client import Partition
from storage_core import CorruptionError, ShardPoisonedError, UnavailableError
from tests.unit.connectors.feeds import TOPIC, open_feeds


@pytest.fixture
def feeds(tmp_path):
    with open_feeds(tmp_path, 4) as opened:
        yield opened


def ended(outcome):
    future: Future[int] = Future()
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
    return future


def in_flight(feeds, *outcomes):
    commits = dict(zip(map(ended, outcomes), feeds.values(), strict=True))
    return RoundInFlight(RoundReport(), commits)


def test_shard_whose_commit_was_not_done_in_time_keeps_no_other_from_moving(feeds):
    busy, poison = UnavailableError("busy"), ShardPoisonedError("full")
    report = in_flight(feeds, busy, 7, poison, 9).acknowledge()
    assert [feed.next for feed in feeds.values()] == [0, 7, 0, 9]
    assert report.moved == [Partition(TOPIC, 1), Partition(TOPIC, 3)]
    assert report.delayed == {Partition(TOPIC, 0): busy}
    assert report.poisoned == {Partition(TOPIC, 2): poison}


def test_damage_ends_the_round(feeds):
    with pytest.raises(CorruptionError):
        in_flight(feeds, 1, CorruptionError("torn"), 3, 4).acknowledge()

"""The end of a round: each shard's commit counts for itself, whatever the others' did."""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from connectors.ingest.commit_round import RoundInFlight, RoundReport, commit_round
from connectors.kafka_client import Partition
from storage_core import (
    AppendReport,
    BrokerUnavailableError,
    CorruptionError,
    ForeignDataError,
    ShardPoisonedError,
    UnavailableError,
)
from tests.unit.connectors.feeds import TOPIC, open_feeds
from tests.unit.connectors.records import record, shard_records


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


def test_damage_of_a_shard_keeps_no_other_from_moving(feeds):
    torn = CorruptionError("torn")
    report = in_flight(feeds, 1, torn, 3, 4).acknowledge()
    assert [feed.next for feed in feeds.values()] == [1, 0, 3, 4]
    assert report.failed == {Partition(TOPIC, 1): torn}


class ScriptedIdentities:
    """Finds these topics wrong."""

    def __init__(self, wrong):
        self.wrong = wrong

    def ask(self, _expected):
        return lambda: self.wrong


def round_of(feeds, wrong, positions):
    """Run a round of one record each of shards 0 and 1, whatever is wrong with the topics."""
    messages = [record(0), record(0, partition=1)]
    records = {at: [mapped] for at, mapped in shard_records(messages, topic=TOPIC)}
    identities: Any = ScriptedIdentities(wrong)
    with ThreadPoolExecutor(1) as committers:
        round_ = commit_round(records, positions, feeds, identities, committers)
    return round_.acknowledge()


def committed(feeds):
    return [feed.stream.committed()[at.number] for at, feed in feeds.items()]


def test_nothing_is_written_of_a_topic_that_is_another_one(feeds):
    other = ForeignDataError("made anew", stream=TOPIC)
    report = round_of(feeds, {TOPIC: other}, {Partition(TOPIC, 3): 9})
    assert report.failed == dict.fromkeys(feeds, other)
    assert committed(feeds) == [0, 0, 0, 0]


def test_topic_that_is_not_known_for_the_moment_has_its_rows_fetched_again(feeds):
    silence = BrokerUnavailableError("no answer")
    report = round_of(feeds, {TOPIC: silence}, {Partition(TOPIC, 3): 9})
    assert report.delayed == {Partition(TOPIC, 0): silence, Partition(TOPIC, 1): silence}
    assert committed(feeds) == [0, 0, 0, 0]


def test_topic_that_is_wrong_keeps_no_other_from_moving(feeds):
    report = round_of(feeds, {"another": ForeignDataError("made anew")}, {Partition(TOPIC, 3): 9})
    assert report.moved == [Partition(TOPIC, 0), Partition(TOPIC, 1), Partition(TOPIC, 3)]
    assert committed(feeds) == [1, 1, 0, 9]


def test_shard_that_refuses_its_rows_does_not_move_past_them(feeds):
    feeds[Partition(TOPIC, 0)].stream.close()
    report = round_of(feeds, {}, {Partition(TOPIC, 0): 5})
    assert list(report.failed) == [Partition(TOPIC, 0)]
    assert report.moved == [Partition(TOPIC, 1)]
    assert (report.records, report.appended.appended, report.let_go) == (2, 1, 1)


def test_records_and_dead_letters_whose_commit_fails_are_none_that_were_stored(feeds):
    a, b = list(feeds)[:2]
    written = {a: AppendReport(2, dead_letters=1), b: AppendReport(4, duplicates=2)}
    report = RoundReport(9, written, dead_letters={a: {5: b"raw"}})
    commits = {ended(ShardPoisonedError("full")): feeds[a], ended(7): feeds[b]}
    RoundInFlight(report, commits).acknowledge()
    assert (report.appended, report.let_go) == (AppendReport(4, duplicates=2), 3)
    assert report.dead_letters == {}

"""The end of a round: each shard's commit counts for itself, whatever the others' did."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from connectors.ingest.commit_round import commit_round
from connectors.kafka import Partition
from storage_core import (
    AppendReport,
    BrokerUnavailableError,
    CorruptionError,
    ForeignDataError,
    ShardPoisonedError,
    UnavailableError,
)
from tests.unit.connectors.records import record, shard_records
from tests.unit.connectors.workers import ScriptedStream
from tests.unit.connectors.writers import TOPIC, open_writers


@pytest.fixture
def writers(tmp_path):
    with open_writers(tmp_path, 4) as opened:
        yield opened


class ScriptedIdentities:
    """Finds these topics wrong."""

    def __init__(self, wrong):
        self.wrong = wrong

    def ask(self, _expected):
        return lambda: self.wrong


def round_of(writers, wrong, positions):
    """Run a round of one record each of shards 0 and 1, whatever is wrong with the topics."""
    return round_of_records(writers, [record(0), record(0, partition=1)], wrong, positions)


def round_of_records(writers, messages, wrong=None, positions=None):
    """Run a round of records, and acknowledge it."""
    records: Any = {at: [mapped] for at, mapped in shard_records(messages, topic=TOPIC)}
    identities: Any = ScriptedIdentities(wrong or {})
    with ThreadPoolExecutor(1) as committers:
        report = commit_round(records, positions or {}, writers, identities, committers)
    for partition, place in report.moved.items():
        writers[partition].move(place)
    return report


def fail_commits(writers, failures):
    """Have the commits of some shards fail."""
    for number, failure in failures.items():
        writer = writers[Partition(TOPIC, number)]
        writer.stream = ScriptedStream(writer.stream, failure=failure)


def one_of_each():
    return [record(0, partition=number) for number in range(4)]


def test_shard_whose_commit_was_not_done_in_time_keeps_no_other_from_moving(writers):
    busy, poison = UnavailableError("busy"), ShardPoisonedError("full")
    fail_commits(writers, {0: busy, 2: poison})
    report = round_of_records(writers, one_of_each())
    assert [writer.next for writer in writers.values()] == [0, 1, 0, 1]
    assert list(report.moved) == [Partition(TOPIC, 1), Partition(TOPIC, 3)]
    assert report.delayed == {Partition(TOPIC, 0): busy}
    assert report.poisoned == {Partition(TOPIC, 2): poison}


def test_damage_of_a_shard_keeps_no_other_from_moving(writers):
    torn = CorruptionError("torn")
    fail_commits(writers, {1: torn})
    report = round_of_records(writers, one_of_each())
    assert [writer.next for writer in writers.values()] == [1, 0, 1, 1]
    assert report.failed == {Partition(TOPIC, 1): torn}


def committed(writers):
    return [writer.stream.committed()[at.number] for at, writer in writers.items()]


def test_nothing_is_written_of_a_topic_that_is_another_one(writers):
    other = ForeignDataError("made anew", stream=TOPIC)
    report = round_of(writers, {TOPIC: other}, {Partition(TOPIC, 3): 9})
    assert report.failed == dict.fromkeys(writers, other)
    assert committed(writers) == [0, 0, 0, 0]


def test_topic_that_is_not_known_for_the_moment_has_its_rows_fetched_again(writers):
    silence = BrokerUnavailableError("no answer")
    report = round_of(writers, {TOPIC: silence}, {Partition(TOPIC, 3): 9})
    assert report.delayed == {Partition(TOPIC, 0): silence, Partition(TOPIC, 1): silence}
    assert committed(writers) == [0, 0, 0, 0]


def test_topic_that_is_wrong_keeps_no_other_from_moving(writers):
    report = round_of(writers, {"another": ForeignDataError("made anew")}, {Partition(TOPIC, 3): 9})
    assert set(report.moved) == {Partition(TOPIC, 0), Partition(TOPIC, 1), Partition(TOPIC, 3)}
    assert committed(writers) == [1, 1, 0, 9]


def test_shard_that_refuses_its_rows_does_not_move_past_them(writers):
    writers[Partition(TOPIC, 0)].stream.close()
    report = round_of(writers, {}, {Partition(TOPIC, 0): 5})
    assert list(report.failed) == [Partition(TOPIC, 0)]
    assert list(report.moved) == [Partition(TOPIC, 1)]
    assert (report.records, report.appended.appended, report.discarded) == (2, 1, 1)


def test_records_and_dead_letters_whose_commit_fails_are_none_that_were_stored(writers):
    fail_commits(writers, {0: ShardPoisonedError("full")})
    writers[Partition(TOPIC, 1)].stream.append_batch(
        pa.table({"primary": [1000], "secondary": [7], "payload": [b"v"]}), shard=1, addresses=[0]
    )
    odd = [record(1, key=b"text"), *(record(offset, partition=1) for offset in range(3))]
    report = round_of_records(writers, [record(0), *odd])
    assert (report.appended, report.discarded) == (AppendReport(2, duplicates=1), 2)
    assert report.dead_letters == {}


def test_round_lets_go_of_what_was_gathered_as_it_goes(writers):
    pending: Any = {at: [mapped] for at, mapped in shard_records(one_of_each(), topic=TOPIC)}
    identities: Any = ScriptedIdentities({})
    with ThreadPoolExecutor(1) as committers:
        report = commit_round(pending, {}, writers, identities, committers)
    assert (pending, report.records) == ({}, 4)


def test_silence_while_asking_has_all_that_is_held_fetched_again(writers):
    class Silent:
        def ask(self, _expected):
            raise silence

    silence, identities = BrokerUnavailableError("no answer"), Silent()
    nobody: Any = identities
    report = commit_round({}, {}, writers, nobody, nobody)
    assert report.delayed == dict.fromkeys(writers, silence)

"""Goal: what was forwarded goes back to its partition once, byte for byte, whatever is killed.

Method: dead letters are forwarded as a worker does, some of them twice; replays are killed at
random moments of their work, run again, and who reads committed records counts origins.
"""

from collections import Counter

import pytest

from connectors.cli.exit_codes import EXIT_CLIENT_FAILED
from connectors.dlq.origin import with_origin
from connectors.dlq.record import DeadLetter
from connectors.dlq.replay import REPLAY_HEADER
from tests.broker.support.dying_producer import DIED
from tests.broker.support.lab import CLOCK, Lab, Topic
from tests.broker.support.replay_process import Replay, die_at_commit, replay, replay_as_people_do
from tests.faults.support.campaign import campaigns
from tests.unit.connectors.records import Plain
from tests.waiting import await_that

# What is older than a topic's retention is gone at once.
BASE_MS = CLOCK.now_ns() // 10**6 - 10_000


def forward(lab: Lab, origin: Topic, dlq: Topic, numbers: range) -> list[DeadLetter]:
    """Put dead letters into a dead-letter topic as a forwarder does."""
    dead_letters = [
        DeadLetter(
            "key of 6 bytes", origin.name, number % 2, number, BASE_MS + number, 0,
            b"key-%d" % number, None if number % 7 == 0 else b"\xff%d" % number,
            [("trace", b"%d" % number), ("trace", None)],
        )
        for number in numbers
    ]  # fmt: skip
    with lab.producer() as producer:
        for dead_letter in dead_letters:
            headers = with_origin(dead_letter, "key", "id", "group")
            producer.send(
                dlq.name, dead_letter.key, dead_letter.value, dead_letter.timestamp, headers
            )
    return dead_letters


def replayed(topic: Topic) -> Counter[bytes | None]:
    """Return how often each origin is in a topic, to who reads committed records."""
    records = [record for records in topic.records().values() for record in records]
    return Counter(dict(record.headers or [])[REPLAY_HEADER] for record in records)


def as_sent(dead_letters: list[DeadLetter]) -> set[tuple[object, ...]]:
    return {(each.partition, each.key, each.value, each.timestamp) for each in dead_letters}


def place(number: int, topic: Topic) -> bytes:
    return f"{topic.name}/{number % 2}/{number}".encode()


def test_replayed_records_are_what_they_were_in_their_partitions(lab: Lab) -> None:
    topic, dlq = lab.topic(partitions=2), lab.topic(partitions=2)
    dead_letters = forward(lab, topic, dlq, range(50))
    assert replay_as_people_do(dlq).startswith("50 records replayed; skipped: 0 duplicates")
    replayed: list[Plain] = [record for records in topic.records().values() for record in records]
    assert as_sent(dead_letters) == {
        (record.partition.number, record.key, record.value, record.timestamp) for record in replayed
    }
    for record in replayed:
        assert record.headers is not None
        *own, (name, origin) = record.headers
        number = int(own[0][1] or b"")
        assert own == [("trace", b"%d" % number), ("trace", None)]
        assert (name, origin) == (REPLAY_HEADER, place(number, topic))


def test_second_replay_changes_nothing_and_dead_letters_that_came_since_go(lab: Lab) -> None:
    topic, dlq = lab.topic(partitions=2), lab.topic(partitions=2)
    forward(lab, topic, dlq, range(20))
    replay(dlq)
    assert replay(dlq).startswith("0 records replayed")
    forward(lab, topic, dlq, range(10, 30))
    assert replay(dlq).startswith("10 records replayed; skipped: 10 duplicates")
    assert replayed(topic) == Counter(place(number, topic) for number in range(30))


def test_dry_run_sends_nothing_and_a_limit_is_kept(lab: Lab) -> None:
    topic, dlq = lab.topic(partitions=2), lab.topic(partitions=1)
    forward(lab, topic, dlq, range(20))
    assert replay(dlq, "--dry-run").startswith("20 records would be replayed")
    assert not replayed(topic)
    assert replay(dlq, "--limit=7").startswith("7 records replayed")
    assert replay(dlq).startswith("13 records replayed")
    assert replayed(topic) == Counter(place(number, topic) for number in range(20))


def test_records_that_no_forwarder_wrote_are_passed_by(lab: Lab) -> None:
    topic, dlq = lab.topic(partitions=2), lab.topic(partitions=1)
    lab.produce(dlq, 5)
    forward(lab, topic, dlq, range(3))
    assert "5 without an origin" in replay(dlq)
    assert sum(replayed(topic).values()) == 3


def test_origin_that_is_not_there_is_told_what_is_before_it_sent_and_nothing_behind_it(
    lab: Lab,
) -> None:
    topic, dlq = lab.topic(partitions=1), lab.topic(partitions=1)
    forward(lab, topic, dlq, range(0, 20, 2))
    forward(lab, topic, dlq, range(21, 30))
    for sent in (10, 0):
        code, out, err = Replay(dlq).ended()
        assert code == 2
        assert out.startswith(f"{sent} records replayed")
        assert f"record 10 of {dlq.name}/0 comes from {topic.name}/1, which is not there" in err
        assert len(err.splitlines()) == 1
        assert len(replayed(topic)) == 10


@pytest.mark.parametrize(("when", "sent"), [("before", 0), ("behind", 20)])
def test_records_and_how_far_the_topic_was_gone_through_are_one_commit(
    lab: Lab, when: str, sent: int
) -> None:
    topic, dlq = lab.topic(partitions=2), lab.topic(partitions=1)
    forward(lab, topic, dlq, range(20))
    assert die_at_commit(dlq, when) == DIED
    assert replay(dlq).startswith(f"{20 - sent} records replayed")
    assert replayed(topic) == Counter(place(number, topic) for number in range(20))


def test_later_of_two_replays_goes_on_and_the_first_is_told_that_it_was_fenced(lab: Lab) -> None:
    topic, dlq = lab.topic(partitions=2), lab.topic(partitions=2)
    forward(lab, topic, dlq, range(20_000))
    before, first = topic.ends(), Replay(dlq)
    await_that(lambda: topic.ends() != before, "a transaction of the first")
    replay(dlq)
    code, _, err = first.ended()
    # It may have come to its end before.
    assert code in (0, EXIT_CLIENT_FAILED), err
    assert "Traceback" not in err
    assert replayed(topic) == Counter(place(number, topic) for number in range(20_000))


@pytest.mark.parametrize("kills", campaigns("SHARDLOG_BROKER_LETTERS", 2))
def test_killed_replay_loses_and_doubles_nothing(lab: Lab, kills: int) -> None:
    topic, dlq = lab.topic(partitions=2), lab.topic(partitions=2)
    count = 6000 * (kills + 1)
    forward(lab, topic, dlq, range(count))
    forward(lab, topic, dlq, range(0, count, 3))
    for _ in range(kills):
        assert die_at_commit(dlq, "soon behind") == DIED
    assert 0 < len(replayed(topic)) < count, "no death came in the middle"
    replay(dlq)
    assert replayed(topic) == Counter(place(number, topic) for number in range(count))

"""Dead letters forwarded to a topic of a real broker: byte for byte, with their origin, none lost.

The ledger: every record produced is a row of the store, or its origin is in the dead-letter topic,
whatever was killed or refused on the way. Forwarding is at least once, so origins are told apart.
"""

from collections import Counter
from typing import Any

import pytest

from connectors.cli.exit_codes import EXIT_UNAVAILABLE, EXIT_USAGE
from connectors.dlq.origin import Origin, split_origin
from storage_core import StreamReader
from tests.broker.support.lab import CLOCK, Lab, Topic
from tests.faults.support.campaign import campaigns
from tests.unit.connectors.records import Plain
from tests.waiting import WAIT_MAX_S, await_that

BAD_EVERY = 10
LETTERS = 100_000
FORWARD: dict[str, Any] = {"dead_letters__policy": "forward"}

Forwarded = list[tuple[Origin, Plain]]


def produce(lab: Lab, topic: Topic, records: int, bad_every: int = BAD_EVERY) -> None:
    """Produce records of which some have a key that is no id."""
    base_ms = CLOCK.now_ns() // 10**6
    with lab.producer() as producer:
        for number in range(records):
            key = b"user-%d" % number if number % bad_every == 0 else number.to_bytes(4, "big")
            headers = [("trace", b"\xff%d" % number), ("none", None), ("trace", b"")]
            producer.send(topic.name, key, b"value-%d" % number, base_ms + number, headers)


def dlq_of(lab: Lab, topic: Topic, **config: str) -> Topic:
    """Make a topic for the dead letters of another."""
    lab.admin.create_topic(
        f"{topic.name}.dlq", 1, {k.replace("_", "."): v for k, v in config.items()}
    )
    return Topic(f"{topic.name}.dlq", lab.bootstrap)


def forwarded(dlq: Topic) -> Forwarded:
    """Return what is in a dead-letter topic, each with its origin."""
    dead_letters = []
    for record in (record for records in dlq.records().values() for record in records):
        split = split_origin(record.headers)
        assert split is not None, record
        own, origin = split
        # To Kafka no headers and headers without one are the same.
        dead_letters.append((origin, record._replace(headers=own or None)))
    return dead_letters


def await_more(dlq: Topic, before: dict[int, int]) -> None:
    await_that(lambda: dlq.ends() != before, "a dead letter forwarded")


def waiting(lab: Lab, topic: Topic) -> int:
    with StreamReader.open(lab.root, topic.name) as reader:
        reader.refresh()
        return sum(1 for shard in reader.committed() for _ in reader.dead_letters(shard))


def expect_all_told_apart(lab: Lab, topic: Topic, dlq: Topic) -> Forwarded:
    """Compare what was produced with what is stored and what was forwarded, byte for byte."""
    lab.await_no_lag(topic)
    await_that(lambda: waiting(lab, topic) == 0, "no dead letter that waits")
    stored, dead_letters = lab.stored(topic), forwarded(dlq)
    by_place = {(origin.partition, origin.offset): record for origin, record in dead_letters}
    for shard, records in topic.records().items():
        rows = {address for address, *_ in stored[shard]}
        for record in records:
            is_forwarded = (shard, record.offset) in by_place
            assert is_forwarded != (record.offset in rows), f"{shard}/{record.offset}"
            if is_forwarded:
                dead_letter = by_place[shard, record.offset]
                assert dead_letter[2:] == record[2:], f"{shard}/{record.offset}"
    with StreamReader.open(lab.root, topic.name) as reader:
        stats = reader.stats()
        assert stats.dead_letters == stats.dead_letters_cleared == len(by_place)
    return dead_letters


def test_dead_letters_are_forwarded_byte_for_byte_with_their_origin(lab: Lab) -> None:
    topic = lab.topic(partitions=2)
    produce(lab, topic, 300)
    worker = lab.worker(topic, dead_letters__topic="{topic}.dlq", **FORWARD)
    dlq = Topic(f"{topic.name}.dlq", lab.bootstrap)
    worker.await_event("dead letters forwarded")
    dead_letters = expect_all_told_apart(lab, topic, dlq)
    assert len(dead_letters) == 300 // BAD_EVERY
    assert {(one.topic, one.word, one.timestamp_type) for one, _ in dead_letters} == {
        (topic.name, "key", 0)
    }
    assert worker.stop() == 0


@pytest.mark.parametrize("kills", campaigns("SHARDLOG_BROKER_LETTERS", 2))
def test_killed_worker_forwards_every_dead_letter(lab: Lab, kills: int) -> None:
    topic = lab.topic(partitions=2)
    dlq = dlq_of(lab, topic)
    settings = {**FORWARD, "dead_letters__topic": dlq.name}
    for _ in range(kills):
        produce(lab, topic, 1000, bad_every=3)
        before = dlq.ends()
        worker = lab.doomed(topic, **settings)
        await_more(dlq, before)
        worker.kill()
    lab.worker(topic, **settings)
    dead_letters = expect_all_told_apart(lab, topic, dlq)
    assert len(Counter(origin for origin, _ in dead_letters)) >= kills * 1000 // 3


def test_topic_that_takes_no_dead_letters_stops_the_worker_at_the_limit_and_loses_none(
    lab: Lab,
) -> None:
    topic = lab.topic(partitions=1)
    dlq = dlq_of(lab, topic, max_message_bytes="100")
    settings = {**FORWARD, "dead_letters__topic": dlq.name}
    produce(lab, topic, 100)
    worker = lab.worker(topic, dead_letters__records_max=10, **settings)
    assert worker.exit_code() == EXIT_UNAVAILABLE, worker.said()
    complaint = worker.complaint()
    assert "10 dead letters wait" in complaint
    assert dlq.name in complaint
    assert waiting(lab, topic) == 10
    other = lab.topic(partitions=1)
    lab.worker(topic, **{**settings, "dead_letters__topic": other.name})
    assert len(expect_all_told_apart(lab, topic, other)) == 10


def test_worker_fetches_no_faster_than_dead_letters_go_once_a_shard_keeps_its_limit(
    lab: Lab,
) -> None:
    topic = lab.topic(partitions=1)
    dlq = dlq_of(lab, topic)
    produce(lab, topic, LETTERS, bad_every=1)
    settings = {**FORWARD, "dead_letters__topic": dlq.name, "dead_letters__records_max": 500}
    worker = lab.worker(topic, dead_letters_only_max=0, round_records_max=2000, **settings)
    worker.await_event("partition opened")
    counts = [0]
    with StreamReader.open(lab.root, topic.name) as reader:

        def is_whole() -> bool:
            counts.append(dead_letters_kept(reader))
            return lab.committed(topic) == {0: LETTERS}

        await_that(is_whole, lambda: f"{LETTERS} records; {worker.said()}", 3 * WAIT_MAX_S)
    # A round in flight, and what is gathered and fetched beside it.
    assert max(counts) < 30_000, max(counts)
    await_that(lambda: waiting(lab, topic) == 0, "no dead letter that waits")
    assert worker.stop() == 0


def dead_letters_kept(reader: StreamReader) -> int:
    """Return how many a store has counted and not let go."""
    reader.refresh()
    stats = reader.stats()
    return stats.dead_letters - stats.dead_letters_cleared


def test_letter_that_is_too_large_for_the_topic_stands_in_the_way_of_no_other(lab: Lab) -> None:
    topic = lab.topic(partitions=1)
    dlq = dlq_of(lab, topic, max_message_bytes="40000")
    with lab.producer() as producer:
        for number in range(3):
            producer.send(topic.name, b"user-1", b"x" * (50_000 if number == 1 else 10))
    worker = lab.worker(topic, dead_letters__topic=dlq.name, **FORWARD)
    worker.await_event("dead letters not forwarded")
    await_that(lambda: waiting(lab, topic) == 1, "two of three forwarded")
    assert {origin.offset for origin, _ in forwarded(dlq)} == {0, 2}
    assert worker.stop() == 0


def test_first_dead_letter_stops_a_worker_that_is_to_stop_and_the_next_one_too(lab: Lab) -> None:
    topic = lab.topic(partitions=1)
    produce(lab, topic, 20)
    for _ in range(2):
        worker = lab.worker(topic, dead_letters__policy="stop")
        assert worker.exit_code() == EXIT_USAGE, worker.said()
        assert "dead_letters.policy" in worker.complaint()
    worker = lab.worker(topic)
    worker.await_event("partition opened")
    assert worker.stop() == 0
    assert waiting(lab, topic) == 2


def test_oldest_dead_letters_go_beyond_the_limit_and_are_counted(lab: Lab) -> None:
    topic = lab.topic(partitions=1)
    produce(lab, topic, 200)
    worker = lab.worker(topic, dead_letters__records_max=5)
    await_that(lambda: lab.committed(topic) == {0: 200} and waiting(lab, topic) == 5, "five left")
    assert worker.stop() == 0
    assert sum(event["count"] for event in worker.events("dead letters dropped")) == 15
    with StreamReader.open(lab.root, topic.name) as reader:
        assert [address for address, _ in reader.dead_letters(0)] == [150, 160, 170, 180, 190]


def test_pattern_does_not_take_the_topics_that_dead_letters_go_to(lab: Lab) -> None:
    topic = lab.topic(partitions=1)
    produce(lab, topic, 20)
    pattern = f"^{topic.name}([.-].*)?$"
    settings: dict[str, Any] = {
        "topics": [],
        "topic_pattern": pattern,
        "dead_letters__topic": "{topic}.dlq",
    }
    worker = lab.worker(topic, **settings, **FORWARD)
    worker.await_event("dead letters forwarded")
    # Whoever takes a topic that came later has seen the other.
    later = Topic(f"{topic.name}-later", lab.bootstrap)
    lab.admin.create_topic(later.name, 1, {})
    lab.produce(later, 10)
    lab.await_no_lag(later)
    assert {event["topic"] for event in worker.events("partition opened")} == {
        topic.name,
        later.name,
    }
    assert worker.stop() == 0

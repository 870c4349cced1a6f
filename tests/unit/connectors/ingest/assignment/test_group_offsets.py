"""What the group is told: each partition once it is owned, and whenever it has moved."""

import pytest

from connectors.ingest.assignment.group_offsets import GroupOffsets
from connectors.kafka import Partition
from tests.unit.connectors.writers import TOPIC, open_writers

A, B = Partition(TOPIC, 0), Partition(TOPIC, 1)


class ScriptedConsumer:
    """Takes what it is told, unless it is deaf; notes every telling."""

    def __init__(self):
        self.commits, self.answer, self.is_deaf, self.is_silent = [], None, False, False

    def commit_group(self, places, *, is_last=False):  # noqa: ARG002 - as a consumer's
        self.commits.append({at: place.offset for at, place in places.items()})
        if not self.is_silent:
            self.answer = {} if self.is_deaf else self.commits[-1]

    def take_group_answer(self):
        answer, self.answer = self.answer, None
        return answer


@pytest.fixture
def consumer():
    return ScriptedConsumer()


@pytest.fixture
def group(consumer):
    return GroupOffsets(consumer)


@pytest.fixture
def writers(tmp_path):
    with open_writers(tmp_path, 2) as opened:
        yield opened


def test_partition_is_told_though_nothing_comes(group, consumer, writers):
    for now_s in range(5):
        group.commit(writers, now_s)
    assert consumer.commits == [{A: 0, B: 0}]


def test_partition_that_moved_is_told_alone(group, consumer, writers):
    group.commit(writers, 0)
    writers[B].next = 7
    group.commit(writers, 1)
    assert consumer.commits[1:] == [{B: 7}]


def test_what_was_not_taken_is_told_again(group, consumer, writers):
    consumer.is_deaf = True
    for now_s in range(3):
        group.commit(writers, now_s)
    consumer.is_deaf = False
    for now_s in range(3, 9):
        group.commit(writers, now_s)
    assert consumer.commits == [{A: 0, B: 0}] * 4


def test_next_one_waits_for_an_answer_for_a_bounded_time(group, consumer, writers):
    consumer.is_silent = True
    for now_s in range(12):
        writers[A].next = now_s
        group.commit(writers, now_s)
    assert [commits[A] for commits in consumer.commits] == [0, 10]


def test_partition_that_returns_is_told_anew(group, consumer, writers):
    group.commit(writers, 0)
    group.commit({A: writers[A]}, 1)
    group.commit(writers, 2)
    assert consumer.commits == [{A: 0, B: 0}, {B: 0}]


def test_last_word_says_what_is_not_known_yet(group, consumer, writers):
    group.commit(writers, 0)
    writers[A].next = 5
    group.commit_last(writers)
    group.commit_last(writers)
    assert consumer.commits[1:] == [{A: 5}]

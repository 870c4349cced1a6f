"""What the cluster says of many partitions counts once, not for long, and where it is no doubt."""

import pytest

from connectors.ingest.assignment.cluster_answers import ClusterAnswers
from connectors.kafka import Partition, Place
from storage_core import BrokerUnavailableError
from storage_core.testing import ManualClock
from tests.unit.connectors.writers import TOPIC

A, B, C = (Partition(TOPIC, number) for number in range(3))


class ScriptedCluster:
    """Says the same of every partition, unless it is silent; notes what it is asked of."""

    def __init__(self):
        self.requested, self.is_silent, self.low, self.end, self.group = [], False, 0, 100, 40

    def watermarks_of(self, partitions, _wait_s):
        self.requested.append([*partitions])
        if self.is_silent:
            message = "no answer"
            raise BrokerUnavailableError(message)
        return dict.fromkeys(partitions, (self.low, self.end))

    def watermarks(self, partition):
        self.requested.append(partition)
        return self.low, self.end

    def group_places(self, partitions, *_wait_s):
        if len(partitions) == 1:
            self.requested.append(partitions[0])
        return dict.fromkeys(partitions, Place(self.group))


@pytest.fixture
def cluster():
    return ScriptedCluster()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def answers(cluster, clock):
    return ClusterAnswers(cluster, clock)


def test_partitions_that_are_opened_together_are_asked_of_together(answers, cluster):
    answers.ask([A, B])
    for partition in (A, B):
        assert answers.group_place(partition, 50) == Place(40)
        assert answers.watermarks(partition, 50) == (0, 100)
    assert cluster.requested == [[A, B]]


def test_single_partition_asks_for_itself(answers, cluster):
    answers.ask([A])
    answers.watermarks(A, 50)
    assert cluster.requested == [A]


def test_answer_counts_once(answers, cluster):
    answers.ask([A, B])
    answers.watermarks(A, 50)
    answers.watermarks(A, 50)
    assert cluster.requested == [[A, B], A]


@pytest.mark.parametrize("shard_next", [120, 5])
def test_answer_that_the_shard_contradicts_is_asked_for_again(answers, cluster, shard_next):
    cluster.low = 10
    answers.ask([A, B])
    cluster.low, cluster.end = 0, 200
    assert answers.watermarks(A, shard_next) == (0, 200)


def test_group_that_stands_ahead_of_the_shard_is_asked_for_again(answers, cluster):
    answers.ask([A, B])
    cluster.group = 20
    assert answers.group_place(A, 30) == Place(20)


def test_answer_is_forgotten_after_some_seconds(answers, cluster, clock):
    answers.ask([A, B])
    clock.elapsed_s += 5.1
    answers.watermarks(A, 50)
    answers.ask([A, B])
    assert cluster.requested == [[A, B], A, [A, B]]


def test_partition_that_comes_is_asked_of_anew(answers, cluster):
    answers.ask([A, B])
    answers.ask([A, B, C])
    answers.ask([A, B], is_anew=True)
    assert cluster.requested == [[A, B], [A, B]]


def test_silent_cluster_is_not_asked_of_many_for_a_while(answers, cluster, clock):
    cluster.is_silent = True
    answers.ask([A, B])
    answers.ask([A, B])
    assert cluster.requested == [[A, B]]
    answers.watermarks(A, 50)
    clock.elapsed_s += 5.1
    answers.ask([A, B])
    assert cluster.requested == [[A, B], A, [A, B]]

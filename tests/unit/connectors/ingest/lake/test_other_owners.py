"""Whether a partition is taken anew that another log publishes, and what is said of it."""

from typing import Any

from structlog.testing import CapturingLogger

from connectors.ingest.lake.other_owners import OtherOwners
from connectors.kafka import Partition

A, B = Partition("topic", 0), Partition("topic", 1)


class Held:
    """Partitions that are fetched, of which each may be taken anew twice."""

    def __init__(self, *partitions):
        self.writers = dict.fromkeys(partitions)
        self.taken = []

    def take_anew(self, partition):
        if self.taken.count(partition) == 2:
            return False
        self.taken.append(partition)
        return True


def after_refusals(times, *, is_static=False):
    """Refuse two partitions, of which one is fetched; return what was taken, and what was said."""
    held, log = Held(A), CapturingLogger()
    assignment: Any = held
    owners = OtherOwners(assignment, log, is_static=is_static)
    for _ in range(times):
        for partition in (A, B):
            owners.refused(partition)
        owners.take_anew()
        owners.take_anew()
    return held.taken, [call.args[0] for call in log.calls]


def test_partition_that_is_fetched_is_taken_anew_once_a_refusal():
    assert after_refusals(1) == ([A], ["partition taken anew"])


def test_partition_that_is_refused_again_and_again_is_left_and_that_is_said_once():
    taken, lines = after_refusals(4)
    assert taken == [A, A]
    assert lines == ["partition taken anew"] * 2 + ["partition not taken anew"]


def test_in_static_mode_none_is_and_that_is_said_once():
    assert after_refusals(3, is_static=True) == ([], ["partition not taken anew"])

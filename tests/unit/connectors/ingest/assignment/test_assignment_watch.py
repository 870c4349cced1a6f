"""A worker that gets nothing says so, at a bounded pace, with the topics that are not there."""

import pytest
from structlog.testing import CapturingLogger

from connectors.ingest.assignment.assignment_watch import LOG_EVERY_S, AssignmentWatch
from storage_core import BrokerUnavailableError


@pytest.fixture
def log():
    return CapturingLogger()


@pytest.fixture
def watch(log):
    return AssignmentWatch(["orders", "parcels"], lambda _: {"orders": 4}, log)


def logged(log):
    return [call.kwargs for call in log.calls]


def test_nothing_is_said_while_partitions_are_held(watch, log):
    for now_s in range(500):
        watch.tick(now_s, is_assigned=True)
    assert log.calls == []


def test_nothing_is_said_at_first(watch, log):
    watch.tick(100, is_assigned=False)
    watch.tick(99.9 + LOG_EVERY_S, is_assigned=False)
    assert log.calls == []


def test_waiting_is_told_at_its_pace_with_how_long_and_what_is_not_there(watch, log):
    for now_s in range(100, 175):
        watch.tick(now_s, is_assigned=False)
    assert logged(log) == [
        {"waited_s": 30, "no_such_topics": ["parcels"]},
        {"waited_s": 60, "no_such_topics": ["parcels"]},
    ]


def test_wait_begins_anew_when_the_last_partition_goes(watch, log):
    for now_s, is_assigned in ((0, False), (29, True), (100, False), (129, False)):
        watch.tick(now_s, is_assigned=is_assigned)
    assert log.calls == []


def test_broker_that_does_not_say_which_topics_there_are_is_told(log):
    def silence(_timeout_s):
        message = "listing topics: Kafka does not answer"
        raise BrokerUnavailableError(message)

    watch = AssignmentWatch(["orders"], silence, log)
    for now_s in (0, LOG_EVERY_S):
        watch.tick(now_s, is_assigned=False)
    assert logged(log) == [{"waited_s": 30, "reason": "listing topics: Kafka does not answer"}]

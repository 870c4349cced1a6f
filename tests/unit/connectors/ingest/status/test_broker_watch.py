"""A broker that goes away is told once and now and then, and its return once."""

import pytest
from structlog.testing import CapturingLogger

from connectors.ingest.status.broker_watch import LOG_EVERY_S, BrokerWatch
from storage_core.testing import ManualClock


class Bench:
    """A watch, its clock, and what it said."""

    def __init__(self):
        self.clock, self.log = ManualClock(), CapturingLogger()
        self.watch = BrokerWatch(self.clock, self.log)

    def logged(self):
        return [call.args[0] for call in self.log.calls]


@pytest.fixture
def bench():
    return Bench()


def test_broker_that_answers_is_no_news(bench):
    bench.watch.answered()
    assert bench.logged() == []


def test_broker_away_is_told_at_once_with_since_when_and_why(bench):
    bench.watch.unanswered("no answer in 5 s")
    (call,) = bench.log.calls
    assert call.args == ("broker away",)
    assert call.kwargs == {
        "since": "2023-11-14T22:13:20Z",
        "away_s": 0,
        "reason": "no answer in 5 s",
    }
    assert bench.watch.is_away


def test_broker_that_stays_away_is_told_at_a_bounded_pace(bench):
    for _ in range(int(LOG_EVERY_S)):
        bench.watch.unanswered("no answer")
        bench.clock.advance(2)
    assert bench.logged() == ["broker away"] * 2
    assert [call.kwargs["since"] for call in bench.log.calls] == ["2023-11-14T22:13:20Z"] * 2


def test_return_is_told_once_with_how_long_it_took(bench):
    bench.watch.unanswered("no answer")
    bench.clock.advance(67)
    bench.watch.answered()
    bench.watch.answered()
    assert bench.logged() == ["broker away", "broker back"]
    assert bench.log.calls[-1].kwargs["after_s"] == 67
    assert not bench.watch.is_away


def test_broker_that_goes_again_is_told_again(bench):
    for _ in range(2):
        bench.watch.unanswered("no answer")
        bench.watch.answered()
    assert bench.logged() == ["broker away", "broker back"] * 2


def test_broker_that_stays_away_is_told_again_though_nobody_asks_it(bench):
    bench.watch.unanswered("no answer in 5 s")
    for _ in range(65):
        bench.clock.advance(1)
        bench.watch.tick(bench.clock.monotonic_s())
    assert [call.kwargs["away_s"] for call in bench.log.calls] == [0, 30, 60]
    assert {call.kwargs["reason"] for call in bench.log.calls} == {"no answer in 5 s"}


def test_nothing_is_told_again_of_a_broker_that_is_back(bench):
    bench.watch.unanswered("no answer")
    bench.watch.answered()
    bench.clock.advance(100)
    bench.watch.tick(bench.clock.monotonic_s())
    assert bench.logged() == ["broker away", "broker back"]

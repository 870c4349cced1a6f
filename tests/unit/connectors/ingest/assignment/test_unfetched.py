"""Where partitions end that are held and not fetched; no broker answers here."""

import pytest

from connectors.ingest.assignment.unfetched import ASK_EVERY_S, UnfetchedEnds
from connectors.kafka import Partition
from storage_core import BrokerUnavailableError

A, B, GONE = Partition("orders", 0), Partition("orders", 1), Partition("gone", 0)


class Bench:
    """A cluster that knows ends and where a group stands, and one that asks it."""

    def __init__(self):
        self.ends, self.group = {A: 100, B: 1500}, {A: 40, B: 0}
        self.asked, self.now_s = 0, 0.0
        self.is_late = False
        self.unfetched = UnfetchedEnds(self, "g")

    def ask_log_ends(self, partitions):
        asked = list(partitions)
        self.asked += 1

        def answer(_wait_s):
            if self.is_late or GONE in asked:
                message = "no answer"
                raise BrokerUnavailableError(message)
            return {at: self.ends[at] for at in asked}

        return answer

    def ask_group_offsets(self, group, partitions):
        asked = list(partitions)
        assert group == "g"
        return lambda _wait_s: {at: self.group[at] for at in asked if at in self.group}

    def go_on(self, seconds, *partitions):
        for _ in range(int(seconds * 2)):
            self.now_s += 0.5
            self.unfetched.tick(self.now_s, partitions)

    def lag(self, at, next_=None, *, is_foreign=False):
        return self.unfetched.state(at, next_, is_foreign=is_foreign).lag


@pytest.fixture
def bench():
    return Bench()


def test_lag_goes_by_where_the_shard_stood_or_else_the_group(bench):
    assert bench.lag(B, 7) is None
    bench.go_on(3, A, B)
    assert (bench.lag(B, 7), bench.lag(B), bench.lag(A)) == (1493, 1500, 60)


def test_lag_to_the_log_of_another_topic_is_not_known(bench):
    bench.go_on(3, A)
    assert bench.lag(A, 7, is_foreign=True) is None


def test_topic_that_nobody_answers_for_takes_no_lag_away(bench):
    bench.go_on(3, A, GONE)
    assert (bench.lag(A), bench.lag(GONE)) == (60, None)


def test_answer_that_is_late_is_taken_when_it_comes(bench):
    bench.is_late = True
    bench.go_on(10, A)
    assert bench.lag(A) is None
    bench.is_late = False
    bench.go_on(2, A)
    assert bench.lag(A) == 60


def test_new_ends_are_asked_for_every_half_minute_and_at_once_for_who_comes(bench):
    bench.go_on(3, A)
    bench.ends[A] = 200
    bench.go_on(ASK_EVERY_S + 3, A)
    assert (bench.asked, bench.lag(A)) == (2, 160)
    bench.go_on(3, A, B)
    assert bench.lag(B) == 1500


def test_nobody_is_asked_while_all_are_fetched(bench):
    bench.go_on(100)
    assert bench.asked == 0

"""Last stable offsets are asked for while somebody wants them; no broker answers here."""

import pytest

from connectors.ingest.status.stable_offsets import (
    ANSWER_MAX_S,
    ASK_EVERY_S,
    WANTED_FOR_S,
    StableOffsets,
)
from connectors.kafka import Partition
from storage_core import BrokerUnavailableError

A, B = Partition("orders", 0), Partition("clicks", 1)


class Bench:
    """A cluster that knows where transactions begin, and a worker that holds a partition."""

    def __init__(self):
        self.offsets, self.silent = {A: 8, B: 9}, set()
        self.requests, self.now_s, self.held = 0, 0.0, {A}
        self.stable = StableOffsets(self)

    def ask_log_ends(self, partitions, *, is_stable=False):
        assert is_stable
        self.requests += 1
        requested = list(partitions)

        def answer(_wait_s):
            if self.silent & {*requested}:
                message = "silent"
                raise BrokerUnavailableError(message)
            return {at: self.offsets[at] for at in requested}

        return answer

    def go_on(self, seconds):
        for _ in range(int(seconds)):
            self.now_s += 1
            self.stable.tick(self.now_s, self.held)

    def scrape(self):
        return self.stable.of({A, B}, self.now_s)


@pytest.fixture
def bench():
    return Bench()


def test_nobody_is_asked_while_nobody_wants_them(bench):
    bench.go_on(5 * ASK_EVERY_S)
    assert bench.requests == 0
    bench.scrape()
    bench.go_on(10 * WANTED_FOR_S)
    assert bench.requests <= WANTED_FOR_S / ASK_EVERY_S + 1


def test_those_of_held_partitions_are_known_after_the_first_scrape(bench):
    assert bench.scrape() == {}
    bench.go_on(2)
    assert bench.scrape() == {A: 8}
    bench.offsets[A] = 11
    bench.go_on(2 * ASK_EVERY_S)
    assert bench.scrape() == {A: 11}


def test_what_a_silent_cluster_said_is_forgotten_and_asked_for_again(bench):
    bench.scrape()
    bench.go_on(2)
    bench.silent = {A}
    bench.go_on(ASK_EVERY_S)
    assert bench.scrape() == {A: 8}
    bench.go_on(ANSWER_MAX_S)
    assert bench.scrape() == {}
    bench.silent = set()
    bench.go_on(2 * ASK_EVERY_S)
    assert bench.scrape() == {A: 8}


def test_topic_of_which_nobody_says_anything_takes_no_others_away(bench):
    bench.held = {A, B}
    bench.silent = {B}
    for _ in range(10):
        bench.scrape()
        bench.go_on(ASK_EVERY_S)
    assert bench.scrape() == {A: 8}


def test_those_of_partitions_that_went_are_forgotten(bench):
    bench.scrape()
    bench.go_on(2)
    bench.held = set()
    bench.go_on(2 * ASK_EVERY_S)
    assert bench.scrape() == {}

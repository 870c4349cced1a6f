"""How long Kafka keeps records is asked for where somebody publishes; no broker answers here."""

import pytest

from connectors.ingest.lake.topic_retentions import ASK_EVERY_S, TopicRetentions
from storage_core import BrokerUnavailableError


class Bench:
    """A cluster that knows the retention of topics, and a worker's second."""

    def __init__(self):
        self.spans = {"orders": 60.0, "kept": None}
        self.requests, self.now_s, self.is_silent = [], 0.0, False
        self.retentions = TopicRetentions(self)

    def ask_retentions(self, topics):
        self.requests.append(sorted(topics))

        def answer(_wait_s):
            if self.is_silent:
                message = "silent"
                raise BrokerUnavailableError(message)
            return {topic: self.spans[topic] for topic in topics}

        return answer

    def go_on(self, seconds, *topics):
        for _ in range(int(seconds)):
            self.now_s += 1
            self.retentions.tick(self.now_s, topics)


@pytest.fixture
def bench():
    return Bench()


def test_nobody_is_asked_where_no_topic_has_a_lake(bench):
    bench.go_on(2 * ASK_EVERY_S)
    assert bench.requests == []


def test_span_is_there_soon_and_asked_for_every_ten_minutes(bench):
    bench.go_on(2, "orders")
    assert bench.retentions.of(["orders", "other"]) == {"orders": 60.0}
    bench.spans["orders"] = 90.0
    bench.go_on(ASK_EVERY_S, "orders")
    assert (bench.retentions.of(["orders"]), len(bench.requests)) == ({"orders": 90.0}, 2)


def test_topic_that_comes_later_is_asked_for_at_once(bench):
    bench.go_on(2, "orders")
    bench.go_on(2, "orders", "kept")
    assert bench.requests[-1] == ["kept", "orders"]


def test_topic_that_keeps_its_records_for_good_has_none(bench):
    bench.go_on(2, "kept")
    assert bench.retentions.of(["kept"]) == {}


def test_silent_cluster_leaves_what_it_said_before(bench):
    bench.go_on(2, "orders")
    bench.is_silent = True
    bench.go_on(2 * ASK_EVERY_S, "orders")
    assert bench.retentions.of(["orders"]) == {"orders": 60.0}

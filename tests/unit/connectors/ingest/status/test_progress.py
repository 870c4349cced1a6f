"""A running worker says how it gets on, soon, then every thirty seconds, and when asked."""

import pytest
from structlog.testing import CapturingLogger

from connectors.ingest.assignment.partition_writer import PartitionWriter
from connectors.ingest.assignment.unfetched import UnfetchedPartition
from connectors.ingest.status.broker_watch import BrokerWatch
from connectors.ingest.status.counts import WorkerCounts
from connectors.ingest.status.progress import LOG_EVERY_S, LOG_FIRST_AFTER_S, Progress
from connectors.kafka import Partition
from storage_core.testing import ManualClock
from tests.unit.connectors.writers import TOPIC, open_writers

A, B = Partition(TOPIC, 0), Partition(TOPIC, 1)


class Bench:
    """A worker's counts, what Kafka said of ends, and what was told."""

    def __init__(self, writers):
        self.writers: dict[Partition, PartitionWriter] = writers
        self.ends: dict[Partition, int] = {}
        self.unfetched: list[UnfetchedPartition] = []
        self.counts, self.log = WorkerCounts(), CapturingLogger()
        self.broker = BrokerWatch(ManualClock(), CapturingLogger())
        self.progress = Progress(self.counts, lambda _: self.ends, self.broker, 0.0, self.log)

    def tick(self, now_s, waiting=0, quarantined=0, paused=0):
        self.progress.tick(
            now_s,
            self.writers,
            lambda: self.unfetched,
            waiting=waiting,
            quarantined=quarantined,
            paused=paused,
        )

    def logged(self):
        return [call.kwargs for call in self.log.calls if call.args == ("progress",)]


@pytest.fixture
def bench(tmp_path):
    with open_writers(tmp_path, 2) as writers:
        yield Bench(writers)


def test_nothing_is_told_before_its_time(bench):
    bench.tick(LOG_EVERY_S - 0.1)
    assert bench.logged() == []


def test_line_says_rate_lag_late_dead_letters_and_shards(bench):
    bench.counts.received = bench.counts.fetched = 3000
    bench.counts.late, bench.counts.dead_letters = 5, 2
    bench.counts.appended = 2998
    bench.ends = {A: 100, B: 40}
    bench.writers[A].next, bench.writers[B].next = 90, 41
    bench.tick(LOG_EVERY_S)
    assert bench.logged() == [
        {
            "shards": 2,
            "records_s": 100,
            "lag": 10,
            "fetched": 3000,
            "appended": 2998,
            "late": 5,
            "duplicates": 0,
            "dead_letters": 2,
            "discarded": 0,
            "commit_rounds": 0,
            "expired": 0,
            "sealed": 0,
        }
    ]


def test_rate_is_that_since_the_line_before(bench):
    bench.counts.received = 3000
    bench.tick(LOG_EVERY_S)
    bench.tick(LOG_EVERY_S * 2)
    assert [line["records_s"] for line in bench.logged()] == [100, 0]


def test_first_records_are_told_of_soon_and_once(bench):
    bench.tick(5.0)
    bench.counts.received = 300
    for now_s in (6.0, 6.0 + LOG_FIRST_AFTER_S / 2):
        bench.tick(now_s)
    assert bench.logged() == []
    bench.tick(10.0)
    bench.counts.received = 600
    bench.tick(10.0 + LOG_EVERY_S - 1)
    assert [line["records_s"] for line in bench.logged()] == [30]
    bench.tick(10.0 + LOG_EVERY_S)
    assert [line["records_s"] for line in bench.logged()] == [30, 10]


def test_partitions_that_are_not_in_the_lag_are_counted(bench):
    bench.ends = {A: 7}
    bench.tick(LOG_EVERY_S, waiting=3, quarantined=4)
    (line,) = bench.logged()
    assert (line["waiting"], line["quarantined"]) == (3, 4)
    # None of them is in the lag.
    assert (line["lag"], line["lag_unknown"]) == (7, 1 + 3 + 4)


def test_lag_of_no_partition_that_is_held_is_not_zero(bench):
    bench.tick(LOG_EVERY_S)
    bench.writers.clear()
    bench.tick(LOG_EVERY_S * 2, waiting=2)
    bench.tick(LOG_EVERY_S * 3)
    assert [(line["lag"], line.get("lag_unknown")) for line in bench.logged()] == [
        (None, 2),
        (None, 2),
        (0, None),
    ]


def test_who_asks_is_told_with_the_next_look_and_once(bench):
    bench.progress.request()
    bench.tick(1.0)
    bench.tick(2.0)
    assert len(bench.logged()) == 1


def test_lag_is_not_known_while_the_broker_is_away_but_since_when_it_is(bench):
    bench.ends = {A: 100, B: 40}
    bench.broker.unanswered("no answer")
    bench.tick(LOG_EVERY_S)
    bench.broker.answered()
    bench.tick(LOG_EVERY_S * 2)
    away, back = bench.logged()
    assert (away["lag"], away["away_since"]) == (None, "2023-11-14T22:13:20Z")
    assert (back["lag"], back.get("away_since")) == (140, None)


def test_lag_has_what_waits_in_partitions_that_are_not_fetched(bench):
    bench.ends = {A: 7, B: 0}
    bench.unfetched = [
        UnfetchedPartition(Partition(TOPIC, 2), 500, 2000),
        UnfetchedPartition(Partition(TOPIC, 3), None, 9),
    ]
    bench.tick(LOG_EVERY_S, waiting=1, quarantined=2)
    (line,) = bench.logged()
    assert (line["lag"], line["lag_unknown"]) == (7 + 1500, 2)

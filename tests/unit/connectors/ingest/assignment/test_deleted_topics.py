"""A topic that is deleted is a fault, whoever held it last; no broker answers here."""

import pytest
from structlog.testing import CapturingLogger

from connectors.group.quarantine_notes import (
    WHOLE_TOPIC,
    QuarantineNote,
    QuarantineNotes,
)
from connectors.ingest.assignment.deleted_topics import ASK_EVERY_S, DeletedTopics
from connectors.ingest.assignment.quarantine import Quarantine
from connectors.ingest.assignment.topic_identity import GONE_AFTER_S
from connectors.kafka import Partition
from connectors.settings.loading import load_options
from connectors.settings.options import FaultSettings
from storage_core import BrokerUnavailableError, ForeignDataError
from storage_core.testing import ManualClock

ORDERS = Partition("orders", WHOLE_TOPIC)


class Bench:
    """A cluster with topics, a root with streams, and the topics that a worker holds."""

    def __init__(self, root, on_fault="quarantine"):
        self.existing, self.streams, self.held = {"orders", "clicks"}, {"orders", "clicks"}, set()
        self.root, self.is_silent = root, False
        self.requests, self.now_s = 0, 0.0
        self.notes, self.log = QuarantineNotes(root), CapturingLogger()
        faults = FaultSettings.model_validate(on_fault)
        self.quarantine = Quarantine(faults, self.notes, lambda _: 1, ManualClock(), self.log)
        self.deleted = DeletedTopics(["orders", "clicks"], self, self.quarantine, self.stream_of)

    def stream_of(self, topic):
        return topic if topic in self.streams else None

    def ask_topic_ids(self, topics):
        self.requests += 1

        def answer(_wait_s):
            if self.is_silent:
                message = "silent"
                raise BrokerUnavailableError(message)
            return {topic: "id" for topic in topics if topic in self.existing}

        return answer

    def go_on(self, seconds):
        for _ in range(int(seconds * 2)):
            self.now_s += 0.5
            self.deleted.tick(self.now_s, self.held)

    def faults(self):
        return dict(self.quarantine.kinds)


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def test_topic_that_is_gone_is_set_aside_as_a_whole_and_noted(bench):
    bench.go_on(20)
    bench.existing.discard("orders")
    bench.go_on(GONE_AFTER_S - 1)
    assert bench.faults() == {}
    bench.go_on(GONE_AFTER_S + ASK_EVERY_S)
    assert bench.faults() == {ORDERS: "foreign"}
    assert [(note.stream, note.shard) for note in bench.notes.read()] == [("orders", WHOLE_TOPIC)]
    assert not bench.deleted.are_all_gone
    bench.go_on(100)
    assert len([call for call in bench.log.calls if call.args == ("quarantined",)]) == 1


@pytest.mark.parametrize("end", ["there again", "dropped", "held"])
def test_fault_ends_with_the_topic_back_its_stream_gone_or_its_partitions_held(bench, end):
    bench.existing.discard("orders")
    bench.go_on(40)
    assert bench.faults()
    if end == "there again":
        bench.existing.add("orders")
    elif end == "dropped":
        bench.streams.discard("orders")
    else:
        bench.held.add("orders")
    bench.go_on(20)
    assert bench.faults() == {}
    assert list(bench.notes.read()) == []


def test_topic_that_was_never_stored_or_is_held_is_no_fault_of_its_own(bench):
    bench.existing.clear()
    bench.streams.discard("orders")
    bench.held.add("clicks")
    bench.go_on(40)
    assert bench.faults() == {}
    assert bench.deleted.are_all_gone


def test_topic_of_a_pattern_is_known_from_when_it_was_held(bench):
    bench.deleted.held([Partition("later", 3)])
    bench.streams.add("later")
    bench.go_on(40)
    assert bench.faults() == {Partition("later", WHOLE_TOPIC): "foreign"}


def test_silent_broker_says_of_no_topic_that_it_is_gone(bench):
    bench.existing.discard("orders")
    bench.go_on(5)
    bench.is_silent = True
    bench.go_on(60)
    assert bench.faults() == {}
    bench.is_silent = False
    bench.go_on(60)
    assert bench.faults() == {ORDERS: "foreign"}


def test_cluster_is_asked_seldom(bench):
    bench.go_on(100)
    assert bench.requests <= 11


def test_topic_that_is_gone_stops_a_worker_that_is_to_stop(tmp_path):
    bench = Bench(tmp_path, {"foreign": "stop"})
    bench.existing.discard("orders")
    with pytest.raises(ForeignDataError, match="deleted"):
        bench.go_on(40)


@pytest.mark.parametrize(
    ("logged", "is_noted"),
    [
        ('topics=["clicks"]', False),
        ('topics=["clicks","orders"]', True),
        ("topic_pattern=^cli", False),
        ("topic_pattern=^ord", True),
    ],
)
def test_topic_that_is_no_longer_consumed_is_no_longer_noted(bench, logged, is_noted):
    bench.existing.discard("orders")
    bench.go_on(40)
    options = load_options(None, ["root=/r", logged, "kafka.bootstrap.servers=b:1"], {})
    next_one = Bench(bench.root)
    next_one.quarantine.leave_topics_but(options.consumes)
    assert [note.stream for note in bench.notes.read()] == ["orders"] * is_noted
    # Whoever still consumes it says so again.
    bench.go_on(5)
    assert [note.stream for note in bench.notes.read()] == ["orders"]


def test_partition_of_a_topic_of_others_stays_noted(bench):
    bench.notes.write(QuarantineNote("orders", 3, 1, "damage", "why"))
    bench.quarantine.leave_topics_but(lambda _: False)
    assert [note.shard for note in bench.notes.read()] == [3]

"""Shards before they are opened: who waits for the lake, who goes on, who is told why not."""

import threading

import pytest
from structlog.testing import CapturingLogger

from connectors.group.home_mark import HomeMark
from connectors.ingest.assignment.lake_start import KafkaSide
from connectors.ingest.lake.lake_shards import BeginningShardError, LakeShards
from connectors.ingest.lake.lake_tasks import LakeAnswer
from connectors.ingest.status.counts import WorkerCounts
from connectors.kafka import Partition
from connectors.settings.loading import load_options
from storage_core import (
    InvalidRequestError,
    LostRangeError,
    ShardlogError,
    Stream,
    StreamOptions,
    StreamOrigin,
    UnavailableError,
    describe_stream,
    root_id,
)
from storage_core.lake import BegunShard
from storage_core.testing import ManualClock
from tests.unit.connectors.writers import NOWHERE, TOPIC
from tests.waiting import WAIT_MAX_S

A, B = Partition(TOPIC, 0), Partition(TOPIC, 1)


class ScriptedLake:
    """Answers every order with one answer, or a failure, once its door is open."""

    def __init__(self):
        self.orders, self.failure, self.answer = [], None, LakeAnswer((), {}, {})
        self.door = threading.Event()
        self.door.set()

    def start(self, order):
        self.orders.append(order)
        assert self.door.wait(WAIT_MAX_S), "nobody opened"
        if self.failure is not None:
            raise self.failure
        return self.answer

    @property
    def partitions(self):
        """The partitions of each order."""
        return [sorted(order.sides) for order in self.orders]


class Bench:
    """A topic's stream with a lake, whose shard 0 is here, and the shards of a worker."""

    def __init__(self, root):
        origin = StreamOrigin("kafka", TOPIC, "id", "integer", "timestamp")
        options = StreamOptions(unit="ms", lake=f"file://{root.parent}/lake/{root.name}")
        Stream.create(root, TOPIC, options, origin=origin).close()
        Stream.add_shards(root, TOPIC, {0: 0})
        self.root, self.lake, self.log = root, ScriptedLake(), CapturingLogger()
        self.clock, self.counts, self.home = ManualClock(), WorkerCounts(), {}
        settings = [f"root={root}", f'topics=["{TOPIC}"]', f"kafka.bootstrap.servers={NOWHERE}"]
        loaded = load_options(None, settings, {})
        self.shards = LakeShards(loaded, self.counts, self.clock, self.log, self.lake.start)

    def settle(self, *partitions):
        """Return what became of each partition; one that settles is None."""
        outcomes: list[type[ShardlogError] | None] = []
        for partition in partitions:
            try:
                stream = describe_stream(self.root, TOPIC)
                self.shards.settle(partition, stream, self.side)
                outcomes.append(None)
            except ShardlogError as error:
                outcomes.append(type(error))
        return outcomes

    def settle_at_last(self, partition):
        """Try a partition as a worker does, until it waits no longer for what is under way."""
        outcome = BeginningShardError
        while outcome is BeginningShardError:
            for topic in self.shards._topics.values():
                assert topic.task is None or topic.task.is_over(WAIT_MAX_S)
            (outcome,) = self.settle(partition)
        return outcome

    def side(self, partition):
        return KafkaSide(0, 0, self.home.get(partition))

    def left_by_us(self, partition):
        lineage = describe_stream(self.root, TOPIC).lineages[partition.number]
        self.home[partition] = HomeMark(root_id(self.root), lineage)

    def said(self, event):
        return [call.kwargs for call in self.log.calls if call.args == (event,)]


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path / "root")


@pytest.fixture
def shut(bench):
    """The bench, whose lake answers only once its door is opened; nobody waits for that."""
    bench.lake.door.clear()
    bench.shards.come([A, B])
    bench.clock.elapsed_s += 10
    yield bench
    bench.lake.door.set()


def test_partitions_that_come_together_ask_the_store_once(bench):
    bench.shards.come([A, B])
    assert bench.settle(A, B) == [None, None]
    assert bench.lake.partitions == [[0, 1]]


def test_shard_that_is_opened_again_asks_nobody(bench):
    bench.shards.come([A])
    assert bench.settle(A, A) == [None, None]
    assert len(bench.lake.orders) == 1


def test_partition_that_was_away_is_asked_of_anew(bench):
    for _ in range(2):
        bench.shards.come([A])
        assert bench.settle(A) == [None]
        bench.shards.go([A])
    assert len(bench.lake.orders) == 2


def test_shard_that_was_dropped_meanwhile_is_asked_of_anew(bench):
    bench.shards.come([B])
    assert bench.settle(B, B) == [None, None]
    assert len(bench.lake.orders) == 2


def test_stream_without_a_lake_asks_nobody(bench, tmp_path):
    origin = StreamOrigin("kafka", TOPIC, "id", "integer", "timestamp")
    Stream.create(tmp_path, TOPIC, StreamOptions(unit="ms"), origin=origin).close()
    bench.shards.settle(A, describe_stream(tmp_path, TOPIC), bench.side)
    assert bench.lake.orders == []


def test_partitions_wait_while_the_store_is_slow_and_go_on_once_it_answers(shut):
    assert shut.settle(A, B) == [BeginningShardError, BeginningShardError]
    assert shut.shards.is_under_way
    shut.lake.door.set()
    assert shut.settle_at_last(A) is None
    assert shut.settle(B) == [None]
    assert len(shut.lake.orders) == 1
    assert not shut.shards.is_under_way


def test_partition_that_goes_while_the_store_is_asked_is_asked_of_when_it_comes_again(shut):
    shut.settle(A, B)
    shut.shards.come([A])
    shut.clock.elapsed_s += 10
    shut.lake.door.set()
    assert shut.settle_at_last(B) is None
    assert shut.settle_at_last(A) is None
    assert shut.lake.partitions == [[0, 1], [0]]


def test_store_that_is_silent_is_asked_once_for_all_and_again_after_a_while(bench):
    bench.lake.failure = UnavailableError("no answer", stream=TOPIC)
    bench.shards.come([A, B])
    assert bench.settle(A, B, A, B) == [UnavailableError] * 4
    assert bench.lake.partitions == [[0, 1]]
    bench.clock.elapsed_s += 2.1
    bench.lake.failure = None
    assert [bench.settle_at_last(A), *bench.settle(B)] == [None, None]
    assert bench.lake.partitions == [[0, 1], [0, 1]]


def test_log_that_the_group_had_last_goes_on_without_the_store(bench):
    bench.lake.failure = UnavailableError("no answer", stream=TOPIC)
    bench.left_by_us(A)
    bench.shards.come([A, B])
    assert bench.settle(A, B) == [None, UnavailableError]
    assert [line["shards"] for line in bench.said("lake not asked")] == [[0]]


def test_log_that_another_root_has_followed_waits_for_the_store(bench):
    bench.lake.failure = UnavailableError("no answer", stream=TOPIC)
    bench.home[A] = HomeMark("another", "another's")
    bench.shards.come([A])
    assert bench.settle(A) == [UnavailableError]


def test_store_that_refuses_is_asked_again_with_each_try(bench):
    bench.lake.failure = InvalidRequestError("credentials are refused", stream=TOPIC)
    bench.shards.come([A])
    assert bench.settle(A) == [InvalidRequestError]
    bench.lake.failure = None
    assert bench.settle_at_last(A) is None


def test_store_that_refused_is_asked_of_all_again_after_a_while(bench):
    bench.lake.failure = InvalidRequestError("credentials are refused", stream=TOPIC)
    bench.shards.come([A, B])
    assert bench.settle(A) == [InvalidRequestError]
    bench.lake.failure = None
    bench.clock.elapsed_s += 2.1
    assert [bench.settle_at_last(B), bench.settle_at_last(A)] == [None, None]
    assert bench.lake.partitions == [[0, 1], [0, 1]]


def test_fault_of_one_partition_is_its_own(bench):
    lost = LostRangeError("nobody has it", stream=TOPIC, shard=1, start=0, end=5)
    bench.lake.answer = LakeAnswer((0, 1), {}, {1: lost})
    bench.shards.come([A, B])
    assert bench.settle(A, B) == [None, LostRangeError]
    assert bench.shards.has(B)


def test_shards_that_began_are_told_and_counted(bench):
    begun = {at: BegunShard(at, 3, 9, 6, 2, archived=False) for at in (0, 1_000_000)}
    bench.lake.answer = LakeAnswer(begun.keys(), begun, {})
    bench.shards.come([A])
    assert bench.settle(A) == [None]
    lines = bench.said("shard begins from the lake")
    assert [(line["shard"], line["start"], line["end"]) for line in lines] == [
        (0, 3, 9),
        (1_000_000, 3, 9),
    ]
    assert (lines[0]["rows"], lines[0]["files"]) == (6, 2)
    assert bench.counts.lake_begun_shards == {TOPIC: 2}

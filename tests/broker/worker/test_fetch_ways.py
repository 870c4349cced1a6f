"""Goal: the compiled fetch hands over what the one in Python does, record by record.

Method: a topic that holds every shape of record is read by both, through the same calls; columns,
faults in their places, epochs and positions are compared. Then what only one of them could get
wrong: partitions given back and taken at once, queues that outlive their client.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from connectors.kafka import (
    Consumer,
    Fetched,
    FetchWay,
    Partition,
    PartitionFault,
    Place,
    Producer,
)
from connectors.kafka.native_library import Refusal, load
from storage_core import ClosedError
from tests.broker.support.cluster import Transactions
from tests.broker.support.lab import CLOCK, Lab, Topic
from tests.broker.support.raw_producer import produce_with_raw_header
from tests.unit.forks import in_fork
from tests.waiting import WAIT_MAX_S, await_that

NATIVE = load()
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TURNS = 8
WAYS: tuple[FetchWay, FetchWay] = ("python", "native")
pytestmark = pytest.mark.skipif(
    isinstance(NATIVE, Refusal), reason=NATIVE.reason if isinstance(NATIVE, Refusal) else ""
)

Row = tuple[Any, ...]


@contextmanager
def reading(lab: Lab, way: FetchWay, **settings: Any) -> Iterator[Consumer]:
    """A consumer that fetches this way, and does not come to its end in the middle of a fetch."""
    own = {name.replace("__", "."): value for name, value in settings.items()}
    configured = {"bootstrap.servers": lab.bootstrap, "group.id": f"ways-{way}", **own}
    consumer = Consumer(configured, way)
    assert consumer.fetches_by == way
    try:
        yield consumer
    finally:
        consumer.close()


def rows_of(fetched: Fetched) -> dict[Partition, list[Row]]:
    """Return records as plain values, by partition."""
    keys, values = fetched.keys.to_pylist(), fetched.values.to_pylist()
    headers = fetched.headers.to_pylist() if fetched.headers is not None else [None] * len(keys)
    bad = fetched.misnamed.tolist() if fetched.misnamed is not None else [False] * len(keys)
    columns = zip(
        *(c.tolist() for c in (fetched.offsets, fetched.timestamps, fetched.kinds)),
        *(keys, values, headers, bad),
        strict=True,
    )
    rows = list(columns)
    for array in filter(None, (fetched.keys, fetched.values, fetched.headers)):
        array.validate(full=True)
    return {at: rows[start:end] for at, (start, end) in fetched.runs.items()}


class Read:
    """What a consumer handed over, by partition: records, faults in their places, epochs."""

    def __init__(self) -> None:
        self.of: dict[Partition, list[Row | PartitionFault]] = {}
        self.epochs: dict[Partition, int | None] = {}

    def fetch(self, consumer: Consumer, most: int = 1000) -> None:
        for records, fault in consumer.fetch(most, 0.05):
            for partition, rows in rows_of(records).items():
                assert rows, "a run holds a record at least"
                self.of.setdefault(partition, []).extend(rows)
            self.epochs.update(records.epochs)
            if fault is not None:
                self.of.setdefault(fault.partition, []).append(fault)

    def until(self, consumer: Consumer, is_done: Callable[[], bool], most: int = 1000) -> None:
        deadline = CLOCK.monotonic_s() + WAIT_MAX_S
        while not is_done():
            assert CLOCK.monotonic_s() < deadline, {at: len(own) for at, own in self.of.items()}
            self.fetch(consumer, most)

    def count(self) -> int:
        return sum(map(len, self.of.values()))

    def has(self, count: int) -> bool:
        return self.count() >= count

    def has_of(self, partitions: int) -> bool:
        return len(self.of) >= partitions

    def rows(self) -> list[Row]:
        return [row for own in self.of.values() for row in own if isinstance(row, tuple)]

    def offsets(self, partition: Partition) -> list[int]:
        return [row[0] for row in self.of.get(partition, []) if isinstance(row, tuple)]


def read_all(lab: Lab, topic: Topic, way: FetchWay, most: int = 1000, **settings: Any) -> Read:
    """Read a topic to its end; the last positions are part of what was read."""
    ends = {Partition(topic.name, number): end for number, end in topic.ends().items()}
    read = Read()
    with reading(lab, way, **settings) as consumer:
        consumer.begin({partition: Place(0) for partition in ends})
        busy = {partition: end for partition, end in ends.items() if end}
        read.until(consumer, lambda: consumer.positions(busy) == busy, most)
    return read


def expect_equal(lab: Lab, topic: Topic, records: int, **settings: Any) -> Read:
    # As many a call as not to end where the other does.
    python = read_all(lab, topic, "python", 700, **settings)
    native = read_all(lab, topic, "native", 1000, **settings)
    assert native.of == python.of
    assert native.epochs == python.epochs
    assert native.count() == records
    return native


def any_bytes(lab: Lab, most: int) -> bytes | None:
    return lab.chance.choice((None, b"", lab.chance.randbytes(lab.chance.randrange(most))))


def any_headers(lab: Lab) -> list[tuple[str, bytes | None]] | None:
    names = lab.chance.choices(("", "a", "a", "trace", "été"), k=lab.chance.randrange(4))
    return [(name, any_bytes(lab, 20)) for name in names] or None


def produce_any(
    lab: Lab, topic: Topic, records: int, *, with_headers: bool = True, **settings: str
) -> None:
    own = {name.replace("_", "."): value for name, value in settings.items()}
    with Producer(lab.bootstrap, own) if own else lab.producer() as producer:
        for number in range(records):
            headers = any_headers(lab) if with_headers else None
            partition = lab.chance.randrange(3)
            producer.send(
                topic.name, any_bytes(lab, 9), any_bytes(lab, 300), number + 1, headers, partition
            )
    assert producer.acknowledged == records, producer.first_failure


def test_all_codecs_and_shapes_of_records_are_equal(lab: Lab) -> None:
    topic = lab.topic(partitions=3, retention_ms="-1")
    for codec in CODECS:
        produce_any(lab, topic, 500, compression_codec=codec)
    read = expect_equal(lab, topic, len(CODECS) * 500)
    assert {row[5] is None for row in read.rows()} == {True, False}


def test_records_without_headers_are_equal(lab: Lab) -> None:
    topic = lab.topic(partitions=3, retention_ms="-1")
    produce_any(lab, topic, 1000, with_headers=False)
    expect_equal(lab, topic, 1000)


def test_names_of_headers_that_are_no_utf8_are_equal(lab: Lab) -> None:
    topic = lab.topic(partitions=3, retention_ms="-1")
    names = (b"\xff", b"fine", b"\xed\xa0\x80", "été".encode(), b"\xc0\xaf", b"\xf4\x90\x80\x80")
    produce_any(lab, topic, 20)
    for name in names:
        produce_with_raw_header(lab.bootstrap, topic.name, name)
    read = expect_equal(lab, topic, 20 + len(names))
    assert sum(row[6] for row in read.rows()) == 4


def test_times_of_appending_are_equal(lab: Lab) -> None:
    topic = lab.topic(partitions=3, message_timestamp_type="LogAppendTime")
    produce_any(lab, topic, 100)
    read = expect_equal(lab, topic, 100)
    assert {row[2] for row in read.rows()} == {2}


def test_transactions_are_equal_and_control_records_are_passed(lab: Lab) -> None:
    topic = lab.topic(partitions=3)
    transactions, committed = Transactions(lab.bootstrap, topic.name), 0
    for number in range(12):
        records = [(b"%04d" % at, b"%d" % number) for at in range(lab.chance.randrange(1, 100))]
        is_committed = number % 4 != 3
        transactions.send(topic.name, records, is_committed=is_committed)
        committed += len(records) * is_committed
    expect_equal(lab, topic, committed)


def test_values_of_16_mib_are_equal(lab: Lab) -> None:
    topic = lab.topic(partitions=2, max_message_bytes=str(20 * 2**20))
    with Producer(lab.bootstrap, {"message.max.bytes": str(20 * 2**20)}) as producer:
        for number in range(4):
            value = bytes([number]) * (16 * 2**20 - number)
            producer.send(topic.name, b"large", value, None, None, number % 2)
            producer.send(topic.name, None, b"small", None, None, number % 2)
    assert producer.first_failure is None
    expect_equal(lab, topic, 8)


def test_fault_of_a_partition_stands_in_its_place_and_it_goes_on_in_both(lab: Lab) -> None:
    topic = lab.topic(partitions=2)
    sound, refused = topic.partitions()
    lab.produce(topic, 300, partition=0)
    lab.produce(topic, 10, partition=1)
    messages = []
    for way in WAYS:
        read = Read()
        with reading(lab, way) as consumer:
            consumer.begin({sound: Place(0), refused: Place(5000)})
            read.until(consumer, partial(read.has, 301))
            # Taken again where there is something: it goes on, as the worker has it; and again
            # when it has given records, whose forwarding is then held to be there.
            for place, count in ((0, 311), (5000, 312), (0, 322)):
                consumer.seek(refused, Place(place))
                read.until(consumer, partial(read.has, count))
        messages.append(read.of)
    python, native = messages
    fault = native[refused][0]
    assert isinstance(fault, PartitionFault)
    assert fault.is_refused_offset
    assert native == python


@pytest.mark.parametrize("way", WAYS)
def test_sought_and_paused_partitions_go_on_where_they_are_told(lab: Lab, way: FetchWay) -> None:
    topic = lab.topic(partitions=2)
    sought, other = Partition(topic.name, 0), Partition(topic.name, 1)
    for number in (0, 1):
        lab.produce(topic, 5000, partition=number)
    read = Read()
    with reading(lab, way) as consumer:
        consumer.begin({sought: Place(0), other: Place(0)})
        read.until(consumer, lambda: len(read.offsets(sought)) >= 100, 100)
        consumer.pause([other])
        before = len(read.offsets(other))
        for place in (4000, 10, 2500):
            consumer.seek(sought, Place(place))
            read.of.pop(sought, None)
            read.until(consumer, lambda: len(read.offsets(sought)) >= 300, 100)
            # Records in hand when it sought may come first, and none after one from there.
            offsets = read.offsets(sought)
            assert offsets[offsets.index(place) :] == list(
                range(place, place + len(offsets) - offsets.index(place))
            )
        assert len(read.offsets(other)) <= before + 100
        consumer.resume([other])
        read.until(consumer, lambda: len(read.offsets(other)) >= 5000)
    assert read.offsets(other) == list(range(5000))


def test_partition_given_back_and_taken_at_once_goes_on_each_time(lab: Lab) -> None:
    topic = lab.topic(partitions=6)
    for number in range(6):
        lab.produce(topic, 1000, partition=number)
    start = dict.fromkeys(topic.partitions(), 0)
    with reading(lab, "native") as consumer:
        for _ in range(TURNS):
            consumer.begin({partition: Place(offset) for partition, offset in start.items()})
            read = Read()
            read.until(consumer, partial(read.has_of, 6), 50)
            for partition, offset in start.items():
                offsets = read.offsets(partition)
                assert offsets == list(range(offset, offset + len(offsets)))
                start[partition] = lab.chance.randrange(900)
            consumer.unassign(start)


def test_failure_of_a_callback_is_raised_by_the_fetch(lab: Lab) -> None:
    topic = lab.topic(partitions=1)

    def refuse(_partitions: list[Partition]) -> None:
        message = "not now"
        raise RuntimeError(message)

    with reading(lab, "native", group__id=topic.name) as consumer:
        consumer.subscribe([topic.name], refuse, lambda _: None, lambda _: None)
        with pytest.raises(RuntimeError, match="not now"):
            Read().until(consumer, lambda: False)


def join(consumer: Consumer, topic: Topic, read: Read) -> None:
    """Join the group; what is given is read from its beginning."""

    def begin(partitions: list[Partition]) -> None:
        consumer.begin({partition: Place(0) for partition in partitions})

    def revoke(partitions: list[Partition]) -> None:
        consumer.unassign(partitions)
        for partition in partitions:
            read.of.pop(partition, None)

    consumer.subscribe([topic.name], begin, revoke, revoke)


def test_group_shares_partitions_out_and_takes_them_back(lab: Lab) -> None:
    topic = lab.topic(partitions=4)
    for number in range(4):
        lab.produce(topic, 2000, partition=number)
    ours, theirs = Read(), Read()
    with reading(lab, "native", group__id=topic.name) as first:
        join(first, topic, ours)
        ours.until(first, partial(ours.has_of, 4), 100)
        with reading(lab, "native", group__id=topic.name) as second:
            join(second, topic, theirs)
            while not theirs.has_of(2):
                ours.fetch(first, 100)
                theirs.fetch(second, 100)
            assert not set(ours.of) & set(theirs.of)
        ours.until(first, partial(ours.has, 8000))
        assert len(ours.of) == 4
        assert all(ours.offsets(partition) == list(range(2000)) for partition in ours.of)


@pytest.mark.parametrize("way", WAYS)
def test_partitions_given_while_the_consumer_closes_are_taken_and_given_back(
    lab: Lab, way: FetchWay
) -> None:
    topic = lab.topic(partitions=3)
    calls: list[tuple[str, int]] = []
    with reading(lab, way, group__id=topic.name) as consumer:

        def begin(partitions: list[Partition]) -> None:
            calls.append(("given", len(partitions)))
            consumer.begin({partition: Place(0) for partition in partitions})

        def revoke(taken: list[Partition]) -> None:
            calls.append(("taken", len(taken)))
            consumer.unassign(taken)

        consumer.subscribe([topic.name], begin, revoke, revoke)
        await_that(lambda: lab.cluster.assigned(topic.name) == 3, "the group's partitions shared")
        # Answered on the same connection, so behind the group's own answer.
        consumer.group_places(topic.partitions())
    consumer.raise_failed_callback()
    assert calls == [("given", 3), ("taken", 3)]


def test_everything_made_is_destroyed_with_its_consumer(lab: Lab) -> None:
    assert not isinstance(NATIVE, Refusal)
    topic = lab.topic(partitions=3)
    lab.produce(topic, 1000)
    read_all(lab, topic, "native")
    # What other tests have left in circles.
    gc.collect()
    left = Consumer({"bootstrap.servers": lab.bootstrap, "group.id": topic.name}, "native")
    left.begin({partition: Place(0) for partition in topic.partitions()})
    read = Read()
    read.until(left, partial(read.has, 1))
    counted = NATIVE.counted()
    assert counted.queues_made == counted.queues_gone + 1 + 3
    del left
    # Its callbacks hold it in turn.
    gc.collect()
    counted = NATIVE.counted()
    assert counted.queues_made == counted.queues_gone > 0
    assert counted.messages_made == counted.messages_gone > 1000


def test_fork_may_not_fetch_and_harms_nobody(lab: Lab) -> None:
    topic = lab.topic(partitions=1)
    lab.produce(topic, 100)
    (partition,) = topic.partitions()
    read = Read()
    with reading(lab, "native") as consumer:
        consumer.begin({partition: Place(0)})
        assert isinstance(in_fork(lambda: consumer.fetch(1, 0)), ClosedError)
        read.until(consumer, partial(read.has, 100))
    assert read.offsets(partition) == list(range(100))

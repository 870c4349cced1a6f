"""Goal: a rebalance takes no longer than its work, and the group has the offsets of what goes.

Method: two consumers share a group; each commits inside its callbacks, as a worker does, while the
partitions move from one to the other and back.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from connectors.kafka import Consumer, FetchWay, Partition, Place
from connectors.kafka.settings import REQUEST_TIMEOUT_S
from tests.broker.support.fetch_ways import BY_BOTH_WAYS
from tests.broker.support.lab import CLOCK, FAST_GROUP, Lab, Topic
from tests.waiting import await_that


class Member:
    """A consumer that commits an offset of its own for what goes, and how long that took."""

    def __init__(self, lab: Lab, topic: Topic, way: FetchWay, offset: int) -> None:
        settings = {"bootstrap.servers": lab.bootstrap, "group.id": topic.name, **FAST_GROUP}
        self.consumer, self._offset = Consumer(settings, way), offset
        self.held: set[Partition] = set()
        self.took_s: list[float] = []
        self.consumer.subscribe([topic.name], self._begin, self._revoke, self._revoke)

    def fetch(self) -> None:
        self.consumer.fetch(100, 0.01)

    def _begin(self, partitions: list[Partition]) -> None:
        self.consumer.begin({partition: Place(0) for partition in partitions})
        self.held.update(partitions)

    def _revoke(self, partitions: list[Partition]) -> None:
        places = {partition: Place(self._offset) for partition in partitions}
        begun_s = CLOCK.monotonic_s()
        self.consumer.commit_group(places, is_last=True)
        self.took_s.append(CLOCK.monotonic_s() - begun_s)
        self.consumer.unassign(partitions)
        self.held.difference_update(partitions)


@contextmanager
def joined(lab: Lab, topic: Topic, way: FetchWay, offset: int) -> Iterator[Member]:
    made = Member(lab, topic, way, offset)
    try:
        yield made
    finally:
        made.consumer.close()


def fetch_until_shared(*members: Member, partitions: int) -> None:
    def are_shared() -> bool:
        for member in members:
            member.fetch()
        shares = [len(member.held) for member in members]
        return sum(shares) == partitions and all(shares)

    await_that(are_shared, lambda: f"shared out: {[member.held for member in members]}")


@BY_BOTH_WAYS
def test_offsets_of_what_goes_are_committed_without_holding_the_group_up(
    lab: Lab, fetch: FetchWay
) -> None:
    topic = lab.topic(partitions=4)
    lab.produce(topic, 2000)
    with joined(lab, topic, fetch, 11) as first:
        fetch_until_shared(first, partitions=4)
        with joined(lab, topic, fetch, 22) as second:
            fetch_until_shared(first, second, partitions=4)
            theirs = set(second.held)
            places = first.consumer.group_places(topic.partitions())
            assert {at: place.offset for at, place in places.items()} == dict.fromkeys(theirs, 11)
        fetch_until_shared(first, partitions=4)
        places = first.consumer.group_places(topic.partitions())
        assert {at: place.offset for at, place in places.items()} == dict.fromkeys(theirs, 22)
    took_s = [*first.took_s, *second.took_s]
    assert len(took_s) == 3
    assert max(took_s) < REQUEST_TIMEOUT_S / 2, took_s

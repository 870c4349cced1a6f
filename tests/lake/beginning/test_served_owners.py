"""Readers of several servers go on where a partition's log has begun from the lake meanwhile.

Roots of one topic hand its partition to each other, over the lake: who gets it back archives the
log that it had. One reader lives throughout.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from connectors.serve.server import ShardServer
from storage_core import StreamReader
from storage_core.lake import begin_from_lake, publish_stream
from tests.log.serve.owners import NAME, Root, Topic, expect_all, served_at, together, triples
from tests.log.served import AT_ONCE, PATIENT

# More than all buffers between a server and its client, with as many records.
PAYLOAD_BYTES = 16_384
RECORDS = 600


class Relay:
    """Roots of one topic of one partition, with a server each, and the lake that they share."""

    def __init__(self, place: Path, stack: ExitStack) -> None:
        self.topic = Topic(1, padding=bytes(PAYLOAD_BYTES))
        self.topic.produce(0, RECORDS)
        lake = f"file://{place}/lake"
        self._roots = [
            stack.enter_context(Root(place / name, self.topic, lake=lake)) for name in ("a", "b")
        ]
        self.servers: list[ShardServer] = [
            stack.enter_context(served_at(root)) for root in self._roots
        ]
        self._owner: Root | None = None

    def reopen(self) -> None:
        """Let the owner close its log and open it, which is another generation of it."""
        assert self._owner is not None
        self._owner.leave(0)
        self._owner.take(0)

    def hand_to(self, place: int, end: int) -> None:
        """Let a root have the partition, from where the other published it, up to an offset."""
        root = self._roots[place]
        if self._owner is not None:
            self._owner.stream.seal()
            publish_stream(self._owner.root, NAME)
            self._owner.leave(0)
            begin_from_lake(root.root, NAME, [0])
            root.has.add(0)
        root.owns(0, end)
        self._owner = root


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[Relay]:
    with ExitStack() as stack:
        yield Relay(tmp_path, stack)


def test_reader_goes_on_where_a_root_begins_from_the_lake_again(relay: Relay) -> None:
    relay.hand_to(0, 100)
    with StreamReader.open(together(*relay.servers), NAME, server=AT_ONCE) as reader:
        for end, place in ((200, 1), (300, 0), (400, 1)):
            relay.hand_to(place, end)
            # A shard that is new to a root is found by that.
            reader.refresh()
            expect_all(reader, relay.topic.between(0, 0, end))


def test_scan_goes_on_where_its_root_begins_from_the_lake_meanwhile(relay: Relay) -> None:
    relay.hand_to(0, RECORDS)
    with StreamReader.open(together(*relay.servers), NAME, server=PATIENT) as reader:
        batches = reader.tail(0)
        rows = triples([next(batches)])
        relay.hand_to(1, RECORDS)
        relay.hand_to(0, RECORDS)
        rows += triples(batches)
    assert rows == [record.row() for record in relay.topic.between(0, 0, RECORDS)]


def test_generation_of_a_log_is_none_of_the_one_in_its_place(relay: Relay) -> None:
    relay.hand_to(0, 100)
    with StreamReader.open(together(*relay.servers), NAME, server=AT_ONCE) as reader:

        def horizons() -> set[tuple[int, int]]:
            seen = set()
            for _ in range(5):
                relay.reopen()
                seen.add(reader.horizon(0))
            return seen

        before = horizons()
        relay.hand_to(1, 100)
        relay.hand_to(0, 100)
        reader.refresh()
        assert before.isdisjoint(horizons())

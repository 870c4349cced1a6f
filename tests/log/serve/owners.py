"""The vocabulary of tests of owners: one topic as a plain list, and roots that have pieces of it.

topic = Topic(partitions=2)
topic.produce(0, 10)              ten records of partition 0
with Owner(folder, topic) as a:   a root, its writer, and a server over it
    a.take(0, 0)                  it takes partition 0 over at an address
    a.store(0, 25)                stores it up to before 25
    a.leave(0)                    and lets go of it
    a.address                     where its server listens
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Self

from connectors.serve.server import ShardServer
from connectors.serve.settings import ServeSettings
from storage_core import Stream, StreamOptions, StreamOrigin, StreamReader
from tests.log.workbench import batch_of, rows_of

NAME = "clicks"
IDS = 5
_COLUMNS = ("secondary", "primary", "shard", "address", "payload")


@dataclass(frozen=True, slots=True)
class Produced:
    """One record of the topic."""

    shard: int
    address: int
    secondary: int
    primary: int
    payload: bytes | None

    def row(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in _COLUMNS)


@dataclass
class Topic:
    """The records of each partition, by offset; some offsets are none's."""

    partitions: int
    topic_id: str = "topic-id-1"
    padding: bytes = b""
    chance: Random = field(default_factory=lambda: Random(7))
    records: dict[int, list[Produced]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.records = {shard: [] for shard in range(self.partitions)}
        self.ends = dict.fromkeys(range(self.partitions), 0)

    def produce(self, shard: int, count: int) -> None:
        for _ in range(count):
            address = self.ends[shard] + (self.chance.random() < 0.1)
            primary = max(0, address + self.chance.randrange(-20, 5))
            payload = (
                None if self.chance.random() < 0.1 else b"%d:%d" % (shard, address) + self.padding
            )
            secondary = self.chance.randrange(IDS)
            self.records[shard].append(Produced(shard, address, secondary, primary, payload))
            self.ends[shard] = address + 1

    def between(self, shard: int, start: int, end: int) -> list[Produced]:
        return [one for one in self.records[shard] if start <= one.address < end]

    def below(self, ends: dict[int, int]) -> list[Produced]:
        return [one for shard, end in ends.items() for one in self.between(shard, 0, end)]

    @property
    def origin(self) -> StreamOrigin:
        return StreamOrigin("kafka", NAME, self.topic_id, "integer", "timestamp")


class Root:
    """A root that has pieces of a topic, with the writer of what it owns. A context manager."""

    def __init__(self, root: Path, topic: Topic, **options: Any) -> None:
        self.root = root
        self.topic = topic
        self.owned: set[int] = set()
        options = {"block_records": 16, **options}
        Stream.create(root, NAME, StreamOptions(**options), origin=topic.origin).close()
        self.has: set[int] = set()
        self._stream: Stream | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def take(self, shard: int, born: int = 0) -> None:
        """Own a partition; a shard that is not there yet begins at an address."""
        if shard not in self.has:
            Stream.add_shards(self.root, NAME, {shard: born})
            self.has.add(shard)
        self._own({*self.owned, shard})

    def owns(self, shard: int, end: int, born: int = 0) -> None:
        """Own a partition, with its records up to before an offset."""
        self.take(shard, born)
        self.store(shard, end)

    def owned_before(self, shard: int, end: int, born: int = 0) -> None:
        """Have a partition's records up to before an offset, and own it no more."""
        self.owns(shard, end, born)
        self.leave(shard)

    def leave(self, shard: int) -> None:
        self._own(self.owned - {shard})

    def store(self, shard: int, end: int) -> None:
        """Store a partition's records up to before an offset."""
        assert self._stream is not None
        records = self.topic.between(shard, self._stream.committed()[shard], end)
        if records:
            batch = batch_of(
                [one.primary for one in records],
                secondary=[one.secondary for one in records],
                payload=[one.payload for one in records],
            )
            addresses = [one.address for one in records]
            self._stream.append_batch(batch, shard=shard, addresses=addresses)
            self._stream.commit()

    def committed(self, shard: int) -> int:
        assert self._stream is not None
        return self._stream.committed()[shard]

    @property
    def stream(self) -> Stream:
        assert self._stream is not None
        return self._stream

    def stop(self) -> None:
        self._own(set())

    def _own(self, shards: set[int]) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        self.owned = set(shards)
        if shards:
            self._stream = Stream.open(self.root, NAME, sorted(shards))


@contextmanager
def served_at(root: Root | Path, port: int = 0) -> Iterator[ShardServer]:
    """A server over a root, in this process."""
    place = root if isinstance(root, Path) else root.root
    settings = ServeSettings(root=place, listen=f"127.0.0.1:{port}")
    with ShardServer(settings, "1.2.3") as server:
        yield server


def together(*servers: Any) -> str:
    """Return the addresses of servers, as a reader takes them."""
    return "shardlog://" + ",".join(server.address for server in servers)


def triples(batches: Any) -> list[tuple[Any, ...]]:
    """Return rows of an answer as tuples."""
    return [tuple(row[name] for name in _COLUMNS) for row in rows_of(batches)]


def visited(reader: StreamReader, secondary: int) -> list[int]:
    """Return the addresses of what `for_each` calls its function on."""
    seen: list[int] = []
    reader.for_each(secondary, fn=lambda record: seen.append(record.address))
    return seen


def expect_newest(reader: StreamReader, records: Sequence[Produced]) -> None:
    """Assert that of equal ids and primaries the last stored is shown, unless it is a tombstone."""
    shards: dict[tuple[int, int], set[int]] = {}
    last: dict[tuple[int, int], Produced] = {}
    for record in sorted(records, key=lambda one: one.address):
        place = record.secondary, record.primary
        shards.setdefault(place, set()).add(record.shard)
        last[place] = record
    # Between shards it is for the writers' clocks to say.
    of_one = {place for place, having in shards.items() if len(having) == 1}
    right = [last[place] for place in sorted(of_one) if last[place].payload is not None]
    rows = [row for row in triples(reader.read(latest_by="primary")) if row[:2] in of_one]
    assert rows == [record.row() for record in right]


def expect_all(reader: StreamReader, records: Sequence[Produced]) -> None:
    """Assert that every way to read has these records, each once and in its order."""
    rows = [one.row() for one in records]
    assert triples(reader.read()) == sorted(rows, key=lambda row: row[:4])
    assert sorted(triples(reader.scan())) == sorted(rows)
    for secondary in range(IDS):
        own = [one for one in records if one.secondary == secondary]
        ordered = sorted(own, key=lambda one: (one.primary, one.shard, one.address))
        some = triples(reader.read(ids=secondary, limit=3))
        assert some == [one.row() for one in ordered[:3]]
        assert visited(reader, secondary) == [one.address for one in ordered]
        newest = reader.latest(secondary)
        if own:
            most = max(one.primary for one in own)
            place = (newest[secondary].shard, newest[secondary].address)
            last = {one.shard: one.address for one in own if one.primary == most}
            assert newest[secondary].primary == most
            assert place in last.items()
        else:
            assert newest == {}
    expect_newest(reader, records)
    assert reader.earliest() == min((one.primary for one in records), default=None)
    for shard in {one.shard for one in records}:
        own = [one for one in records if one.shard == shard]
        assert triples(reader.tail(shard)) == [one.row() for one in own]

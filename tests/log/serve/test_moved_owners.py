"""Goal: whoever owns a partition and whoever answers, no reader is short, or sees a row twice.

Method: rounds with chance from one seed (SHARDLOG_FAULT_SEED replays it). *Moves*: three roots have
a topic of two partitions between them; in each step a partition is produced to, stored, or moves
to another root, which begins below where the last one ended or goes on with what it has; or a
server ends, or listens again. After each step one reader that lives throughout is compared with the
topic as a plain list: all it shows is right, it never goes back, and it refuses only while a server
is away. *Kill* and *freeze*: two servers in processes of their own have overlapping copies; the one
that is read from is killed or frozen in mid-answer, and what the reader had taken and what it takes
then is the whole log. `make faults KIND=owners` runs fifty.
"""

import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from connectors.serve.server import ShardServer
from connectors.serve.settings import ServeSettings
from storage_core import ServerOptions, StreamReader, UnavailableError
from tests.faults.support.campaign import fault_seed, naming_seed
from tests.log.serve.owners import NAME, Root, Topic, expect_all, triples
from tests.log.serve.serving_process import server_process
from tests.log.served import AT_ONCE
from tests.thin import rounds

ROUNDS = range(rounds("SHARDLOG_FAULT_SERVE", few=2, many=50))
PARTITIONS = 2
STEPS = 15
# More than all buffers between a server and its client.
PAYLOAD_BYTES = 4096
PATIENT = ServerOptions(retry_for=timedelta(seconds=60))
# A frozen server is told from a slow one by time alone; that another has the rows is what counts.
IMPATIENT = ServerOptions(retry_for=timedelta(seconds=120), timeout=timedelta(seconds=1))


class Door:
    """The address of a root's server, which listens or does not. Nobody else gets the port."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._socket = socket_with_port()
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.server: ShardServer | None = None
        self.open()

    def open(self) -> None:
        if self.server is None:
            self._socket.listen(64)
            settings = ServeSettings(root=self._root.root, listen=self.address)
            self.server = ShardServer(settings, "1.2.3", listener=self._socket.dup())

    def shut(self) -> None:
        if self.server is not None:
            self.server.close()
            self.server = None

    def close(self) -> None:
        self.shut()
        self._socket.close()


def socket_with_port() -> socket.socket:
    """Return a socket that keeps its port, also while it does not listen: one that was named."""
    while True:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = free.getsockname()
        named = socket.socket()
        named.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            named.bind(address)
        except OSError:
            named.close()
            continue
        return named


class Moves:
    """Three roots, and one reader of them that lives throughout."""

    def __init__(self, folder: Path, chance: Random, stack: ExitStack) -> None:
        self.chance = chance
        self.topic = Topic(PARTITIONS, chance=chance)
        self.roots = [
            stack.enter_context(Root(folder / name, self.topic)) for name in ("a", "b", "c")
        ]
        self.doors = [Door(root) for root in self.roots]
        for door in self.doors:
            stack.callback(door.close)
        self.owners = dict.fromkeys(range(PARTITIONS), 0)
        for shard in self.owners:
            self.roots[0].take(shard)
        # What the group knows, which may be behind what was stored.
        self.group = dict.fromkeys(range(PARTITIONS), 0)
        addresses = ",".join(door.address for door in self.doors)
        self.reader = stack.enter_context(
            StreamReader.open(f"shardlog://{addresses}", NAME, server=AT_ONCE)
        )
        self.seen = dict.fromkeys(range(PARTITIONS), 0)

    def step(self) -> str:
        shard = self.chance.randrange(PARTITIONS)
        kind = self.chance.choices(("store", "move", "shut", "open"), weights=(5, 3, 2, 3))[0]
        if kind == "store":
            self.topic.produce(shard, self.chance.randrange(30))
            self._store(shard, self.chance.randrange(self.topic.ends[shard] + 1))
        elif kind == "move":
            self._move(shard, self.chance.randrange(len(self.roots)))
        elif kind == "shut":
            self.chance.choice(self.doors).shut()
        else:
            self.chance.choice(self.doors).open()
        return kind

    def open_all(self) -> None:
        for door in self.doors:
            door.open()

    def check(self) -> None:
        """Compare the reader with the topic; while a server is away it may refuse."""
        are_all_there = all(door.server is not None for door in self.doors)
        with suppress(*(() if are_all_there else (UnavailableError,))):
            self.reader.refresh()
            ends = self.reader.committed()
            for shard, end in ends.items():
                owner = self.owners[shard]
                assert end >= self.seen[shard]
                if self.doors[owner].server is not None:
                    assert end >= self.roots[owner].committed(shard)
            self.seen = {**self.seen, **ends}
            records = self.topic.below(ends)
            assert sorted(triples(self.reader.scan())) == sorted(one.row() for one in records)
            expect_all(self.reader, records)

    def _store(self, shard: int, end: int) -> None:
        root = self.roots[self.owners[shard]]
        root.store(shard, end)
        if self.chance.random() < 0.7:
            self.group[shard] = max(self.group[shard], root.committed(shard))

    def _move(self, shard: int, to: int) -> None:
        if to == self.owners[shard]:
            return
        self.roots[self.owners[shard]].leave(shard)
        self.owners[shard] = to
        self.roots[to].take(shard, self.group[shard])
        if self.roots[to].committed(shard) < self.group[shard]:
            # It has an older piece, and fetches from where that ended.
            self.roots[to].store(shard, self.group[shard])


@pytest.mark.parametrize("number", ROUNDS)
def test_reader_is_right_through_moves_and_ends_of_servers(root: Path, number: int) -> None:
    seed = fault_seed()
    with naming_seed(seed), ExitStack() as stack:
        moves = Moves(root, Random(f"{seed} {number}"), stack)
        for _ in range(STEPS):
            moves.step()
            moves.check()
        moves.open_all()
        moves.check()


@pytest.fixture
def copies(root: Path) -> Iterator[tuple[Topic, Root, Root]]:
    """A log in two pieces that overlap by half, of more bytes than sockets hold."""
    topic = Topic(1, padding=bytes(PAYLOAD_BYTES))
    topic.produce(0, 4000)
    with Root(root / "a", topic, block_records=128) as a, Root(root / "b", topic) as b:
        a.take(0)
        a.store(0, 3000)
        a.leave(0)
        b.take(0, born=1000)
        b.store(0, topic.ends[0])
        yield topic, a, b


@pytest.mark.parametrize("number", ROUNDS)
def test_server_that_falls_silent_in_mid_answer_is_left_for_another(
    copies: tuple[Topic, Root, Root], number: int
) -> None:
    topic, a, b = copies
    seed = fault_seed()
    chance = Random(f"{seed} {number}")
    is_killed = number % 2 == 0
    with naming_seed(seed), ExitStack() as stack:
        processes = [stack.enter_context(server_process(each.root)) for each in (a, b)]
        addresses = ",".join(process.address for process in processes)
        options = PATIENT if is_killed else IMPATIENT
        reader = stack.enter_context(
            StreamReader.open(f"shardlog://{addresses}", NAME, server=options)
        )
        start = 1000
        batches = reader.tail(0, start)
        taken = [next(batches) for _ in range(chance.randrange(1, 20))]
        processes[1].signal(signal.SIGKILL if is_killed else signal.SIGSTOP)
        # What only the owner has comes once it answers again.
        seen = triples(taken)
        at_most = 3000
        for batch in batches:
            seen += triples([batch])
            if seen[-1][3] >= at_most - 200:
                break
        if not is_killed:
            processes[1].signal(signal.SIGCONT)
        rows = [one.row() for one in topic.between(0, start, seen[-1][3] + 1)]
        assert seen == rows

"""Goal: whatever happens to a server or its files, a client has all rows, each once, or an error.

Method: rounds of three kinds in turn, each with chance from one seed (SHARDLOG_FAULT_SEED replays
it). *Kill* and *freeze*: a reader over the server is in the middle of an answer of many blocks, of
which it has taken some, while a writer goes on; the server gets SIGKILL, or SIGSTOP and later
SIGCONT. What a reader took for whole has each address from the first on once, with its own payload,
and no fewer than were committed when it asked. *Damage*: a file of a copy of the known store is
damaged, before the server starts or while it runs; each answer is the right one, or an error of
ours. `make faults KIND=serve` runs fifty.
"""

import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import get_args

import pyarrow as pa
import pytest

from storage_core import ServerOptions, ShardlogError, StreamReader
from tests.children import start_child
from tests.faults.support.campaign import fault_seed, naming_seed
from tests.faults.support.damage import FileKind, plan_damages
from tests.faults.support.known_store import (
    STREAM,
    BuildPlan,
    build_known_store,
    observe,
    questions,
)
from tests.log.fixtures import MEMORY
from tests.log.serve.serving_process import ServerProcess, server_process
from tests.log.workbench import Workbench, batch_of
from tests.thin import rounds

ROUNDS = range(rounds("SHARDLOG_FAULT_SERVE", few=3, many=50))
KINDS = ("kill", "freeze", "damage")
SHARDS = 2
# More than all buffers between a server and its client.
BLOCKS, BLOCK_ROWS, PAYLOAD_BYTES = 48, 128, 4096
PATIENT = ServerOptions(retry_for=timedelta(0))
IMPATIENT = ServerOptions(retry_for=timedelta(0), timeout=timedelta(milliseconds=300))


def taken(batches: Iterator[pa.RecordBatch], count: int) -> list[pa.RecordBatch]:
    return [batch for _, batch in zip(range(count), batches, strict=False)]


def payload_of(address: int) -> bytes:
    return address.to_bytes(8, "big") * (PAYLOAD_BYTES // 8)


class Written:
    """A stream that is written to, and whose rows say where they belong."""

    def __init__(self, root: Path) -> None:
        self.bench = Workbench(root, "written", shards=SHARDS, unit="sequence", block_records=128)
        self.ends = [0] * SHARDS
        for _ in range(BLOCKS):
            self.append()

    def append(self) -> None:
        for shard, end in enumerate(self.ends):
            addresses = range(end, end + BLOCK_ROWS)
            payloads = [payload_of(address) for address in addresses]
            self.bench.stream.append_batch(batch_of(addresses, secondary=shard, payload=payloads))
            self.ends[shard] = addresses.stop
        self.bench.commit()

    def check(self, batches: list[pa.RecordBatch], at_least: list[int], shards: range) -> None:
        """Assert that rows are whole: each address once, each with its own payload."""
        rows = pa.Table.from_batches(batches).to_pydict()
        for shard in shards:
            own = [
                (address, payload)
                for number, address, payload in zip(
                    rows["shard"], rows["address"], rows["payload"], strict=True
                )
                if number == shard
            ]
            assert len(own) >= at_least[shard]
            assert [address for address, _ in own] == list(range(len(own)))
            assert all(payload == payload_of(address) for address, payload in own)


@pytest.fixture(scope="module")
def written() -> Iterator[Written]:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        written = Written(Path(folder))
        yield written
        written.bench.release()


@pytest.fixture(scope="module")
def known_store() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        root = Path(folder) / "root"
        start_child(build_known_store, BuildPlan(root)).join()
        yield root


@pytest.mark.parametrize("number", ROUNDS)
def test_client_has_all_rows_once_or_an_error(
    number: int, written: Written, known_store: Path
) -> None:
    seed = fault_seed()
    with naming_seed(seed):
        chance = Random(seed)
        match KINDS[number % len(KINDS)]:
            case "kill":
                killed_in_mid_answer(written, chance)
            case "freeze":
                frozen_in_mid_answer(written, chance)
            case _:
                damaged(known_store, chance)


class Answer:
    """An answer of which a client has taken some, while the writer went on."""

    def __init__(self, written: Written, reader: StreamReader, chance: Random) -> None:
        shard = chance.randrange(SHARDS)
        is_scan = chance.random() < 0.5
        self._written = written
        self._shards = range(SHARDS) if is_scan else range(shard, shard + 1)
        self._at_least = list(written.ends)
        self._batches = reader.scan() if is_scan else reader.tail(shard)
        self._taken = taken(self._batches, chance.randrange(1, 8))
        written.append()

    def ends_whole(self) -> bool:
        """Take the rest; return whether it ended, with all rows, and not with an error."""
        try:
            self._taken += self._batches
        except ShardlogError:
            return False
        self._written.check(self._taken, self._at_least, self._shards)
        return True


def reader_over(
    process: ServerProcess, name: str, options: ServerOptions = PATIENT
) -> StreamReader:
    return StreamReader.open(f"shardlog://{process.address}", name, server=options)


def killed_in_mid_answer(written: Written, chance: Random) -> None:
    with (
        server_process(written.bench.root) as process,
        reader_over(process, written.bench.name) as reader,
    ):
        answer = Answer(written, reader, chance)
        process.signal(signal.SIGKILL)
        answer.ends_whole()
        with pytest.raises(ShardlogError):
            reader.committed()
    with server_process(written.bench.root) as process:
        is_served_whole(written, process)


def frozen_in_mid_answer(written: Written, chance: Random) -> None:
    gives_up = chance.random() < 0.5
    options = IMPATIENT if gives_up else PATIENT
    with server_process(written.bench.root) as process, ExitStack() as stack:
        try:
            reader = stack.enter_context(reader_over(process, written.bench.name, options))
            answer = Answer(written, reader, chance)
        except ShardlogError:
            # A crowded machine is as slow as a frozen server.
            assert gives_up
            return
        process.signal(signal.SIGSTOP)
        if not gives_up:
            process.signal(signal.SIGCONT)
        assert answer.ends_whole() or gives_up
        process.signal(signal.SIGCONT)
        is_served_whole(written, process)


def is_served_whole(written: Written, process: ServerProcess) -> None:
    """Assert that a server has every row for a new client."""
    with reader_over(process, written.bench.name) as reader:
        written.check(list(reader.scan()), written.ends, range(SHARDS))


def damaged(known_store: Path, chance: Random) -> None:
    kind: FileKind = chance.choice(get_args(FileKind))
    damage = chance.choice(plan_damages(known_store, kind, 4, chance))
    is_live = chance.random() < 0.5
    with StreamReader.open(known_store, STREAM) as reader:
        right = observe(reader)
    with tempfile.TemporaryDirectory(dir=known_store.parent) as folder:
        root = Path(folder) / "root"
        shutil.copytree(known_store, root)
        if not is_live:
            damage.inflict(root)
        with server_process(root, has_patience=False) as process:
            if is_live:
                with reader_over(process, STREAM) as reader:
                    assert observe(reader) == right
                    damage.inflict(root)
                    assert wrong_answers(reader, right) == {}, f"{damage}, live"
            try:
                with reader_over(process, STREAM) as reader:
                    assert wrong_answers(reader, right) == {}, f"{damage}, live: {is_live}"
            except ShardlogError:
                # It cannot be opened; whoever asks is told.
                pass
            assert process.process.is_alive(), f"{damage}: the server has ended"


def wrong_answers(reader: StreamReader, right: dict[str, str]) -> dict[str, str]:
    """Return the answers that are neither right nor an error of ours."""
    wrong = {}
    for name, ask in questions().items():
        try:
            answer = ask(reader)
        except ShardlogError:
            continue
        if answer != right[name]:
            wrong[name] = answer
    return wrong

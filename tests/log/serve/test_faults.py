"""Goal: whatever happens to a server or its files, a client has all rows, each once, or an error.

Method: rounds of three kinds in turn, each with chance from one seed (SHARDLOG_FAULT_SEED replays
it). *Kill* and *freeze*: a client is in the middle of an answer of many blocks, of which it has
taken some, while a writer goes on; the server gets SIGKILL, or SIGSTOP and later SIGCONT. What a
client took for whole has each address from the first on once, with its own payload, and no fewer
than were committed when it asked. *Damage*: a file of a copy of the known store is damaged, before
the server starts or while it runs; each answer is the right one, or an error of ours.
`make faults KIND=serve` runs fifty.
"""

import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from random import Random
from typing import Any, get_args

import pyarrow as pa
import pytest

from storage_core import ShardlogError, StreamReader
from storage_core.protocol import (
    CALLS,
    RowStream,
    decode_result,
    encode_body,
    error_from_answer,
)
from tests.children import start_child
from tests.faults.support.campaign import fault_seed, naming_seed
from tests.faults.support.damage import FileKind, plan_damages
from tests.faults.support.known_store import STREAM, BuildPlan, build_known_store
from tests.log.fixtures import MEMORY
from tests.log.serve.serving_process import ServerProcess, server_process
from tests.log.workbench import Workbench, batch_of
from tests.thin import rounds

ROUNDS = range(rounds("SHARDLOG_FAULT_SERVE", few=3, many=50))
KINDS = ("kill", "freeze", "damage")
SHARDS = 2
BLOCKS, BLOCK_ROWS = 24, 128
PAYLOAD_BYTES = 4096
PATIENCE_S = 60.0
FROZEN_S = 0.3
_RECEIVED_BYTES = 8192
_IDS = (0, 2, 1004)
ASKS: dict[str, dict[str, Any]] = {
    "tail": {"shard": 1, "start_address": 0},
    "scan": {},
    "read": {"ids": _IDS},
    "latest": {},
    "records": {"ids": (1, 4)},
    "earliest": {"ids": _IDS},
    "committed": {},
}


class Client:
    """A client that takes an answer a little at a time."""

    def __init__(self, process: ServerProcess, timeout: float = PATIENCE_S) -> None:
        self._connection = HTTPConnection(process.address, timeout=timeout)
        # So that most of an answer is still the server's when something happens to it.
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVED_BYTES)
        sock.settimeout(timeout)
        sock.connect((process.host, process.port))
        self._connection.sock = sock

    def close(self) -> None:
        self._connection.close()

    def be_patient_for(self, seconds: float) -> None:
        sock = self._connection.sock
        assert isinstance(sock, socket.socket)
        sock.settimeout(seconds)

    def ask(self, call: str, stream: str, **values: Any) -> Any:
        """Return a `RowStream`, or the result, of a call."""
        body = encode_body(CALLS[call].parameters, values)
        self._connection.request("POST", CALLS[call].path(stream), body)
        answer = self._connection.getresponse()
        if answer.status != 200:
            raise error_from_answer(answer.status, answer.read(), "the server")
        if CALLS[call].answer == "rows":
            return RowStream(answer)
        return decode_result(CALLS[call], answer.read())


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


def begin_answer(
    written: Written, client: Client, chance: Random
) -> tuple[RowStream, list[pa.RecordBatch], list[int], range]:
    """Take some of an answer, while the writer goes on."""
    shard = chance.randrange(SHARDS)
    calls: list[tuple[str, dict[str, Any], range]] = [
        ("scan", {}, range(SHARDS)),
        ("tail", {"shard": shard}, range(shard, shard + 1)),
        ("read", {"ids": (shard,)}, range(shard, shard + 1)),
    ]
    call, values, shards = chance.choice(calls)
    at_least = list(written.ends)
    rows = client.ask(call, written.bench.name, **values)
    begun = taken(rows, chance.randrange(8))
    written.append()
    return rows, begun, at_least, shards


def killed_in_mid_answer(written: Written, chance: Random) -> None:
    with server_process(written.bench.root) as process, closing(Client(process)) as client:
        rows, begun, at_least, shards = begin_answer(written, client, chance)
        process.signal(signal.SIGKILL)
        try:
            everything = [*begun, *rows]
        except (ShardlogError, OSError, HTTPException):
            assert not rows.is_whole
        else:
            written.check(everything, at_least, shards)
    is_served_whole(written)


def frozen_in_mid_answer(written: Written, chance: Random) -> None:
    with server_process(written.bench.root) as process, closing(Client(process)) as client:
        rows, begun, at_least, shards = begin_answer(written, client, chance)
        process.signal(signal.SIGSTOP)
        gives_up = chance.random() < 0.5
        try:
            if gives_up:
                client.be_patient_for(FROZEN_S)
            else:
                process.signal(signal.SIGCONT)
            everything = [*begun, *rows]
        except (ShardlogError, OSError, HTTPException):
            assert gives_up
            assert not rows.is_whole
        else:
            written.check(everything, at_least, shards)
        process.signal(signal.SIGCONT)
        with closing(Client(process)) as other:
            everything = list(other.ask("scan", written.bench.name))
            written.check(everything, written.ends, range(SHARDS))


def is_served_whole(written: Written) -> None:
    """Assert that another server, on the same files, has every row."""
    with server_process(written.bench.root) as process, closing(Client(process)) as client:
        everything = list(client.ask("scan", written.bench.name))
        written.check(everything, written.ends, range(SHARDS))


# --- damage --------------------------------------------------------------------------------


def damaged(known_store: Path, chance: Random) -> None:
    kind: FileKind = chance.choice(get_args(FileKind))
    damage = chance.choice(plan_damages(known_store, kind, 4, chance))
    is_live = chance.random() < 0.5
    right = right_answers(known_store)
    with tempfile.TemporaryDirectory(dir=known_store.parent) as folder:
        root = Path(folder) / "root"
        shutil.copytree(known_store, root)
        if not is_live:
            damage.inflict(root)
        with server_process(root, has_patience=False) as process:
            if is_live:
                assert answers_of(process) == right
                damage.inflict(root)
            answers = answers_of(process)
            assert process.process.is_alive(), f"{damage}: the server has ended"
    wrong = {
        call: answer
        for call, answer in answers.items()
        if not isinstance(answer, ShardlogError) and answer != right[call]
    }
    assert wrong == {}, f"{damage}, live: {is_live}"


def answers_of(process: ServerProcess) -> dict[str, Any]:
    """Return what each call is answered: rows, a result, or an error of ours."""
    answers: dict[str, Any] = {}
    for call, values in ASKS.items():
        with closing(Client(process)) as client:
            try:
                answer = client.ask(call, STREAM, **values)
                if isinstance(answer, RowStream):
                    answer = in_order(answer.read_all())
            except ShardlogError as error:
                answer = error
            answers[call] = answer
    return answers


def right_answers(root: Path) -> dict[str, Any]:
    """Return what a reader of the undamaged store says."""
    with server_process(root) as process:
        answers = answers_of(process)
    with StreamReader.open(root, STREAM) as reader:
        assert answers["scan"] == in_order(pa.Table.from_batches(list(reader.scan())))
        assert answers["committed"] == reader.committed()
    return answers


def in_order(rows: pa.Table) -> list[dict[str, Any]]:
    """Return rows by shard and address: their order is the business of other tests."""
    return sorted(rows.to_pylist(), key=lambda row: (row["shard"], row["address"]))

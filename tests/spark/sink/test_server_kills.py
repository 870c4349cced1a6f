"""Goal: a query over a server that is killed, again and again, writes each row once.

Method: a query of a few micro-batches runs over a relay. Beside it a thread waits for a moment of a
batch, by what lies on the disk (rows of a task, their note, the manifest, the mark of the series),
kills the server with SIGKILL there, and starts another behind the relay. Moments and batches are of
chance from one seed (SHARDLOG_FAULT_SEED replays it). A query that fails meanwhile goes on from its
checkpoint. At the end the rows are there once, nothing stays staged, and nothing is wrong with the
stream. `make faults KIND=serve` runs more.
"""

import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest
from pyspark.errors import StreamingQueryException

from storage_core import Stream
from tests.faults.support.campaign import fault_seed, naming_seed
from tests.log.serve.relay import Relay
from tests.log.serve.serving_process import ServerProcess, server_process
from tests.spark.support.sink_lab import NAME, SinkLab
from tests.thin import rounds
from tests.waiting import await_that

ROUNDS = range(rounds("SHARDLOG_FAULT_SERVE", few=1, many=10))
BATCHES, KILLS, RUNS_MAX = 3, 2, 10
# What lies below staging, or below the stream, once a batch is at its moment.
MOMENTS = ("*/*/rows-0000.arrow", "*/*/parts.json", "*/manifest.json", "mark")


class DyingServers:
    """Servers behind a relay, of which each is killed at a moment of the query."""

    def __init__(self, root: Path, relay: Relay, chance: Random) -> None:
        self._root = root
        self._relay = relay
        self._moments = [chance.choice(MOMENTS) for _ in range(KILLS)]
        self._has_ended = threading.Event()
        self.killed = 0
        self._servers = ExitStack()
        self._process = self._started()
        self._thread = threading.Thread(target=self._kill)
        self._thread.start()

    def close(self) -> None:
        self._has_ended.set()
        self._thread.join()
        self._servers.close()

    def _started(self) -> ServerProcess:
        process = self._servers.enter_context(server_process(self._root, is_writable=True))
        self._relay.port = process.port
        return process

    def _kill(self) -> None:
        for moment in self._moments:
            await_that(self._watched(moment), f"{moment} is there")
            if self._has_ended.is_set():
                return
            # Who connects meanwhile meets nobody.
            self._relay.port = None
            self._process.signal(signal.SIGKILL)
            self.killed += 1
            self._process = self._started()

    def _watched(self, moment: str) -> Callable[[], bool]:
        """Return what tells that a batch is at a moment, or is done."""
        stream = self._root / NAME
        before = marks_of(stream)

        def is_there() -> bool:
            has_come = moment != "mark" and any((stream / "staging").glob(moment))
            return has_come or marks_of(stream) != before or self._has_ended.is_set()

        return is_there


def marks_of(stream: Path) -> list[str]:
    """Return what the marks of its series say; one is replaced as a whole."""
    return [path.read_text() for path in sorted(stream.glob("series/*/mark.json"))]


@pytest.mark.parametrize("number", ROUNDS)
def test_query_over_servers_that_are_killed_writes_each_row_once(spark, tmp_path, number):
    seed = fault_seed()
    lab = SinkLab(spark, tmp_path)
    with Stream.create(lab.root, "other"):
        pass
    for batch in range(BATCHES):
        lab.feed(*range(batch * 10, batch * 10 + 10))
    with naming_seed(seed), Relay(None) as relay:
        lab.servers = relay.address
        servers = DyingServers(lab.root, relay, Random(seed + number))
        try:
            run_to_its_end(lab)
        finally:
            servers.close()
    assert servers.killed
    assert (lab.stored, lab.staged) == (list(range(BATCHES * 10)), [])
    with Stream.open(lab.root, NAME) as stream:
        assert stream.verify().problems == ()


def run_to_its_end(lab: SinkLab) -> None:
    """Run the query until it ends without an error; a few times it may fail, and goes on."""
    for _ in range(RUNS_MAX - 1):
        try:
            lab.run(shards=2)
        except StreamingQueryException:
            continue
        return
    lab.run(shards=2)

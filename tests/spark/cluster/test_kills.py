"""Goal: whatever of a cluster is killed while a query runs, each row lands once.

Method: a query reads a stream from a server in small batches and writes to another one by it, while
rows are appended. In an order that chance picks (SHARDLOG_FAULT_SEED replays it) the executors of a
machine, a worker of Spark, the server and the driver get SIGKILL, each in the middle of rows that
are on their way. Executors come back by Spark, a worker and the server as an operator starts them,
the driver by another one on the same checkpoint; a query that has failed is started again.
`make faults KIND=cluster N=20` does twenty rounds.
"""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from tests.faults.support.campaign import naming_seed
from tests.spark.cluster.driver import Driver, Plan
from tests.spark.cluster.lab import (
    EARLY,
    INTO,
    ClusterLab,
    failure,
    finish_queries,
    start_query,
    stop_queries,
)
from tests.spark.cluster.standalone import MACHINES, Standalone
from tests.thin import rounds
from tests.waiting import await_that

pytestmark = pytest.mark.slow

ROUNDS = range(rounds("SHARDLOG_FAULT_CLUSTER", few=1, many=5))
ROWS, BATCH_ROWS = 60, 30
# A driver starts, executors too, on a machine that does much else.
SETTLED_WITHIN_S = 600.0
RESTARTS_MAX = 8


class KilledQuery:
    """A query, and whoever takes part in it."""

    def __init__(
        self, cluster: Standalone, lab: ClusterLab, drivers: Callable[[], Driver], chance: Random
    ) -> None:
        self._cluster, self._lab, self._chance = cluster, lab, chance
        self._drivers = drivers
        self._driver = drivers()
        self._checkpoint = cluster.place / f"{lab.place.name}-checkpoint"
        self._restarts = self._appended = 0
        self._start()

    def _start(self) -> None:
        options = self._lab.options(maxOffsetsPerTrigger=BATCH_ROWS, **EARLY)
        into = self._lab.options(stream=INTO, shards=2)
        self._driver.do(start_query, options, into, str(self._checkpoint))

    def append(self) -> None:
        """Append rows of some batches."""
        self._lab.log.append(ROWS, first=self._appended)
        self._appended += ROWS

    def await_rows(self, count: int) -> None:
        """Wait until so many rows have landed; a query that has failed is started again."""

        def have_landed() -> bool:
            if len(self._lab.landed()) >= count:
                return True
            if self._driver.do(failure) is not None:
                self._restarts += 1
                assert self._restarts <= RESTARTS_MAX, self._driver.do(failure)
                self._driver.do(stop_queries)
                self._start()
            return False

        await_that(have_landed, lambda: f"{count} rows: {self._lab.landed()}", SETTLED_WITHIN_S)

    def kill(self, target: str) -> None:
        """Kill one, in the middle of rows that came just now; let it come back."""
        before = len(self._lab.landed())
        self.append()
        self.await_rows(before + self._chance.randrange(1, ROWS - BATCH_ROWS))
        machine = self._chance.choice(MACHINES)
        match target:
            case "executors":
                for pid in self._cluster.executors(machine):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            case "worker":
                self._cluster.kill_worker(machine)
                self._cluster.start_worker(machine)
            case "server":
                self._lab.server.kill()
                self._lab.server.start()
            case _:
                self._driver.kill()
                self._driver = self._drivers()
                self._start()
        self.await_rows(self._appended)

    def finish(self) -> None:
        """Let the query take what there is."""
        self.append()
        self.await_rows(self._appended)
        self._driver.do(finish_queries)

    def check(self) -> None:
        """Assert that each row has landed once."""
        assert self._lab.landed() == list(range(self._appended))


@pytest.mark.parametrize("number", ROUNDS)
def test_each_row_lands_once_whatever_is_killed(
    number: int, cluster: Standalone, lab: ClusterLab, plan: Plan, driver: Driver
) -> None:
    seed = int(os.environ.get("SHARDLOG_FAULT_SEED") or number)
    targets = ["executors", "worker", "server", "driver"]
    chance = Random(seed)
    chance.shuffle(targets)
    doomed = Driver(plan)
    waiting = [driver, doomed]
    lab.log.create(shards=2)
    lab.serve()
    try:
        with naming_seed(seed):
            query = KilledQuery(cluster, lab, waiting.pop, chance)
            for target in targets:
                query.kill(target)
            query.finish()
            query.check()
    finally:
        doomed.kill()

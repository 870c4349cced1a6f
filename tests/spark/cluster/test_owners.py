"""A partition that moves to another worker's root while a query reads it."""

from contextlib import ExitStack

import pyarrow as pa
import pytest

from tests.spark.cluster.lab import EARLY, INTO, await_landed, finish_queries, start_query
from tests.spark.cluster.serving import ServeCommand
from tests.unit.streaming_jobs.source.source_lab import SourceLab

# The second owner begins below where the first one ends.
BORN, MOVED, END = 30, 40, 90


class Owner:
    """A worker's root and its server."""

    def __init__(self, lab, shipped, name: str, born: int) -> None:
        self.log = SourceLab(lab.place / name)
        self.log.create_topic({0: born})
        self.server = ServeCommand(self.log.root, "--read-token-file", str(shipped.known_tokens))
        self.server.start()

    def put(self, first: int, end: int) -> None:
        """Store records whose values tell their offsets."""
        values = pa.array([b"%d" % offset for offset in range(first, end)], pa.binary())
        self.log.put(0, range(first, end), payload=values)

    def end(self) -> None:
        """Let both go."""
        self.server.kill()
        self.log.close()


@pytest.fixture
def owners(lab, shipped):
    """Two owners, of which the second one begins in the middle."""
    with ExitStack() as stack:
        made = []
        for name, born in (("first", 0), ("second", BORN)):
            made.append(Owner(lab, shipped, name, born))
            stack.callback(made[-1].end)
        yield made


def test_query_follows_a_partition_that_moves(lab, owners, driver, cluster):
    first, second = owners
    # It makes the root of the stream that the query writes to.
    lab.log.create()
    lab.serve()
    addresses = f"{first.server.address},{second.server.address}"
    options = {**lab.options(server=addresses, maxOffsetsPerTrigger=20), **EARLY}
    checkpoint = cluster.place / f"{lab.place.name}-checkpoint"
    driver.do(start_query, options, lab.options(stream=INTO), str(checkpoint))
    first.put(0, MOVED)
    # One batch of two has landed.
    await_landed(driver, lab, 1)
    first.log.close()
    second.put(BORN, END)
    await_landed(driver, lab, END)
    driver.do(finish_queries)
    assert lab.landed() == [*range(END)]

"""What a forked child of a test's own process leaves alone."""

import gc
import os

from tests.unit.forks import in_fork


class OfItsProcess:
    """Ends any other process that frees it, and can be collected alone."""

    def __init__(self) -> None:
        self.itself = self
        self.process = os.getpid()

    def __del__(self) -> None:
        if os.getpid() != self.process:
            os.abort()


def collecting_often() -> int:
    gc.set_threshold(1)
    return len([[] for _ in range(1000)])


def test_child_collects_nothing_that_its_parent_has_left_behind():
    gc.collect()
    OfItsProcess()
    assert in_fork(collecting_often) == 1000
    assert gc.isenabled()

"""A follower alone: what other threads do to it between two of its steps.

It reaches inside: no caller can come between the marker that is read and the store behind it.
"""

from itertools import count
from typing import Any

import pytest

from storage_core import (
    CorruptionError,
    Environment,
    LostRangeError,
    StreamReader,
    UnavailableError,
)
from storage_core.testing import ManualClock
from tests.log.workbench import column_of


def test_look_that_another_threads_look_overtakes_finds_nothing_wrong(bench, hooked):
    bench.append([1])
    bench.close()
    with bench.read_beside() as reader:
        follower: Any = reader._open.by_number[0]

        def next_writer_is_seen() -> None:
            bench.open()
            assert follower.committed() == 1

        follower._marker = hooked.before(follower._marker)
        hooked.on("after read", next_writer_is_seen)
        assert follower.committed() == 1
        assert follower.committed() == 1


def test_reader_whose_writer_was_replaced_while_it_looked_looks_again(bench, hooked):
    """It has the old writer's store by then, with rows that the new one has lost."""
    bench.keep([1])
    bench.keep([2])
    with bench.read_beside() as reader:
        assert column_of(reader.scan(), "primary") == [1, 2]
        follower: Any = reader._open.by_number[0]

        def writer_is_replaced() -> None:
            bench.crash()
            bench.cut_log(20)
            bench.open()

        follower._marker = hooked.before(follower._marker)
        hooked.on("after read", writer_is_replaced)
        with pytest.raises(LostRangeError):
            column_of(reader.scan(), "primary")


def test_looks_that_fail_in_two_ways_are_bounded_together(bench, hooked):
    bench.append([1])
    bench.close()
    bench.damage_block(0)
    readings = count()

    def fail_five_of_seven() -> None:
        hooked.on("before read", fail_five_of_seven)
        if next(readings) % 7 < 5:
            message = "not now"
            raise UnavailableError(message)

    hooked.on("before read", fail_five_of_seven)
    clock = ManualClock()
    environment = Environment(clock=clock)
    with StreamReader.open(bench.root, bench.name, environment=environment) as reader:
        follower: Any = reader._open.by_number[0]
        follower._marker = hooked.before(follower._marker)
        with pytest.raises((CorruptionError, UnavailableError)):
            list(reader.scan())
    assert 0 < clock.elapsed_s <= 40 * 0.05

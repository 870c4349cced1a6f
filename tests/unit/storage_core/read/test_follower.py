"""A follower alone: what other threads do to it between two of its steps."""

from collections.abc import Callable

import pytest

from storage_core import (
    CorruptionError,
    Environment,
    LostRangeError,
    StreamReader,
    UnavailableError,
)
from storage_core.format.marker_slot import MarkerState
from storage_core.store.marker import MarkerReader
from storage_core.testing import ManualClock
from tests.log.workbench import column_of


class OvertakenMarker:
    """A marker that is read once, and then once more by another thread before it answers."""

    def __init__(self, marker: MarkerReader, meanwhile: Callable[[], object]) -> None:
        self._marker = marker
        self._meanwhile: Callable[[], object] | None = meanwhile

    def read(self) -> MarkerState:
        state = self._marker.read()
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return state

    @property
    def file(self) -> tuple[int, int]:
        return self._marker.file

    def close(self) -> None:
        self._marker.close()


def test_look_that_another_threads_look_overtakes_finds_nothing_wrong(bench):
    bench.append([1])
    bench.close()
    with bench.read_beside() as reader:
        follower = reader._shards[0]

        def next_writer_is_seen() -> None:
            bench.open()
            assert follower.committed() == 1

        follower._marker = OvertakenMarker(follower._marker, next_writer_is_seen)
        assert follower.committed() == 1
        assert follower.committed() == 1


def test_reader_whose_writer_was_replaced_while_it_looked_looks_again(bench):
    """It has the old writer's store by then, with rows that the new one has lost."""
    bench.keep([1])
    bench.keep([2])
    with bench.read_beside() as reader:
        assert column_of(reader.scan(), "primary") == [1, 2]
        follower = reader._shards[0]

        def writer_is_replaced() -> None:
            bench.crash()
            bench.cut_log(20)
            bench.open()

        follower._marker = OvertakenMarker(follower._marker, writer_is_replaced)
        with pytest.raises(LostRangeError):
            column_of(reader.scan(), "primary")


class MarkerThatFails:
    """A marker that cannot be read five times, and then twice can."""

    def __init__(self, marker: MarkerReader) -> None:
        self._marker = marker
        self._readings = 0

    def read(self) -> MarkerState:
        self._readings += 1
        if (self._readings - 1) % 7 < 5:
            message = "not now"
            raise UnavailableError(message)
        return self._marker.read()

    @property
    def file(self) -> tuple[int, int]:
        return self._marker.file

    def close(self) -> None:
        self._marker.close()


def test_looks_that_fail_in_two_ways_are_bounded_together(bench):
    bench.append([1])
    bench.close()
    bench.damage_block(0)
    clock = ManualClock()
    environment = Environment(clock=clock)
    with StreamReader.open(bench.root, bench.name, environment=environment) as reader:
        follower = reader._shards[0]
        follower._marker = MarkerThatFails(follower._marker)  # type: ignore[assignment]  # stands in
        with pytest.raises((CorruptionError, UnavailableError)):
            list(reader.scan())
    assert 0 < clock.elapsed_s <= 40 * 0.05

"""A follower alone: what other threads do to it between two of its steps."""

from collections.abc import Callable

from storage_core.marker import MarkerReader, MarkerState


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

    def close(self) -> None:
        self._marker.close()


def test_look_that_another_threads_look_overtakes_finds_nothing_wrong(bench):
    bench.append([1])
    bench.close()
    with bench.read_beside() as reader:
        follower = reader._followers[0]

        def next_writer_is_seen() -> None:
            bench.open()
            assert follower.committed() == 1

        follower._marker = OvertakenMarker(follower._marker, next_writer_is_seen)
        assert follower.committed() == 1
        assert follower.committed() == 1

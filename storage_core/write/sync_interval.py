"""Sync level `interval`: a shard is synced at most once an interval, by who finds it due."""

from storage_core.catalog.options import StreamOptions
from storage_core.platform.clock import Clock


class SyncInterval:
    """The time between two syncs of a shard; `is_on` is False at the level `commit`."""

    __slots__ = ("_began_at_s", "_clock", "_length_s", "is_on")

    def __init__(self, clock: Clock, options: StreamOptions) -> None:
        """Start as if a sync had just begun."""
        self._clock = clock
        self._began_at_s = clock.monotonic_s()
        self.alter(options)

    def alter(self, options: StreamOptions) -> None:
        """Take over changed options."""
        self.is_on = options.sync == "interval"
        self._length_s = options.sync_interval.total_seconds()

    def begin(self) -> None:
        """Note that a sync begins."""
        self._began_at_s = self._clock.monotonic_s()

    @property
    def is_over(self) -> bool:
        """Tell whether a sync is due."""
        return self._rest_s() <= 0

    def await_end(self) -> None:
        """Wait until a sync is due."""
        self._clock.sleep(max(0.0, self._rest_s()))

    def _rest_s(self) -> float:
        return self._began_at_s + self._length_s - self._clock.monotonic_s()

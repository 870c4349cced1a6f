"""How far apart the entries of the sparse index are: by how many of them wait.

Time is counted in ticks: one a flushed block, and one each while without any. Above the high mark
the spacing doubles, below the low mark it halves, between them it stays. The batch that is
written at a time is half the spacing: where entries come faster than they are written there are
fewer of them and more of them go at once.
"""

from storage_core.catalog.index_options import IndexOptions


class AdaptiveSpacing:
    """The spacing of one shard's entries. One thread at a time."""

    def __init__(self, options: IndexOptions, spacing: int, ups: int, downs: int) -> None:
        """Begin where the shard was left; a spacing of 0 is the least."""
        self.ups = ups
        self.downs = downs
        self.spacing = spacing
        self._since: int | None = None
        self.alter(options)

    def alter(self, options: IndexOptions) -> None:
        """Take over other options."""
        self._options = options
        self.spacing = max(options.spacing_min, min(self.spacing, options.spacing_max))

    @property
    def batch(self) -> int:
        """How many entries are written at a time."""
        return max(1, self.spacing // 2)

    @property
    def is_least(self) -> bool:
        """Tell whether time alone changes nothing."""
        return self.spacing == self._options.spacing_min

    def tick(self, waiting: int, ticks: int = 1) -> None:
        """Let ticks pass, at the last of which so many entries wait; one change at most."""
        options = self._options
        if self._since is not None:
            self._since += ticks
            if self._since <= options.ticks_between:
                return
        if 100 * waiting > options.high_percent * options.queue_max:
            spacing = min(2 * self.spacing, options.spacing_max)
        elif 100 * waiting < options.low_percent * options.queue_max:
            spacing = max(self.spacing // 2, options.spacing_min)
        else:
            return
        if spacing != self.spacing:
            self.ups += spacing > self.spacing
            self.downs += spacing < self.spacing
            self.spacing, self._since = spacing, 0

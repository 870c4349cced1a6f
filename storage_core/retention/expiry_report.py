"""What expiry took away, or would."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ShardExpiry:
    """What became of one shard.

    Attributes:
        floor_before: The primary below which all had expired; None if there was no such.
        floor_after: The same afterwards.
        start_before: The first address that the log had.
        start_after: The same afterwards.
        windows: Windows that went, with all that is kept by window.
        rows: Rows of these windows, late ones among them, and rows that a cap took. Rows that came
            ahead of the clock are in no window, and not counted where the floor takes them.
        late_rows: Late rows among them.
        blocks: Blocks that went. One that still holds a row that stays is not among them.
        bytes: Bytes of these blocks.
        segments: Segments that went, whose blocks were all gone.
        hidden: Rows that reads would show no more, exactly: also those below the floor that stay on
            the disk with their window, and those ahead of the clock. Counted by a dry run; None
            otherwise.
    """

    floor_before: int | None
    floor_after: int | None
    start_before: int
    start_after: int
    windows: int = 0
    rows: int = 0
    late_rows: int = 0
    blocks: int = 0
    bytes: int = 0
    segments: int = 0
    hidden: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ExpiryReport:
    """What became of the shards that are open here.

    Attributes:
        shards: Of each shard by its number.
        is_dry_run: Whether nothing was changed, and this is what would have been.
    """

    shards: Mapping[int, ShardExpiry]
    is_dry_run: bool = False

    @property
    def windows(self) -> int:
        """Windows that went, of all shards."""
        return self._sum(lambda one: one.windows)

    @property
    def rows(self) -> int:
        """Rows that went, of all shards."""
        return self._sum(lambda one: one.rows)

    @property
    def hidden(self) -> int | None:
        """Rows that reads would show no more, of all shards; None unless of a dry run."""
        return self._sum(lambda one: one.hidden or 0) if self.is_dry_run else None

    @property
    def late_rows(self) -> int:
        """Late rows that went, of all shards."""
        return self._sum(lambda one: one.late_rows)

    @property
    def blocks(self) -> int:
        """Blocks that went, of all shards."""
        return self._sum(lambda one: one.blocks)

    @property
    def bytes(self) -> int:
        """Bytes of blocks that went, of all shards."""
        return self._sum(lambda one: one.bytes)

    @property
    def segments(self) -> int:
        """Segments that went, of all shards."""
        return self._sum(lambda one: one.segments)

    def _sum(self, part: Callable[[ShardExpiry], int]) -> int:
        return sum(map(part, self.shards.values()))

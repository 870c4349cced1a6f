"""Which rows of a range are shown, and with which columns: what a reader hands to its tasks."""

from dataclasses import dataclass

from storage_core import INT64_MAX, INT64_MIN


@dataclass(frozen=True, slots=True)
class RowRules:
    """Which rows, and how. Every one looks at the stored row alone, so replays are equal.

    Attributes:
        columns: Columns wanted, in this order.
        start: Least primary, inclusive.
        end: Largest primary, inclusive.
        ids: Secondaries, or None for all.
        keys: Keys, None among them for records without one; or None for all.
        has_late: Whether rows that came late, or ahead of their time, are shown.
        has_expired: Whether rows that had expired when they came are shown.
    """

    columns: tuple[str, ...]
    start: int = INT64_MIN
    end: int = INT64_MAX
    ids: tuple[int, ...] | None = None
    keys: tuple[bytes | None, ...] | None = None
    has_late: bool = True
    has_expired: bool = False

    @property
    def is_empty(self) -> bool:
        """Tell whether no row can be meant."""
        return self.start > self.end or self.ids == ()

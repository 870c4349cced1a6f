"""What is asked of a shard: which rows of a range, and with which columns.

A range is read as it was stored. What has expired since, or lies below the floor, is shown; so the
same range is always answered alike, or with an error.
"""

from dataclasses import dataclass
from typing import Literal

from storage_core import INT64_MAX, INT64_MIN, ReadRequest

FieldMode = Literal["FAILFAST", "PERMISSIVE", "DROPMALFORMED"]


@dataclass(frozen=True, slots=True)
class FieldRules:
    """By which schema values are read; plain, since it is sent to every task.

    Attributes:
        schema: The reader's, a text that stands alone.
        identity: What tells it from others, in hex.
        columns: Those of the columns wanted that are fields, in their order.
        mode: What becomes of a value that cannot be read: its row ends the query, has null fields,
            or is left out and counted.
        is_whole: Whether a value must be sound in every field, and not only as far as columns ask.
    """

    schema: str
    identity: str
    columns: tuple[str, ...]
    mode: FieldMode
    is_whole: bool = True


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
        fields: How values are read by fields; None where they are bytes.
    """

    columns: tuple[str, ...]
    start: int = INT64_MIN
    end: int = INT64_MAX
    ids: tuple[int, ...] | None = None
    keys: tuple[bytes | None, ...] | None = None
    has_late: bool = True
    has_expired: bool = False
    fields: FieldRules | None = None

    @property
    def is_empty(self) -> bool:
        """Tell whether no row can be meant."""
        return self.start > self.end or self.ids == ()


def replay_request(
    shard: int, begin: int, end: int, columns: tuple[str, ...], expired_until: int
) -> ReadRequest:
    """Return a request for the offsets [begin, end) of a shard, all since a generation."""
    return ReadRequest(
        shard,
        start_address=begin,
        end_address=end,
        columns=columns,
        order="replay",
        expired_until=expired_until,
    )

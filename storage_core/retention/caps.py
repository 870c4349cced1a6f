"""Caps: how much a shard may hold.

A stream's cap is shared out evenly: each shard may hold its part, rounded up, whatever the others
do. A retry shard takes nothing of it: it may hold as much as its partition's shard, beside it.
The oldest go first, as they came: a cap takes the rows of the log's first addresses
(write/log_sizes.py).
"""

from collections.abc import Collection
from dataclasses import dataclass

from storage_core.catalog.options import StreamOptions
from storage_core.catalog.origin import RETRY_SHARDS_FROM


@dataclass(frozen=True, slots=True)
class Caps:
    """What one shard may hold; None for no bound."""

    records_max: int | None = None
    bytes_max: int | None = None

    @classmethod
    def of_each(cls, options: StreamOptions, shards: Collection[int]) -> "Caps":
        """Return what each of a stream's shards may hold."""
        sharing = sum(1 for shard in shards if shard < RETRY_SHARDS_FROM)
        parts = (
            None if cap is None else -(-cap // max(1, sharing))
            for cap in (options.records_max, options.bytes_max)
        )
        return cls(*parts)

    @property
    def are_any(self) -> bool:
        """Tell whether there is a bound."""
        return self.records_max is not None or self.bytes_max is not None

"""Caps: how much a shard may hold.

A stream's cap is shared out evenly: each shard may hold its part, rounded up, whatever the others
do. The oldest go first, as they came: a cap takes the rows of the log's first addresses
(write/log_sizes.py).
"""

from dataclasses import dataclass

from storage_core.catalog.options import StreamOptions


@dataclass(frozen=True, slots=True)
class Caps:
    """What one shard may hold; None for no bound."""

    records_max: int | None = None
    bytes_max: int | None = None

    @classmethod
    def of_each(cls, options: StreamOptions, shards: int) -> "Caps":
        """Return what each of so many shards may hold."""
        parts = (
            None if cap is None else -(-cap // max(1, shards))
            for cap in (options.records_max, options.bytes_max)
        )
        return cls(*parts)

    @property
    def are_any(self) -> bool:
        """Tell whether there is a bound."""
        return self.records_max is not None or self.bytes_max is not None

"""What maintenance did."""

from collections.abc import Mapping
from dataclasses import dataclass

from storage_core.tiering.compact_report import Compacted
from storage_core.tiering.seal_report import ShardSeal, ShardTrim


@dataclass(frozen=True, slots=True)
class ShardMaintenance:
    """What one turn did in a shard.

    Attributes:
        sealed: What was sealed; None for nothing.
        compacted: Which parts were joined; None for none.
        trimmed: Which blocks went; None for none.
    """

    sealed: ShardSeal | None = None
    compacted: Compacted | None = None
    trimmed: ShardTrim | None = None

    @property
    def is_idle(self) -> bool:
        """Tell whether nothing was due."""
        return (self.sealed, self.compacted, self.trimmed) == (None, None, None)


@dataclass(frozen=True, slots=True)
class MaintenanceReport:
    """What one turn did in each shard."""

    shards: Mapping[int, ShardMaintenance]

    @property
    def is_idle(self) -> bool:
        """Tell whether nothing was due."""
        return all(one.is_idle for one in self.shards.values())

    @property
    def rows_sealed(self) -> int:
        """How many rows were sealed."""
        return sum(one.sealed.rows for one in self.shards.values() if one.sealed is not None)

    @property
    def rows_joined(self) -> int:
        """How many rows of parts were written anew."""
        joined = [one.compacted for one in self.shards.values()]
        return sum(one.successor.rows for one in joined if one is not None)

    @property
    def rows_trimmed(self) -> int:
        """How many rows are in parts alone since."""
        return sum(one.trimmed.rows for one in self.shards.values() if one.trimmed is not None)

    @property
    def bytes(self) -> int:
        """How many bytes of files were written."""
        each = self.shards.values()
        made = [part for one in each if one.sealed is not None for part in one.sealed.parts]
        made += [one.compacted.successor for one in each if one.compacted is not None]
        return sum(part.size for part in made)

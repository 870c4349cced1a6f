"""What compaction did."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from storage_core.format.part_entry import PartEntry

# Told how many rows were written so far.
Rewritten = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Compacted:
    """Parts that became one.

    Attributes:
        parts: Those that they were, in the order of their addresses.
        successor: The part that has their rows now.
    """

    parts: tuple[PartEntry, ...]
    successor: PartEntry


@dataclass(frozen=True, slots=True)
class CompactReport:
    """What compaction did in each shard, step by step."""

    shards: Mapping[int, tuple[Compacted, ...]]

    @property
    def steps(self) -> tuple[Compacted, ...]:
        """Return each step, shard by shard."""
        return tuple(one for steps in self.shards.values() for one in steps)

    @property
    def rows(self) -> int:
        """How many rows were written anew, each as often as it was."""
        return sum(one.successor.rows for one in self.steps)

    @property
    def bytes(self) -> int:
        """How many bytes of files were written."""
        return sum(one.successor.size for one in self.steps)

    @property
    def parts_fewer(self) -> int:
        """By how many parts there are fewer."""
        return sum(len(one.parts) - 1 for one in self.steps)

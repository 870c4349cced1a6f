"""What sealing and trimming did."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from storage_core.format.part_entry import PartEntry

# Told how many rows were sealed so far.
Sealed = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class ShardSeal:
    """What sealing a shard did.

    Attributes:
        sealed_before: Up to which address rows were in parts.
        sealed: Up to which they are.
        parts: Those that were made, each of rows of its own.
    """

    sealed_before: int
    sealed: int
    parts: tuple[PartEntry, ...] = ()

    @property
    def rows(self) -> int:
        """How many rows were sealed."""
        return sum(part.rows for part in self.parts)


@dataclass(frozen=True, slots=True)
class Mended:
    """A part whose file was damaged or gone, and was made again.

    Attributes:
        part: The part that it was.
        what: What was wrong with its file.
        successor: The part that has its rows now; None where all of them have expired.
    """

    part: PartEntry
    what: str
    successor: PartEntry | None


@dataclass(frozen=True, slots=True)
class ShardTrim:
    """What trimming a shard did.

    Attributes:
        trimmed_before: Below which address no block was left.
        trimmed: Below which none is.
        rows: How many rows are in parts alone since.
        blocks: How many blocks went.
        bytes: How many bytes these had.
    """

    trimmed_before: int
    trimmed: int
    rows: int = 0
    blocks: int = 0
    bytes: int = 0

    def plus(self, later: "ShardTrim") -> "ShardTrim":
        """Return what two trims did, one behind the other."""
        return ShardTrim(
            self.trimmed_before,
            later.trimmed,
            self.rows + later.rows,
            self.blocks + later.blocks,
            self.bytes + later.bytes,
        )


@dataclass(frozen=True, slots=True)
class SealReport:
    """What sealing did in each shard, and which parts it made again before."""

    shards: Mapping[int, ShardSeal]
    mended: Mapping[int, tuple[Mended, ...]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many rows were sealed."""
        return sum(one.rows for one in self.shards.values())

    @property
    def parts(self) -> int:
        """How many parts were made."""
        return sum(len(one.parts) for one in self.shards.values())


@dataclass(frozen=True, slots=True)
class TrimReport:
    """What trimming did in each shard."""

    shards: Mapping[int, ShardTrim]

    @property
    def rows(self) -> int:
        """How many rows are in parts alone since."""
        return sum(one.rows for one in self.shards.values())

    @property
    def blocks(self) -> int:
        """How many blocks went."""
        return sum(one.blocks for one in self.shards.values())

    @property
    def bytes(self) -> int:
        """How many bytes these had."""
        return sum(one.bytes for one in self.shards.values())

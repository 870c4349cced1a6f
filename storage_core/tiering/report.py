"""What tiering did: one report of seals, compactions, trims, rebuilds and maintenance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from storage_core.format.part_entry import PartEntry

StepKind = Literal["seal", "compact", "trim", "rebuild"]


@dataclass(frozen=True, slots=True)
class TieringStep:
    """One step in a shard.

    Attributes:
        kind: What was done.
        start: The first address of its rows.
        end: The exclusive end of their addresses.
        rows: How many rows were sealed, written again, or are in parts alone since.
        built: The parts that were built.
        obsolete: The parts that they replace.
        blocks: How many blocks of the log were deleted.
        block_bytes: How many bytes these had.
        damage: What was wrong with the file of a part that was rebuilt.
    """

    kind: StepKind
    start: int
    end: int
    rows: int
    built: tuple[PartEntry, ...] = ()
    obsolete: tuple[PartEntry, ...] = ()
    blocks: int = 0
    block_bytes: int = 0
    damage: str = ""


@dataclass(frozen=True, slots=True)
class ShardTiering:
    """What was done in a shard, and how far it is.

    Attributes:
        sealed: Rows below this address are in parts.
        trimmed: Rows below this address are in parts alone.
        steps: What was done, in order.
    """

    sealed: int
    trimmed: int
    steps: tuple[TieringStep, ...] = ()

    def of(self, kind: StepKind) -> tuple[TieringStep, ...]:
        """Return the steps of one kind."""
        return tuple(step for step in self.steps if step.kind == kind)


@dataclass(frozen=True, slots=True)
class TieringReport:
    """What a call did in each shard."""

    shards: Mapping[int, ShardTiering]

    def after(self, steps: Mapping[int, Sequence[TieringStep]]) -> "TieringReport":
        """Return this with steps that were done before in each shard."""
        shards = {
            number: replace(done, steps=(*steps[number], *done.steps))
            for number, done in self.shards.items()
        }
        return TieringReport(shards)

    @property
    def steps(self) -> tuple[TieringStep, ...]:
        """Return each step, shard by shard."""
        return tuple(step for shard in self.shards.values() for step in shard.steps)

    @property
    def is_idle(self) -> bool:
        """Tell whether nothing was due."""
        return not self.steps

    @property
    def rows(self) -> int:
        """How many rows all steps had together."""
        return sum(step.rows for step in self.steps)

    @property
    def rows_sealed(self) -> int:
        """How many rows were sealed."""
        return sum(step.rows for step in self.steps if step.kind == "seal")

    @property
    def rows_compacted(self) -> int:
        """How many rows of parts were merged, each as often as it was."""
        return sum(step.rows for step in self.steps if step.kind == "compact")

    @property
    def rows_trimmed(self) -> int:
        """How many rows are in parts alone since."""
        return sum(step.rows for step in self.steps if step.kind == "trim")

    @property
    def parts_built(self) -> int:
        """How many parts were built."""
        return sum(len(step.built) for step in self.steps)

    @property
    def parts_obsolete(self) -> int:
        """How many parts were replaced by others."""
        return sum(len(step.obsolete) for step in self.steps)

    @property
    def bytes_built(self) -> int:
        """How many bytes the files of these have."""
        return sum(part.size for step in self.steps for part in step.built)

    @property
    def blocks(self) -> int:
        """How many blocks of the log were deleted."""
        return sum(step.blocks for step in self.steps)

    @property
    def block_bytes(self) -> int:
        """How many bytes these had."""
        return sum(step.block_bytes for step in self.steps)

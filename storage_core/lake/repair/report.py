"""What a repair of a stream's table, and of its parts, has done, and what is left."""

from dataclasses import dataclass
from typing import Literal

from storage_core.errors import ShardlogError
from storage_core.lake.maintenance.report import LakeCheck

# How a file was made good: brought to this machine from the store, or from a copy elsewhere;
# deleted here, as only the lake is to have it; uploaded to the store.
RepairKind = Literal["from lake", "from copy", "left to lake", "uploaded"]


@dataclass(frozen=True, slots=True)
class RepairedFile:
    """A file that was made good.

    Attributes:
        shard: The shard's number.
        start: The first address of its rows.
        end: Their exclusive end.
        kind: How it was done.
        file: Its path below the table; of a part's file here its name.
        source: The copy that it was taken from, if it was one.
    """

    shard: int
    start: int
    end: int
    kind: RepairKind
    file: str
    source: str | None = None


@dataclass(frozen=True, slots=True)
class LakeRepair:
    """What a repair has done.

    Attributes:
        repaired: The files that were made good.
        runs_written: How many heads runs were written again that were missing or damaged.
        left: The comparison behind it: what is wrong still.
        errors: Why shards could not be published, if they could not.
    """

    repaired: tuple[RepairedFile, ...]
    runs_written: int
    left: LakeCheck
    errors: tuple[ShardlogError, ...]

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong any more."""
        return self.left.is_clean and not self.errors

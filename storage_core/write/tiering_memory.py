"""What tiering remembers of an open shard, so that a round in which nothing is due costs little."""

from dataclasses import dataclass

from storage_core.read.cold.part_index import PartIndex


@dataclass(slots=True)
class TieringMemory:
    """One for each open shard. Used by one thread at a time, which is alone with the shard.

    Attributes:
        compacted: The part list in which nothing is left to be merged.
        expiry_checked: Generation, window of the floor and number of parts at the last look for
            parts whose rows have all expired.
        is_swept: Whether obsolete files were looked for since the shard was opened.
        obsolete_since_ns: Since when the oldest obsolete file waits; None where none does.
        has_wrong_names: Whether the system refused a change of the names that other programs see.
    """

    compacted: PartIndex | None = None
    expiry_checked: tuple[int, int, int] | None = None
    is_swept: bool = False
    obsolete_since_ns: int | None = None
    has_wrong_names: bool = False

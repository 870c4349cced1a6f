"""What a shard's maintenance remembers between its runs.

It is forgotten with the shard: after an opening everything is looked at once. Read and changed
under the shard's maintenance lock.
"""

from dataclasses import dataclass, field

from storage_core.parts.snapshot import PartIndex
from storage_core.write.log_sizes import LogSizes


@dataclass(slots=True)
class MaintenanceState:
    """What was seen of one shard, so that a run with nothing to do costs nearly nothing.

    Attributes:
        log_sizes: Records and bytes of its committed blocks, where it has limits.
        compacted_parts: The part list in which there was nothing left to compact.
        expiry_checked: Generation, window of the floor and number of parts when expired parts were
            last looked for.
        has_looked_for_files: Whether obsolete files were looked for since the opening.
        obsolete_since_ns: Since when the oldest obsolete file waits for its deletion; None if none
            does.
        has_wrong_names: Whether the system refused to change a visible name of a part.
    """

    log_sizes: LogSizes = field(default_factory=LogSizes)
    compacted_parts: PartIndex | None = None
    expiry_checked: tuple[int, int, int] | None = None
    has_looked_for_files: bool = False
    obsolete_since_ns: int | None = None
    has_wrong_names: bool = False

"""What a shard's maintenance remembers between its runs.

It is forgotten with the shard: after an opening everything is looked at once. Read and changed
under the shard's maintenance lock.
"""

from dataclasses import dataclass, field

from storage_core.read.cold.part_index import PartIndex
from storage_core.write.log_sizes import LogSizes


@dataclass(slots=True)
class MaintenanceState:
    """What was seen of one shard, so that a run with nothing to do costs nearly nothing.

    Attributes:
        log_sizes: Records and bytes of its committed blocks, where it has limits.
        compacted_parts: The part list in which there was nothing left to compact.
        decoded_bytes: What the rows of parts take in memory, by part number.
        retired_at: Generation, window of the floor and number of parts when expired parts were
            last looked for.
        is_swept: Whether superseded files were looked for since the opening.
        superseded_since_ns: Since when the oldest superseded file waits for its deletion; None
            if none does.
        has_stale_names: Whether the system refused to change a visible name of a part.
    """

    log_sizes: LogSizes = field(default_factory=LogSizes)
    compacted_parts: PartIndex | None = None
    decoded_bytes: dict[int, int] = field(default_factory=dict)
    retired_at: tuple[int, int, int] | None = None
    is_swept: bool = False
    superseded_since_ns: int | None = None
    has_stale_names: bool = False

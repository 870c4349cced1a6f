"""What stands beside a group's offset in Kafka: whose data is behind it."""

from dataclasses import dataclass
from typing import Final

_MARK: Final = "shardlog"
_PARTS: Final = 3


@dataclass(frozen=True, slots=True)
class HomeMark:
    """What a worker leaves beside the group's offset: whose data stands behind it."""

    root_id: str
    lineage: str

    def encode(self) -> str:
        """Return it as the metadata of a committed offset."""
        return f"{_MARK}:{self.root_id}:{self.lineage}"


def decode_home_mark(metadata: str) -> HomeMark | None:
    """Return the mark, None if somebody else wrote the metadata."""
    # NOTE: confluent-kafka (2.16) sends a NUL behind what it is given, and takes it off again when
    # it reads; what other clients give back has it.
    parts = metadata.rstrip("\0").split(":")
    if len(parts) != _PARTS or parts[0] != _MARK:
        return None
    return HomeMark(parts[1], parts[2])

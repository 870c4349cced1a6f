"""A position: an exact place in a stream, for offsets, backups and reads as of a moment."""

import json
from dataclasses import dataclass

from storage_core.errors import InvalidRequestError


@dataclass(frozen=True, slots=True)
class ShardPosition:
    """An address in the log of one lineage."""

    lineage: str
    address: int


@dataclass(frozen=True, slots=True)
class Position:
    """Where each shard of one incarnation of a stream stands."""

    incarnation: str
    shards: dict[int, ShardPosition]

    def to_json(self) -> str:
        """Return the position as JSON text."""
        places = {str(n): [place.lineage, place.address] for n, place in self.shards.items()}
        return json.dumps({"incarnation": self.incarnation, "shards": places}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Position":
        """Return what `to_json` was given."""
        try:
            fields = json.loads(text)
            shards = {
                int(n): ShardPosition(str(lineage), int(address))
                for n, (lineage, address) in fields["shards"].items()
            }
            return cls(str(fields["incarnation"]), shards)
        except (TypeError, KeyError, AttributeError, ValueError, RecursionError) as error:
            message = f"not a position: {error}"
            raise InvalidRequestError(message) from error

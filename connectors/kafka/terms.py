"""What Kafka's records and places are called here; loads no client."""

from dataclasses import dataclass
from typing import Final, NamedTuple

Headers = list[tuple[str, bytes | None]]
# The id of records without a key.
NULL_KEY_ID: Final = -1


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int


@dataclass(frozen=True, slots=True)
class Place:
    """An offset of a partition, with what Kafka keeps beside it."""

    offset: int
    epoch: int | None = None
    metadata: str = ""

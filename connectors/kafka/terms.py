"""What Kafka's records and places are called here; loads no client."""

from dataclasses import dataclass
from typing import Final, NamedTuple

Headers = list[tuple[str, bytes | None]]
# Partitions of a topic have numbers below it: the shards of retried dead letters lie from there on.
PARTITIONS_MAX: Final = 1_000_000


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

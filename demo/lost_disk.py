"""A disk that is lost for good, and what the lake has by then."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from demo.job import TELEMETRY
from storage_core.lake import lake_status

# How long a row waits until it is published. What came since, Kafka has.
LAKE_LAG_S: Final = 5


@dataclass(frozen=True, slots=True)
class Published:
    """How far the lake has the shards of the stream.

    Attributes:
        shards: Up to which address, of those it has anything of.
        unpublished: How many records it has not yet.
    """

    shards: Mapping[int, int]
    unpublished: int


def published(root: Path) -> Published:
    """Ask the lake."""
    shards = lake_status(root, TELEMETRY).shards
    return Published(
        {shard: one.published for shard, one in shards.items() if one.published},
        sum(one.committed - (one.published or 0) for one in shards.values()),
    )


def is_disk_deleted(root: Path) -> bool:
    """Delete all that a machine has stored; tell whether it is gone.

    What belonged to its worker ends behind it, and may write for a moment still.
    """
    shutil.rmtree(root, ignore_errors=True)
    return not root.exists()

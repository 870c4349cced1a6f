"""The shards that rows of retried dead letters go to, one a partition, and how a retry is finished.

A row cannot take its record's own address: readers are past it. So it is appended to the retry
shard of its partition, which is a shard like any other: 1000003 has what partition 3 had refused.
With each batch the retry shard's source names the dead letters that became it. Whoever opens the
partition's shard clears those of the last batch first, so that a retry that died between storing
rows and clearing their dead letters is finished by whoever comes next: a retry, or the worker.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from connectors.kafka.terms import Partition
from storage_core import RETRY_SHARDS_FROM, InvalidRequestError

if TYPE_CHECKING:
    # Commands that only ask which shards these are load no writer.
    from storage_core import Stream


def retry_shard_of(partition: int) -> int:
    """Return the shard that rows of a partition's retried dead letters go to."""
    return RETRY_SHARDS_FROM + partition


def partition_of(shard: int) -> int | None:
    """Return the partition whose retry shard this is, None if it is a partition's own."""
    return shard - RETRY_SHARDS_FROM if shard >= RETRY_SHARDS_FROM else None


def refuse_beyond(partition: Partition) -> None:
    """Refuse a partition whose shard would be another one's retry shard.

    Raises:
        InvalidRequestError: Its number is too large.
    """
    if partition.number >= RETRY_SHARDS_FROM:
        message = (
            f"partition {partition.number} cannot be stored: numbers go up to "
            f"{RETRY_SHARDS_FROM - 1}; shards from there on are those of retried dead letters"
        )
        raise InvalidRequestError(message, stream=partition.topic)


def shards_of(partition: int, shards: Collection[int]) -> list[int]:
    """Return those of a stream's shards that belong to a partition."""
    return [shard for shard in (partition, retry_shard_of(partition)) if shard in shards]


def source_of(stream: "Stream", partition: int, offsets: list[int]) -> dict[str, Any]:
    """Return what is kept beside rows: which dead letters became them."""
    return {"retried": {"lineage": stream.lineage(partition), "offsets": offsets}}


def finish_retry(stream: "Stream", partition: int) -> int:
    """Clear the dead letters whose rows the retry shard has; return how many were still there.

    Args:
        stream: Open with the partition's shards.
        partition: The partition.
    """
    source: Any = stream.source(retry_shard_of(partition)) or {}
    retried = source.get("retried", {})
    if retried.get("lineage") != stream.lineage(partition):
        # Those of a shard that was reset meanwhile are not this shard's.
        return 0
    return stream.clear_dead_letters(partition, retried["offsets"], outcome="retried")

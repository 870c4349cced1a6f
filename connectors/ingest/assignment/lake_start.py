"""Whether a shard begins from its stream's lake, and when it must not.

A table says below which address it has a shard's rows, and whose log they are from. What a root has
of the shard below that is a cache; what is above it is in Kafka, or nobody has it.

Pure decisions; lake_shards.py and shard_opening.py ask them.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from connectors.group.home_mark import HomeMark, decode_home_mark
from connectors.kafka import Place
from storage_core import LostRangeError

if TYPE_CHECKING:
    from storage_core.lake import LakePosition


@dataclass(frozen=True, slots=True)
class KafkaSide:
    """What Kafka says of a partition whose shard is to be opened.

    Attributes:
        low: The first offset that it has.
        stored: Up to where the group has stored it; 0 where it has committed nothing.
        home: Whose data stands behind that, as far as the group says.
    """

    low: int
    stored: int = 0
    home: HomeMark | None = None

    @property
    def root(self) -> str | None:
        """The root that stored it last, as far as is known."""
        return None if self.home is None else self.home.root_id


def kafka_side(low: int, committed: Place | None) -> KafkaSide:
    """Return what Kafka says: where a partition begins, and what the group has committed."""
    if committed is None:
        return KafkaSide(low)
    return KafkaSide(low, committed.offset, decode_home_mark(committed.metadata))


def begins_from_lake(position: "LakePosition | None", shard_next: int | None) -> bool:
    """Tell whether a shard is to begin from the lake, in place of the log that lies here.

    Args:
        position: What the table says of it; None where the table has nothing of it.
        shard_next: Where the log stands that lies here; None where none does.
    """
    if position is None:
        return False
    return shard_next is None or not position.is_own or shard_next < position.published


def is_alone(position: "LakePosition", shard_next: int | None, side: KafkaSide) -> bool:
    """Tell whether the log that lies here has rows that neither the lake nor Kafka has.

    Such a log goes on, whoever publishes the shard: a new one would begin without these rows.

    Args:
        position: What the table says of the shard.
        shard_next: Where the log stands that lies here; None where none does.
        side: What Kafka says.
    """
    return shard_next is not None and position.published < min(shard_next, side.low)


def unreachable(published: int, side: KafkaSide, place: tuple[str, int]) -> LostRangeError | None:
    """Return the error for offsets that neither the lake nor Kafka has, None if there are none.

    Args:
        published: The address below which the table has the shard's rows.
        side: What Kafka says.
        place: Topic and partition.
    """
    if side.low <= published:
        return None
    topic, number = place
    message = (
        f"nobody has these offsets: the lake ends at {published} and Kafka begins at {side.low}; "
        f"{_advice(side)}, or set on_out_of_range=skip to record the gap and go on"
    )
    return LostRangeError(message, stream=topic, shard=number, start=published, end=side.low)


def unpublished(side: KafkaSide, place: tuple[str, int]) -> LostRangeError | None:
    """Return the error for a shard of another root of which the lake has nothing, nor Kafka all.

    Args:
        side: What Kafka says.
        place: Topic and partition.
    """
    if not side.low:
        return None
    topic, number = place
    message = (
        f"root {side.root} stored this partition up to {side.stored} and published nothing of it, "
        f"and Kafka begins at {side.low}; {_advice(side)}, or set on_out_of_range=skip to go on "
        "without what lies below"
    )
    return LostRangeError(message, stream=topic, shard=number, start=0, end=side.low)


def _advice(side: KafkaSide) -> str:
    whose = "the root that stored them" if side.root is None else f"root {side.root}"
    return f"run `shardlog lake publish` in {whose}"

"""Where a shard goes on reading its partition, and when it must not.

Pure decisions over what the shard, the broker and the group say; shard_opening.py asks them.
"""

from collections.abc import Collection
from typing import Literal

from connectors.group.home_mark import HomeMark, decode_home_mark
from connectors.kafka import Place
from storage_core import ForeignDataError, LostRangeError

Verdict = Literal["go on", "ignored"]


def check_group_offset(  # noqa: PLR0913 - all that the decision stands on
    place: tuple[str, int],
    shard_next: int,
    committed: Place,
    home: HomeMark | None,
    *,
    adopt: bool,
    dropped: Collection[str] = (),
    has_lake: bool = False,
) -> Verdict:
    """Judge a group offset that differs from the shard's own next offset.

    Workers leave it at most there, and their mark beside it. Without a mark somebody else has
    moved it, to either side.

    Args:
        place: Topic and partition.
        shard_next: Where the shard stands.
        committed: What the group has committed.
        home: The shard's own mark; None when there is no shard yet.
        adopt: Whether a copy of a root may go on.
        dropped: Lineages of logs that were dropped from this root, or archived by a reset.
        has_lake: Whether what another log published of the shard is here, and the rest in Kafka.

    Returns:
        `ignored` when somebody else moved the group's offset, else `go on`.

    Raises:
        ForeignDataError: The data behind the offset lies elsewhere.
    """
    mark, group_offset = decode_home_mark(committed.metadata), committed.offset
    if mark is None and group_offset != shard_next:
        return "ignored"
    if mark is None or group_offset <= shard_next:
        return "go on"
    if mark.lineage in dropped:
        return "go on"
    topic, number = place
    ahead = f"the group stands at {group_offset}, this shard at {shard_next}"
    is_of_another = home is None or mark.lineage != home.lineage
    if is_of_another and has_lake:
        return "go on"
    if home is None or is_of_another:
        message = (
            f"{ahead}: its data lies in root {mark.root_id}; run the worker there, or use "
            "another group.id for a second copy"
        )
        raise ForeignDataError(message, stream=topic, shard=number)
    if mark.root_id != home.root_id and not adopt:
        message = (
            f"{ahead}: this root is a copy of {mark.root_id}, which went on; set adopt=true to "
            "go on here and fetch again what Kafka still holds"
        )
        raise ForeignDataError(message, stream=topic, shard=number)
    return "go on"


def check_watermarks(
    shard_next: int, watermarks: tuple[int, int], place: tuple[str, int], *, has_lake: bool = False
) -> tuple[int, int] | None:
    """Return the offsets that retention took before they were stored, None if there are none.

    Args:
        shard_next: Where the shard stands.
        watermarks: Where the partition begins and ends.
        place: Topic and partition.
        has_lake: Whether the stream has one, from which another log would begin too.

    Raises:
        ForeignDataError: The partition ends below what is stored.
    """
    low, end = watermarks
    topic, number = place
    if end < shard_next:
        way_out = "drop the stream to take the topic anew, or use another root"
        if has_lake:
            way_out = "drop the stream and name it another lake to take the topic anew"
        message = (
            f"the partition ends at {end}, below {shard_next} which is stored: its log was cut "
            "(unclean election or a restored broker); records to come would differ from those "
            f"stored at the same offsets; {way_out}"
        )
        raise ForeignDataError(message, stream=topic, shard=number, start=end, end=shard_next)
    return (shard_next, low) if low > shard_next else None


def out_of_range(gap: tuple[int, int], place: tuple[str, int]) -> LostRangeError:
    """Return the error for records that Kafka's retention took before they were stored."""
    topic, number = place
    message = (
        "Kafka's retention has passed these offsets before they were stored (they may have held "
        "only control or compacted records); set on_out_of_range=skip to record the gap and go on"
    )
    return LostRangeError(message, stream=topic, shard=number, start=gap[0], end=gap[1])

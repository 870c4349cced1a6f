"""Heads as an opening finds them: what is on disk, and what the blocks behind it make of them."""

from collections.abc import Iterator

from storage_core.errors import CorruptionError
from storage_core.format.shard_state import AddressRange
from storage_core.format.zone import Zone
from storage_core.ids.heads.replay import block_groups, replay_block
from storage_core.ids.heads.shard_heads import ShardHeads
from storage_core.read.snapshot import ShardSnapshot


def replay_heads(view: ShardSnapshot, heads: ShardHeads) -> list[AddressRange]:
    """Bring heads up to the tail; return the ranges of blocks that cannot be read.

    Args:
        view: Of all that is written, committed or not.
        heads: As they are on disk.

    Raises:
        CorruptionError: A zone is missing or damaged, and with it what comes next would be judged
            by; the message says what to do.
    """
    unreadable = []
    for zone in _above_heads(view):
        if any(lost.overlaps(zone.first, zone.end) for lost in view.state.lost):
            continue
        try:
            block = view.block(zone)
        except CorruptionError:
            unreadable.append(AddressRange(zone.first, zone.end))
            continue
        groups = block_groups(block)
        after = replay_block(block, groups, heads.find(groups.ids))
        heads.written(zone.end, after, 1)
    return unreadable


def _above_heads(view: ShardSnapshot) -> Iterator[Zone]:
    state = view.state
    try:
        yield from view.zones(max(state.heads_through, state.start), state.tail.next)
    except CorruptionError as error:
        message = (
            f"{error.message}, so the shard cannot be written to; "
            "restore the shard's directory from a backup"
        )
        raise CorruptionError(
            message, stream=error.stream, shard=error.shard, start=error.start, end=error.end
        ) from error

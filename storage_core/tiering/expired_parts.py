"""Removes parts whose rows have all expired: their entries first, then their files."""

from collections.abc import Sequence
from functools import partial

from storage_core.engine.key_value import Batch
from storage_core.format.part_entry import PartEntry
from storage_core.format.shard_state import ShardState
from storage_core.parts.part_list import replace_parts
from storage_core.parts.snapshot import parts_directory, parts_in
from storage_core.read.snapshot import ShardSnapshot
from storage_core.tiering.part_directory import show_parts
from storage_core.write.shard import Shard


def remove_expired_parts(shard: Shard) -> list[PartEntry]:
    """Remove the parts of which all rows have expired; durable on return.

    1. Look, where the generation, the floor's window or the parts are others than at the last
       look: a part whose addresses lie below the log's start, or whose last window lies below the
       floor's, has no visible row; but below the start there may be some that came ahead of the
       clock. And where blocks of its addresses stay, a replay shows them whole, and a part has
       what trimmed ones had and others will need to be trimmed.
    2. Publish: their entries go in one WriteBatch; sync; write the marker anew, so that readers in
       other processes look again. Other programs see the files no more.
    3. Free: the files are unlinked once no view is open that may read them. What a crash leaves of
       them is deleted, as obsolete files are.

    Raises:
        UnavailableError: Something else held the shard for too long.
        ShardPoisonedError: The write failed, or an earlier one had.
    """
    return shard.guard.maintain(lambda: _remove(shard))


def _remove(shard: Shard) -> list[PartEntry]:
    shard.guard.refuse_if_unusable()
    state = shard.state()
    checked = state.generation, shard.context.meta.scheme.of(state.floor), state.parts
    if not state.parts or shard.maintenance.expiry_checked == checked:
        return []
    view = shard.snapshots.committed()
    try:
        expired = [part for part in parts_in(view).entries if _has_expired(part, view)]  # 1
    finally:
        view.close()
    if expired:
        shard.commit_path.apply_change(partial(_without, expired))  # 2
        show_parts(shard, expired, ())
        directory = parts_directory(shard.context.directory)
        shard.free((), (), [directory / part.file_name for part in expired])  # 3
    shard.maintenance.expiry_checked = checked
    return expired


def _has_expired(part: PartEntry, view: ShardSnapshot) -> bool:
    scheme, state = view.scheme, view.state
    is_live = scheme.of(part.primary_max) >= scheme.of(state.floor)
    if part.last < state.start:
        # Rows ahead of the clock outlive their blocks, and all that came beside them.
        return part.last < state.cut or not (part.is_out_of_order and is_live)
    if is_live:
        return False
    return next(view.zones(part.first, part.last + 1), None) is None


def _without(
    expired: Sequence[PartEntry], state: ShardState, _window_now: object
) -> tuple[Batch, ShardState]:
    batch = Batch()
    return batch, replace_parts(batch, state, expired, ())

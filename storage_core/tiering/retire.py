"""Parts go: their entries first, in one WriteBatch, their files once that is durable."""

from collections.abc import Sequence
from functools import partial

from storage_core.engine.key_value import Batch
from storage_core.format.part_entry import PartEntry
from storage_core.format.shard_state import ShardState
from storage_core.parts.part_list import replace_parts
from storage_core.read.cold.parts import parts_directory, parts_in
from storage_core.read.view import ShardView
from storage_core.tiering.visible_files import show_parts
from storage_core.write.shard import Shard


def retire_parts(shard: Shard) -> list[PartEntry]:
    """Let the parts go of which all has expired; durable on return.

    1. Look, where the generation, the floor's window or the parts are others than at the last
       look: a part whose addresses lie below the log's start, or whose last window lies below the
       floor's, has nothing that is shown. But where blocks of its addresses stay, a replay shows
       them whole, and a part has what trimmed ones had and others will need to be trimmed.
    2. Write: their entries go in one WriteBatch; sync; write the marker anew, so that readers in
       other processes look again.
    3. Show: other programs see their files no more.
    4. Free: the files are unlinked once no view is open that may read them. What a crash leaves of
       them is swept, as what was replaced is.

    Raises:
        UnavailableError: Something else held the shard for too long.
        ShardPoisonedError: The write failed, or an earlier one had.
    """
    return shard.guard.maintain(lambda: _retire(shard))


def _retire(shard: Shard) -> list[PartEntry]:
    shard.guard.refuse_if_unusable()
    facts = shard.state()
    seen = facts.generation, shard.context.meta.scheme.of(facts.floor), facts.parts
    if not facts.parts or shard.maintenance.retired_at == seen:
        return []
    view = shard.snapshots.committed()
    try:
        gone = [part for part in parts_in(view).entries if _has_expired(part, view)]  # 1
    finally:
        view.close()
    if gone:
        shard.commit_path.apply_change(partial(_without, gone))  # 2
        show_parts(shard, gone, ())  # 3
        directory = parts_directory(shard.context.directory)
        shard.free((), (), [directory / part.file_name for part in gone])  # 4
    shard.maintenance.retired_at = seen
    return gone


def _has_expired(part: PartEntry, view: ShardView) -> bool:
    scheme, state = view.scheme, view.state
    if part.last < state.start:
        return True
    if scheme.of(part.primary_max) >= scheme.of(state.floor):
        return False
    return next(view.zones(part.first, part.last + 1), None) is None


def _without(
    gone: Sequence[PartEntry], state: ShardState, _window_now: object
) -> tuple[Batch, ShardState]:
    batch = Batch()
    return batch, replace_parts(batch, state, gone, [])

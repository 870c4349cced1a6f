"""Parts go: their entries first, in one WriteBatch, their files once that is durable."""

from collections.abc import Sequence
from functools import partial
from typing import Final
from weakref import WeakKeyDictionary

from storage_core.format.part_entry import PartEntry, part_key
from storage_core.format.shard_state import ShardState
from storage_core.ground.durable_file import file_errors
from storage_core.read.parts import parts_directory, parts_in
from storage_core.read.view import ShardView
from storage_core.store.key_value import Batch
from storage_core.upkeep.exclusive import alone
from storage_core.write.shard import Shard

# Log's start, floor's window and number of parts when a shard's parts were last looked at.
_SEEN: Final[WeakKeyDictionary[Shard, tuple[int, int, int]]] = WeakKeyDictionary()


def retire_parts(shard: Shard) -> list[PartEntry]:
    """Let the parts go of which all has expired; durable on return.

    1. Look, where the log's start, the floor's window or the parts are others than at the last
       look: a part whose addresses lie below the start, or whose last window lies below the
       floor's, has nothing that is shown.
    2. Write: their entries go in one WriteBatch; sync; write the marker with a new generation, so
       that readers in other processes see the same.
    3. Free: unlink the files. What a crash leaves of them the next seal sweeps.

    Raises:
        UnavailableError: Something else held the shard for too long, or the disk refuses.
        ShardPoisonedError: The write failed, or an earlier one had.
    """
    return alone(shard, lambda: _retire(shard))


def _retire(shard: Shard) -> list[PartEntry]:
    shard.guard.refuse_if_unusable()
    facts = shard.state()
    seen = facts.start, shard.context.meta.scheme.of(facts.floor), facts.parts
    if not facts.parts or _SEEN.get(shard) == seen:
        return []
    view = shard.views.committed()
    try:
        gone = [part for part in parts_in(view).entries if _has_expired(part, view)]  # 1
    finally:
        view.close()
    if gone:
        shard.take_away(partial(_without, gone))  # 2
        directory = parts_directory(shard.context.directory)
        with file_errors(directory, "expired parts cannot be removed"):
            for part in gone:  # 3
                (directory / part.file_name).unlink(missing_ok=True)
    _SEEN[shard] = seen
    return gone


def _has_expired(part: PartEntry, view: ShardView) -> bool:
    scheme, state = view.scheme, view.state
    return part.last < state.start or scheme.of(part.primary_max) < scheme.of(state.floor)


def _without(
    gone: Sequence[PartEntry], state: ShardState, _window_now: object
) -> tuple[Batch, ShardState]:
    batch = Batch()
    for part in gone:
        batch.delete(part_key(part.first, part.number))
    return batch, state

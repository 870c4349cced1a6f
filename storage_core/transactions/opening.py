"""Opening a writer's shards together: all or none, and what transactions left is finished.

Each shard recovers by itself (write/recovery.py). Which of them are open decides which of the
staged rows land, so unfinished transactions come behind the last one.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import index
from traceback import clear_frames
from typing import Final, TypeVar

from storage_core.catalog.changes import name_features
from storage_core.catalog.stream_file import StreamFiles
from storage_core.engine.environment import Environment
from storage_core.engine.open_files import open_files
from storage_core.errors import InvalidRequestError
from storage_core.platform.durable_file import file_errors
from storage_core.platform.threads import Threads
from storage_core.transactions.decision import is_needed
from storage_core.transactions.finish import finish_all
from storage_core.transactions.giving_up import give_up
from storage_core.transactions.manifest import Staging, delete_abandoned
from storage_core.write.opened_shard import ShardContext
from storage_core.write.opening.give_up import GiveUp
from storage_core.write.opening.recovery import Undo, open_shard, undo_all
from storage_core.write.shard import Shard

_Owner = TypeVar("_Owner")
# So many shards are opened one after the other; of more so many at once.
_OPENED_IN_TURN_MAX: Final = 8
_OPENED_AT_ONCE: Final = 8


def shard_numbers(files: StreamFiles, shards: object) -> Sequence[int]:
    """Return the numbers of the shards to open, sorted: those asked for, or all (None).

    Raises:
        InvalidRequestError: There is none of a number, or they are not numbers.
    """
    existing = sorted(files.settings.lineages)
    if shards is None:
        return existing
    try:
        numbers = sorted({index(number) for number in shards})  # type: ignore[attr-defined]
    except TypeError as error:
        message = f"shards are a list of numbers, not {shards!r}"
        raise InvalidRequestError(message, stream=files.meta.name) from error
    unknown = [number for number in numbers if number not in files.settings.lineages]
    if unknown or not numbers:
        existing_range = f"{existing[0]} to {existing[-1]}" if existing else "none yet"
        message = f"there are no shards {unknown}; there are {existing_range}"
        raise InvalidRequestError(message, stream=files.meta.name)
    return numbers


def with_shards_open(
    files: StreamFiles,
    numbers: Sequence[int],
    environment: Environment,
    given_up: GiveUp,
    take_over: Callable[[Mapping[int, Shard]], _Owner],
) -> _Owner:
    """Open shards for writing, finish transactions, and return who takes the shards over.

    After an error none of them is open.
    """
    staging = Staging(files.staging_directory, environment.clock)
    opened: dict[int, Shard] = {}
    undo: list[Undo] = []

    def open_one(number: int) -> None:
        context = ShardContext(
            number,
            files.shard_directory(number),
            files.meta,
            files.settings.lineages[number],
            environment,
            partial(is_needed, staging),
            partial(name_features, files),
            files.born(number),
        )
        opened[number] = open_shard(context, files.settings.options, given_up)
        undo.append(opened[number].abandon)

    open_files().require_for_writer(len(numbers), files.meta.name)
    try:
        Threads(_OPENED_AT_ONCE if len(numbers) > _OPENED_IN_TURN_MAX else 1).map(open_one, numbers)
        # Who has them finds them by number, whichever was there first.
        opened = {number: opened[number] for number in numbers}
        with file_errors(staging.directory, "finishing transactions"):
            for transaction in given_up.transactions:
                give_up(staging, transaction, opened, files.meta.shards)
            finish_all(staging, opened)
            delete_abandoned(staging)
        # IMPORTANT: inside, or an interruption would come between.
        return take_over(opened)
    except BaseException as error:
        try:
            undo_all(undo)
        finally:
            # Nothing is left, but where an interruption came at the begin of that call.
            undo_all(undo)
        # What their variables hold would keep stores open for as long as the error is kept.
        clear_frames(error.__traceback__)
        raise

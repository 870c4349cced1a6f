"""What a commit that the store took is read back for, and what became of it.

A commit is one step: once the newest version shows it, all of it counts, whatever is found then.
So a file that the store has lost, or a store that does not answer any more, is returned beside what
is committed, and not raised: nobody would hear of the other rows, which no later commit adds.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from storage_core.errors import (
    CorruptionError,
    InvalidRequestError,
    ShardlogError,
    UnavailableError,
)
from storage_core.lake.app_id import LakeStream
from storage_core.lake.delta.state import log_path
from storage_core.lake.file_store import FileStore
from storage_core.lake.shard_change import ShardChange, ShardFiles


@dataclass(frozen=True, slots=True)
class Committed:
    """What became of the changes of some shards.

    Attributes:
        conflicts: The shards that somebody else has changed since the table was loaded: what the
            caller wants of them must be compared anew. Of the others all is committed.
        lost: Of those that are committed, the shards of which the store has lost a file.
        fault: What kept the rest from being read back, as a store that does not answer any more.
    """

    conflicts: frozenset[int] = frozenset()
    lost: Mapping[int, CorruptionError] = field(default_factory=dict)
    fault: ShardlogError | None = None

    def raise_first(self) -> None:
        """Raise what is wrong with what is committed, if anything is."""
        for error in (*self.lost.values(), self.fault):
            if error is not None:
                raise error


def refuse_unshown(
    changes: Collection[ShardChange],
    states: Mapping[int, ShardFiles],
    uri: str,
    stream: LakeStream,
) -> None:
    """Refuse a store that does not show what it took.

    Args:
        changes: What was committed.
        states: What the newest version has of the shards; nothing where it is that of before.
        uri: Where the table is.
        stream: The stream as its table names it.

    Raises:
        UnavailableError: It does not.
    """
    for change in changes:
        files = states.get(change.shard)
        # Another owner may have gone on from there meanwhile.
        if files is None or files.published is None or files.published < change.end:
            message = (
                f"the table at {uri} does not show a commit that was taken; its store must show "
                "what was written before"
            )
            raise UnavailableError(message, stream=stream.name, shard=change.shard)


def read_back(
    changes: Collection[ShardChange],
    states: Mapping[int, ShardFiles],
    versions: range,
    store: FileStore,
    stream: LakeStream,
) -> Committed:
    """See that a commit outlasts a loss of power, and that the store has its files.

    Args:
        changes: What was committed.
        states: What the newest version has of each of the shards, the commit's files or what
            somebody has put in their place.
        versions: Those since the commit before, whose files of the log are to last.
        store: Where the files are.
        stream: The stream as its table names it.
    """
    lost: dict[int, CorruptionError] = {}
    try:
        # IMPORTANT: before the files are looked at, so that a lost one leaves none undone.
        for version in versions:
            store.sync(log_path(version))
        for change in changes:
            try:
                change.refuse_lost(states[change.shard].sizes, store.size, stream)
            except CorruptionError as error:
                lost[change.shard] = error
    except (UnavailableError, InvalidRequestError) as error:
        return Committed(lost=lost, fault=error)
    return Committed(lost=lost)

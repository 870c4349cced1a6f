"""What a commit is of: a transaction, what was staged for it, and how its shards are waited for."""

from dataclasses import dataclass

from storage_core.format.contents import Contents
from storage_core.transactions.manifest import Parts
from storage_core.transactions.series import TransactionId


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """What was staged for a transaction.

    Attributes:
        transaction: Its id.
        parts: What each shard has in which file.
        contents: What that is, to tell a batch that comes again from another one.
    """

    transaction: TransactionId
    parts: Parts
    contents: Contents | None


@dataclass(frozen=True, slots=True)
class NotedBatch:
    """What was staged for a transaction by attempts that are noted (attempt_note.py).

    Attributes:
        transaction: Its id.
        attempts: Shards and names of attempts, in the order in which their rows are to stand.
        contents: What that is.
    """

    transaction: TransactionId
    attempts: tuple[tuple[int, str], ...]
    contents: Contents | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """How a commit waits for the other writer of its shards.

    Attributes:
        wait_s: For how long.
        purpose: For whom, as those are told who find the shards locked then.
        is_kept: Whether a server keeps the shards open for the next one.
    """

    wait_s: float
    purpose: str
    is_kept: bool = False

"""What a task of the sink tells the commit, and how a batch is told from all others.

Spark gives a stream's query id and batch id to tasks only (local properties), so they travel to
the commit in the messages.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from storage_core import Contents, InvalidRequestError, StagedPart, TransactionId
from streaming_jobs.stream_place import StreamPlace

_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"
_SERIES_OF_QUERY: Final = "query:"
NOTHING: Final = Contents()


@dataclass(frozen=True, slots=True)
class StagedMessage(WriterCommitMessage):
    """What one task has staged.

    Attributes:
        target: Where.
        transaction: For which transaction.
        parts: For each shard what is in which file.
        contents: What the task's rows were, staged or not.
        is_replay: Whether the task found the transaction decided, and staged nothing.
    """

    target: StreamPlace
    transaction: TransactionId
    parts: Mapping[int, tuple[StagedPart, ...]]
    contents: Contents = NOTHING
    is_replay: bool = False


def transaction_of_task() -> TransactionId:
    """Return what the running task's micro-batch is, in the series of its query."""
    context = TaskContext.get()
    query = context.getLocalProperty(_QUERY_ID) if context is not None else None
    batch = context.getLocalProperty(_BATCH_ID) if context is not None else None
    if query is None or batch is None:
        message = "a task of the streaming sink runs in no query; start it with writeStream"
        raise InvalidRequestError(message)
    return TransactionId(f"{_SERIES_OF_QUERY}{query}", int(batch))


def is_of_query(transaction: TransactionId) -> bool:
    """Tell whether a transaction is the batch of a stream's query."""
    return transaction.series.startswith(_SERIES_OF_QUERY)


def query_of(transaction: TransactionId) -> str:
    """Return the query whose batch a transaction is."""
    return transaction.series.removeprefix(_SERIES_OF_QUERY)


def merged_parts(messages: Sequence[StagedMessage]) -> dict[int, tuple[StagedPart, ...]]:
    """Return each shard's parts in the order of the messages."""
    merged: dict[int, tuple[StagedPart, ...]] = {}
    for message in messages:
        for shard, parts in message.parts.items():
            merged[shard] = (*merged.get(shard, ()), *parts)
    return merged

"""What one task of the sink does: stage its rows, durably, and tell the commit what it staged.

Runs on an executor, anywhere where servers are named; opens no shard. A task that fails removes
what it wrote; what a killed one leaves is deleted with its transaction, or after an age. Spark
gives a stream's query id and batch id to tasks only (local properties), so they travel to the
commit in the messages.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from storage_core import (
    Contents,
    InvalidRequestError,
    StagedRows,
    SystemClock,
    TransactionId,
)
from streaming_jobs.common.stream_location import AnyStaging, StreamLocation
from streaming_jobs.sink.contents import contents_of
from streaming_jobs.sink.mapping import ColumnMapping

_CLOCK: Final = SystemClock()
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

    target: StreamLocation
    transaction: TransactionId
    parts: Mapping[int, tuple[StagedRows, ...]]
    contents: Contents = NOTHING
    is_replay: bool = False


def stage(
    target: StreamLocation,
    mapping: ColumnMapping,
    transaction: TransactionId,
    batches: Iterator[pa.RecordBatch],
) -> StagedMessage:
    """Stage the rows of one task; durable on return.

    Rows that bring no time get the moment the task began, all of them the same.

    Raises:
        InvalidRequestError: A row does not fit; the message names the column.
        ForeignDataError: The stream is not on this machine, or is another one at the server.
    """
    with target.area() as area:
        return _staged(area, target, mapping, transaction, batches)


def _staged(
    area: AnyStaging,
    target: StreamLocation,
    mapping: ColumnMapping,
    transaction: TransactionId,
    batches: Iterator[pa.RecordBatch],
) -> StagedMessage:
    contents = NOTHING
    batches = map(mapping.valued, batches)
    if area.is_decided(transaction):
        # They are compared all the same: other rows under a known number are no replay.
        for batch in batches:
            contents += contents_of(mapping.taken(batch))
        return StagedMessage(target, transaction, {}, contents, is_replay=True)
    now_ns = _CLOCK.now_ns()
    writer = area.writer(transaction)
    try:
        for batch in batches:
            contents += contents_of(mapping.taken(batch))
            writer.write(mapping.rows(batch, now_ns), schemas=mapping.schemas)
        return StagedMessage(target, transaction, writer.finish(), contents)
    except BaseException:
        writer.abandon()
        raise


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

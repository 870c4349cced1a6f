"""What one task of the sink does: stage its rows, durably, and tell what it staged.

Runs on an executor; opens no shard. A task that fails removes what it wrote; what a killed one
leaves goes with its transaction or is swept.
"""

from collections.abc import Iterator

import pyarrow as pa

from storage_core import TransactionId
from streaming_jobs.sink_mapping import ColumnMapping
from streaming_jobs.sink_messages import StagedMessage
from streaming_jobs.sink_target import SinkTarget


def stage(
    target: SinkTarget,
    mapping: ColumnMapping,
    transaction: TransactionId,
    batches: Iterator[pa.RecordBatch],
) -> StagedMessage:
    """Stage the rows of one task; durable on return.

    Raises:
        InvalidRequestError: A row does not fit; the message names the column.
        ForeignDataError: The stream is not on this machine.
    """
    area = target.area()
    if area.is_decided(transaction):
        for _ in batches:
            # Spark wants its rows to be taken, whatever becomes of them.
            pass
        return StagedMessage(target, transaction, {}, is_replay=True)
    writer = area.writer(transaction)
    try:
        for batch in batches:
            writer.write(mapping.rows(batch))
        return StagedMessage(target, transaction, writer.finish())
    except BaseException:
        writer.abandon()
        raise

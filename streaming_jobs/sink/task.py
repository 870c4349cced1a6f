"""What one task of the sink does: stage its rows, durably, and tell what it staged.

Runs on an executor; opens no shard. A task that fails removes what it wrote; what a killed one
leaves goes with its transaction or is swept.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from storage_core import Clock, SystemClock, TransactionId
from streaming_jobs.sink.contents import contents_of
from streaming_jobs.sink.mapping import ColumnMapping
from streaming_jobs.sink.messages import NOTHING, StagedMessage
from streaming_jobs.stream_place import StreamPlace

_CLOCK: Final = SystemClock()


def stage(
    target: StreamPlace,
    mapping: ColumnMapping,
    transaction: TransactionId,
    batches: Iterator[pa.RecordBatch],
    clock: Clock = _CLOCK,
) -> StagedMessage:
    """Stage the rows of one task; durable on return.

    Rows that bring no time get the moment the task began, all of them the same.

    Raises:
        InvalidRequestError: A row does not fit; the message names the column.
        ForeignDataError: The stream is not on this machine.
    """
    area = target.area()
    contents = NOTHING
    if area.is_decided(transaction):
        # They are looked at all the same: other rows under a known number are no replay.
        for batch in batches:
            contents += contents_of(mapping.taken(batch))
        return StagedMessage(target, transaction, {}, contents, is_replay=True)
    now_ns = clock.now_ns()
    writer = area.writer(transaction)
    try:
        for batch in batches:
            contents += contents_of(mapping.taken(batch))
            writer.write(mapping.rows(batch, now_ns))
        return StagedMessage(target, transaction, writer.finish(), contents)
    except BaseException:
        writer.abandon()
        raise

"""The rows of a subscription as the batches of an answer."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from typed_events.errors import CommandError
from typed_events.subscriptions.frames import Rows
from typed_events.subscriptions.subscription import Subscription


class SubscribedBatches:
    """The rows of a subscription as the batches of an answer, all with the columns of the first."""

    def __init__(self, subscription: Subscription) -> None:
        """Take over a subscription."""
        self._subscription = subscription

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        for frame in self._subscription:
            if isinstance(frame, Rows):
                return conformed(frame.batch, self._subscription.schema)
        raise StopIteration

    def close(self) -> None:
        """End the subscription; any thread."""
        self._subscription.close()


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows with other columns: those that a later version added are left out.

    Raises:
        CommandError: The type of a field has changed since.
    """
    if batch.schema == schema:
        return batch
    untyped: Any = pa
    columns = []
    for field in schema:
        column = batch.column(field.name)
        if column.type != field.type:
            message = (
                f"field {field.name} was {field.type} and is {column.type} now: subscribe again "
                "from the last position"
            )
            raise CommandError(message)
        columns.append(column)
    made: pa.RecordBatch = untyped.RecordBatch.from_arrays(columns, schema=schema)
    return made

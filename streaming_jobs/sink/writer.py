"""The writers that Spark asks for: rows in as Arrow batches, one transaction a batch.

Spark makes a writer on the driver for each batch and sends it to the tasks; commits run in
another Python process. So a writer is a frozen value: what is open is kept by commit.py.
"""

import logging
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from storage_core import InvalidRequestError, StreamOptions, TransactionId
from streaming_jobs.common.option_values import warn_of_idle_options
from streaming_jobs.common.schemas import schema_named
from streaming_jobs.common.spark_errors import plain_errors
from streaming_jobs.common.spark_features import DataSourceStreamArrowWriter
from streaming_jobs.common.stream_location import StreamLocation
from streaming_jobs.sink.commit import (
    CLOSED_AT_ONCE,
    KEPT_OPEN,
    abort,
    commit,
    staged_messages,
)
from streaming_jobs.sink.field_values import FieldValues
from streaming_jobs.sink.mapping import ColumnMapping, mapping_of
from streaming_jobs.sink.options import (
    IDLE,
    SinkOptions,
    parse_batch_options,
    parse_stream_options,
)
from streaming_jobs.sink.target import find_or_make
from streaming_jobs.sink.task import StagedMessage, stage, transaction_of_task

_APPEND_ONLY: Final = (
    "a log is only appended to: write with mode('append'), or outputMode('append') for a stream, "
    "not overwrite or complete"
)
_NOTHING_WRITTEN: Final = (
    "Spark asked no task to write: trigger(continuous=…) lands no row; stop the query, and start "
    "it with trigger(processingTime=…) or trigger(availableNow=True) and a new checkpoint"
)
_LOG: Final = logging.getLogger("shardlog")


@dataclass(frozen=True)
class ShardBatchWriter(DataSourceArrowWriter):
    """Writes one DataFrame; with `txnAppId` and `txnVersion` at most once."""

    options: SinkOptions
    target: StreamLocation
    mapping: ColumnMapping
    transaction: TransactionId

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedMessage:  # type: ignore[override]  # Spark declares it so
        """Stage the rows of one task, on an executor."""
        with plain_errors():
            return stage(self.target, self.mapping, self.transaction, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the rows of all tasks durable and visible."""
        with plain_errors():
            staged = staged_messages(messages)
            commit(self.options, self.target, self.transaction, staged, CLOSED_AT_ONCE)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what was staged, unless it was committed."""
        with plain_errors():
            abort(self.target, messages)


@dataclass(frozen=True)
class ShardStreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a query, each once."""

    options: SinkOptions
    target: StreamLocation
    mapping: ColumnMapping

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedMessage:  # type: ignore[override]  # Spark declares it so
        """Stage the rows of one task, on an executor."""
        with plain_errors():
            return stage(self.target, self.mapping, transaction_of_task(), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Make the rows of all tasks durable and visible, unless this batch was."""
        with plain_errors():
            if not any(messages):
                # NOTE: Spark (4.0 to 4.3) calls no `write` in a continuous query, and ignores what
                # its commit raises; so the log alone can tell.
                _LOG.error(_NOTHING_WRITTEN)
                raise InvalidRequestError(_NOTHING_WRITTEN, stream=self.options.stream)
            staged = staged_messages(messages)
            transaction = staged[0].transaction
            if transaction.number != batchId:
                message = f"the tasks staged batch {transaction.number}, and {batchId} is committed"
                raise InvalidRequestError(message, stream=self.options.stream)
            commit(self.options, self.target, transaction, staged, KEPT_OPEN)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Remove what was staged, unless it was committed."""
        with plain_errors():
            abort(self.target, messages)


def batch_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> ShardBatchWriter:
    """Return the writer of one `df.write`; makes the stream if it is not there."""
    chosen = parse_batch_options(options)
    target, mapping = _prepare(options, chosen, schema, is_append=not overwrite)
    if chosen.app is None:
        transaction = TransactionId(f"write:{secrets.token_hex(16)}")
    else:
        transaction = TransactionId(f"app:{chosen.app[0]}", chosen.app[1])
    return ShardBatchWriter(chosen, target, mapping, transaction)


def stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> ShardStreamWriter:
    """Return the writer of a query's micro-batches; makes the stream if it is not there."""
    chosen = parse_stream_options(options)
    return ShardStreamWriter(chosen, *_prepare(options, chosen, schema, is_append=not overwrite))


def _prepare(
    option_texts: Mapping[str, str], options: SinkOptions, schema: StructType, *, is_append: bool
) -> tuple[StreamLocation, ColumnMapping]:
    if not is_append:
        raise InvalidRequestError(_APPEND_ONLY)
    warn_of_idle_options(option_texts, "Kafka's sink", IDLE)
    if options.columns is not None and options.columns != tuple(schema.fieldNames()):
        message = (
            f"option columns names {', '.join(options.columns)}, and the rows have "
            f"{', '.join(schema.fieldNames())}; to write, leave it out, or insert into a view of it"
        )
        raise InvalidRequestError(message)
    fields = None
    if options.writer_schema is not None:
        named = schema_named(options.writer_schema, "writerSchema", options.registry)
        fields = FieldValues(named.schema.text, named.registry_id)

    def mapping_for(stream: StreamOptions) -> ColumnMapping:
        has_keys = stream.key_mode == "dictionary"
        return mapping_of(schema, stream.unit, has_keys=has_keys, fields=fields)

    # No stream is made for columns that it could not take.
    with find_or_make(options, lambda: mapping_for(options.creation)) as area:
        target = StreamLocation.here(options.path, options.stream, area.root_id, area.incarnation)
        return target, mapping_for(area.options)

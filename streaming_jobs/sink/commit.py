"""The commit of the sink: one transaction a batch, decided once, finished by whoever comes.

1. Check the stream and the query; refuse a query that started over under a known name.
2. Make the query's plan of the batch durable, so that it cannot come again with other rows.
3. Open the shards concerned, waiting in bounded time for another writer.
4. Publish the manifest; the first one under the batch's id wins.
5. Append the staged rows, each shard's at once; note the batch and what it held as done; clear the
   staging.

The last three are `land` of storage_core/landing.py: here, or at a server, where one is named in
the place of a path. A server's answer may be lost behind each of them; the same commit once more is
a replay.

    stops after      left                                      who goes on
    staging          files                                     the next attempt stages again
    3                files                                     as above
    4, or within 5   a manifest, perhaps a part of the rows,   whoever opens the shards next; a
                     none of a shard's visible                 replay of the batch finishes it
    5                the batch, done                           a replay is a no-op

A batch that is decided and comes again with other rows is no replay: the query's checkpoint was
set back, and its new rows would be lost. It is refused.

`abort` comes after any failure, of step 5 too: it removes only files that are in no manifest.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from pyspark.sql.datasource import WriterCommitMessage

from storage_core import (
    Contents,
    ForeignDataError,
    InvalidRequestError,
    StagedRows,
    TransactionId,
    UnavailableError,
)
from storage_core.landing import IDLE_S, OpenWriters, land
from storage_core.remote.staging_client import StagingClient
from storage_core.transactions.staged_batch import StagedBatch, Waiting
from streaming_jobs.common.stream_location import AnyStaging, StreamLocation
from streaming_jobs.sink.checkpoint import sync_plan
from streaming_jobs.sink.options import SinkOptions
from streaming_jobs.sink.task import NOTHING, StagedMessage, is_of_query, query_of

# A stream's next commit comes soon; a batch write's may never come.
KEPT_OPEN: Final = OpenWriters(IDLE_S)
CLOSED_AT_ONCE: Final = OpenWriters(0)
_LOG: Final = logging.getLogger("shardlog")
Messages = Sequence[WriterCommitMessage | None]


def commit(
    options: SinkOptions,
    target: StreamLocation,
    transaction: TransactionId,
    messages: Sequence[StagedMessage],
    writers: OpenWriters,
) -> None:
    """Make what the tasks of a batch staged durable and visible, once.

    Raises:
        ShardLockedError: Another writer kept a shard for too long; nothing was decided.
        ForeignDataError: The tasks wrote elsewhere, or the batch was decided with other rows.
    """
    if any((one.target, one.transaction) != (target, transaction) for one in messages):
        text = "a task staged its rows for another stream or batch; run the job again"
        raise ForeignDataError(text, stream=target.stream)
    with target.area() as area:
        if is_of_query(transaction):
            _check_query(area, options, transaction)
        if options.checkpoint is not None:
            sync_plan(options.checkpoint, transaction.number or 0)
        parts = _parts_of_all(area, options, transaction, messages)
        contents = _agreed_contents(options, area, transaction, messages)
        batch = StagedBatch(transaction, parts, contents)
        purpose, is_kept = _purpose(options, transaction), is_of_query(transaction)
        waiting = Waiting(options.lock_wait_s, purpose, is_kept)
        if isinstance(area, StagingClient):
            late = area.land(batch, waiting)
        else:
            late = land(area, writers, batch, waiting)
    _tell_late(transaction, contents, late)


def abort(target: StreamLocation, messages: Messages) -> None:
    """Remove what was staged for a batch that was not decided."""
    staged = [one for one in messages if isinstance(one, StagedMessage) and one.target == target]
    # What failed the job says it already; there is nothing here to clear, or nobody to ask.
    with suppress(ForeignDataError, UnavailableError), target.area() as area:
        for transaction in {one.transaction for one in staged}:
            own = [one.parts for one in staged if one.transaction == transaction]
            area.discard(transaction, own)


def _check_query(area: AnyStaging, options: SinkOptions, transaction: TransactionId) -> None:
    """Refuse a query whose checkpoint was deleted, or whose earlier batches are not here."""
    query, batch = query_of(transaction), transaction.number or 0
    for name, label in options.query_names.items():
        owner = area.claim(name, query, takes_over=options.resets_query)
        if owner != query:
            message = (
                f"{label} wrote here as query {owner} and is query {query}: its checkpoint was "
                "deleted or replaced, so its rows may come a second time; set resetQuery=true "
                "to let them"
            )
            raise InvalidRequestError(message, stream=options.stream)
    mark = area.mark(transaction.series)
    if batch > (-1 if mark is None else mark.number) + 1 and not options.resets_query:
        has = "no batch" if mark is None else f"its batches to {mark.number}"
        message = (
            f"batch {batch} of query {query} does not follow: the stream has {has}; others were "
            "written elsewhere, or the store was set back; set resetQuery=true to go on without"
        )
        raise InvalidRequestError(message, stream=options.stream)


def staged_messages(messages: Messages) -> list[StagedMessage]:
    """Return the messages of a job all of whose tasks have succeeded."""
    staged = [one for one in messages if isinstance(one, StagedMessage)]
    if not staged or len(staged) != len(messages):
        message = f"{len(messages) - len(staged)} of {len(messages)} tasks sent nothing to commit"
        raise InvalidRequestError(message)
    return staged


def _parts_of_all(
    area: AnyStaging,
    options: SinkOptions,
    transaction: TransactionId,
    messages: Sequence[StagedMessage],
) -> dict[int, tuple[StagedRows, ...]]:
    """Return each shard's parts in the order of the messages, none of a batch that is decided."""
    if any(one.is_replay for one in messages):
        # The tasks that came first have staged what nobody needs.
        if not area.is_decided(transaction):
            text = "the batch was decided, and is not any more; run it again"
            raise UnavailableError(text, stream=options.stream)
        return {}
    merged: dict[int, tuple[StagedRows, ...]] = {}
    for message in messages:
        for shard, parts in message.parts.items():
            merged[shard] = (*merged.get(shard, ()), *parts)
    return merged


def _agreed_contents(
    options: SinkOptions,
    area: AnyStaging,
    transaction: TransactionId,
    messages: Sequence[StagedMessage],
) -> Contents:
    """Return what a batch holds, which agrees with what it held if it comes again."""
    contents = sum((one.contents for one in messages), NOTHING)
    if not area.is_decided(transaction):
        return contents
    stored = area.contents(transaction)
    mark = area.mark(transaction.series)
    name = _named(transaction)
    is_too_old = stored is None and mark is not None and bool(mark.contents)
    if stored in (None, contents) and not (is_too_old and is_of_query(transaction)):
        skipped = 0 if mark is None else mark.skipped
        text = "%s is in stream %r already; its %d rows are not written again (%d such before)"
        _LOG.warning(text, name, options.stream, contents.rows, skipped)
        return contents
    held = (
        "rows that are not remembered any more" if stored is None else f"{stored.rows} other rows"
    )
    message = (
        f"{name} comes with {contents.rows} rows and is in the stream with {held}: was the "
        "checkpoint set back (restored, or its last files lost), new rows would be dropped; put "
        "the later files back, or begin with a new checkpoint behind what the stream has. "
        "onChangedBatch=skip skips it, for a query that was changed, or never repeats itself"
    )
    if options.on_changed == "fail":
        raise ForeignDataError(message, stream=options.stream)
    text = (
        "%s has %d rows, and is in stream %r with %s; they are not written, as onChangedBatch says"
    )
    _LOG.warning(text, name, contents.rows, options.stream, held)
    return stored or contents


def _purpose(options: SinkOptions, transaction: TransactionId) -> str:
    """Say for whom shards are held, to those who find them locked."""
    if not is_of_query(transaction):
        return "a batch write of Spark's"
    names = ", ".join(dict.fromkeys(options.query_names.values()))
    query = f"Spark's query {query_of(transaction)} ({names})"
    return f"{query}, which releases them {IDLE_S:g} s after its last batch"


def _named(transaction: TransactionId) -> str:
    if is_of_query(transaction):
        return f"batch {transaction.number} of query {query_of(transaction)}"
    return f"version {transaction.number} of app {transaction.series.removeprefix('app:')!r}"


def _tell_late(transaction: TransactionId, contents: Contents, late: int) -> None:
    """Warn of a batch that was too large to be sorted as one; with how many rows are late."""
    if late:
        _LOG.warning(
            "%s: %d of %d rows are late; the batch was too large to be sorted as one, so that "
            "rows may be late among themselves: write less at once (maxOffsetsPerTrigger), or "
            "repartitionByRange by time",
            transaction.name,
            late,
            contents.rows,
        )

"""A batch that was staged becomes the transaction: its shards opened, published, finished.

3. Open the shards concerned, waiting in bounded time for another writer.
4. Publish the manifest; the first one under the transaction's id wins.
5. Append the staged rows, each shard's at once; note the transaction and what it held as done;
   clear the staging.

The numbers are those of the sink's commit, whose last steps these are; a server does them for those
who are elsewhere. Writers are kept open between two commits, since opening costs more than a small
commit: who keeps one keeps others from its shards, so it is closed after some idle seconds, and as
soon as another process waits for it.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from storage_core.errors import InvalidRequestError, ShardlogError, UnavailableError
from storage_core.platform.handle_pool import HandlePool
from storage_core.staging import StagingArea
from storage_core.stream import Stream
from storage_core.transactions.staged_batch import NotedBatch, StagedBatch, Waiting
from storage_core.transactions.staged_rows import rows_of

IDLE_S: Final = 3.0
_WRITERS_MAX: Final = 4


@dataclass(frozen=True, slots=True)
class _Writer:
    area: StagingArea
    stream: Stream
    shards: frozenset[int]

    def close(self) -> None:
        # All that was committed is durable; an error of closing says nothing about it.
        with suppress(ShardlogError):
            self.stream.close()

    def is_wanted(self) -> bool:
        try:
            return self.area.somebody_waits()
        except (ShardlogError, OSError):
            # The stream's directory is gone; there is nothing to keep.
            return True


class OpenWriters(HandlePool[_Writer]):
    """Writers by the place of the stream they write; with no idle time each is closed at once.

    Threads of this process wait for each other's shards as other processes do.
    """

    def __init__(self, idle_s: float) -> None:
        super().__init__(_WRITERS_MAX, idle_s, _Writer.is_wanted)

    @contextmanager
    def of(
        self, area: StagingArea, shards: Iterable[int], wait_s: float, purpose: str
    ) -> Iterator[Stream]:
        """Lend a stream with these shards open, and perhaps more.

        Raises:
            ShardLockedError: Another writer kept a shard for too long.
        """
        wanted = frozenset(shards)

        def serves(writer: _Writer) -> bool:
            return writer.area.incarnation == area.incarnation and wanted <= writer.shards

        def opened(old: _Writer | None) -> _Writer:
            is_same = old is not None and old.area.incarnation == area.incarnation
            numbers = wanted | old.shards if old is not None and is_same else wanted
            return _Writer(area, area.open_shards(numbers, wait_s, purpose), numbers)

        with self.lease(area.place, serves, opened) as writer:
            yield writer.stream


def land(area: StagingArea, writers: OpenWriters, batch: StagedBatch, waiting: Waiting) -> int:
    """Make staged parts the transaction, durable and visible, unless it was decided before.

    Returns:
        How many rows are late among themselves, where it was too large to be sorted as one.

    Raises:
        ShardLockedError: Another writer kept a shard for too long; nothing was decided.
        ForeignDataError: It was decided with other contents.
    """
    transaction, parts, contents = batch.transaction, batch.parts, batch.contents
    if parts:
        with writers.of(area, parts, waiting.wait_s, waiting.purpose) as stream:
            late_before = stream.stats().late_arrivals
            left = area.publish(transaction, parts, contents, stream)
            if left and left <= parts.keys():
                _finish(stream)
                is_sorted = area.sorts_at_once(parts)
                return 0 if is_sorted else stream.stats().late_arrivals - late_before
    else:
        left = area.publish(transaction, parts, contents)
    if left:
        with writers.of(area, left, waiting.wait_s, waiting.purpose) as stream:
            _finish(stream)
    return 0


def land_noted(area: StagingArea, writers: OpenWriters, batch: NotedBatch, waiting: Waiting) -> int:
    """Do as `land` with what was noted of attempts; once it is done, nothing, as by a lost answer.

    Raises:
        UnavailableError: What was staged is gone, and not in the stream.
        ShardlogError: As `land`.
    """
    transaction, contents = batch.transaction, batch.contents
    try:
        parts = area.noted(transaction, batch.attempts)
    except UnavailableError:
        if area.is_decided(transaction):
            return land(area, writers, StagedBatch(transaction, {}, contents), waiting)
        # One without a number is known to its shards alone, once it is done.
        shards = {shard for shard, _ in batch.attempts}
        with writers.of(area, shards, waiting.wait_s, waiting.purpose) as stream:
            if area.is_done(transaction, stream):
                return 0
        raise
    if (
        contents is not None
        and rows_of(parts) != contents.rows
        and not area.is_decided(transaction)
    ):
        message = f"{rows_of(parts)} rows are staged, and contents say {contents.rows}"
        raise InvalidRequestError(message, stream=area.place[1])
    return land(area, writers, StagedBatch(transaction, parts, contents), waiting)


def _finish(stream: Stream) -> None:
    try:
        stream.finish_transactions()
    except ShardlogError as error:
        message = f"{error.message}; the batch is decided and goes on when the stream is opened"
        raise type(error)(
            message, stream=error.stream, shard=error.shard, path=error.path
        ) from error

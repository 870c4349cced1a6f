"""Where processes that do not write a stream's shards leave rows for it.

    area = StagingArea.open(root, name)            any process; no shard is opened
    writer = area.writer(id)                       rows of one attempt, in files
    parts = writer.finish()                        durable; carried to whoever decides
    shards = area.publish(id, parts)               the first one under an id is the transaction
    area.open_shards(shards, wait_s)               any opener finishes it; so does
    stream.finish_transactions()                   a stream that is open already

An attempt whose parts are never published leaves files only; they go with the transaction, by
`discard`, or after an age. A number that its series has seen is never published again; an id
without a number lands once for as long as the shards remember it (`transactions_kept`).
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Final, Self

from storage_core.catalog.options import StreamOptions
from storage_core.catalog.origin import StreamOrigin
from storage_core.catalog.root_file import root_id
from storage_core.catalog.stream_file import StreamFiles, read_stream
from storage_core.engine.database_process import refuse_writing_in_fork
from storage_core.engine.environment import Environment
from storage_core.errors import InvalidRequestError, ShardLockedError
from storage_core.format.contents import Contents
from storage_core.format.window import Unit
from storage_core.platform.clock import Clock, SystemClock
from storage_core.platform.durable_file import file_errors, make_directories
from storage_core.platform.file_lock import DirectoryLock
from storage_core.stream import Stream
from storage_core.transactions.attempt_note import (
    checked_attempt,
    note_parts,
    parts_of_attempt,
)
from storage_core.transactions.decision import NO_SHARDS, decision_of, heard, publish, rows_gone
from storage_core.transactions.manifest import (
    MANIFEST_FILE,
    Parts,
    Staging,
    attempts_of,
    begin_attempt,
    remove_attempts,
)
from storage_core.transactions.merge_sorted import merge_groups
from storage_core.transactions.series import Mark, TransactionId, claim, read_mark
from storage_core.transactions.staged_rows import StagedRows, StagingWriter

_RETRY_S: Final = 0.05


class StagingArea:
    """A stream as those see it who stage rows for it. Holds nothing open; any thread."""

    def __init__(self, root: Path, files: StreamFiles, root_id_: str, clock: Clock) -> None:
        """Take over what the stream's files say; use `open`."""
        self._root = root
        self._files = files
        self._staging = Staging(files.staging_directory, clock)
        self.root_id = root_id_

    @classmethod
    def open(cls, root: str | PathLike[str], name: str, *, clock: Clock = SystemClock()) -> Self:
        """Read a stream's files.

        Raises:
            InvalidRequestError: There is no such root or stream.
        """
        identity = root_id(root)
        whole = Path(root).absolute()
        return cls(whole, read_stream(whole, name), identity, clock)

    def __enter__(self) -> Self:
        """Begin; a staging area of servers has connections to close."""
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self.close()

    def close(self) -> None:
        """Nothing is open."""

    @property
    def place(self) -> tuple[str, str]:
        """Where the stream lies: its root and its name."""
        return str(self._root), self._files.meta.name

    @property
    def incarnation(self) -> str:
        """The random id made with the stream."""
        return self._files.meta.incarnation

    @property
    def unit(self) -> Unit:
        """What primaries count."""
        return self._files.meta.unit

    @property
    def jitter(self) -> int:
        """How far behind its id's largest primary a row may come and still be normal."""
        return self._files.meta.jitter

    @property
    def shards(self) -> int:
        """The number of shards of a stream without an origin."""
        return self._files.meta.shards

    @property
    def options(self) -> StreamOptions:
        """The options in force."""
        return self._files.settings.options

    @property
    def origin(self) -> StreamOrigin | None:
        """What the stream is a copy of; such a stream takes no staged rows."""
        return self._files.meta.origin

    def writer(self, transaction: TransactionId) -> StagingWriter:
        """Begin an attempt at a transaction.

        Raises:
            InvalidRequestError: The stream has an origin.
        """
        meta = self._files.meta
        mask = meta.shard_mask
        if mask is None:
            message = "the stream has an origin; its rows come from there alone"
            raise InvalidRequestError(message, stream=meta.name)
        begin = partial(self._begin_attempt, transaction)
        largest = self.options.payload_bytes_max
        return StagingWriter(begin, mask, largest, meta.name, has_keys=meta.has_keys)

    def note(self, transaction: TransactionId, parts: Parts) -> None:
        """Note what an attempt has staged, so that its name stands for it; durable on return."""
        for attempt in attempts_of(parts):
            with file_errors(self._staging.directory, "noting staged rows"):
                note_parts(self._staging.of(transaction) / attempt, parts)

    def noted(self, transaction: TransactionId, attempts: Iterable[tuple[int, str]]) -> Parts:
        """Return what attempts have staged, of each the rows of one shard.

        Args:
            transaction: The one they are of; those of others are not found.
            attempts: Shards and names of attempts, in the order in which their rows are to stand.

        Raises:
            UnavailableError: One is not there any more, or never was.
            InvalidRequestError: It is no name of an attempt, or has no rows of the shard.
        """
        noted: dict[str, Parts] = {}
        by_shard: dict[int, list[StagedRows]] = {}
        directory = self._staging.of(transaction)
        for shard, attempt in attempts:
            if attempt not in noted:
                with file_errors(directory, "looking for staged rows"):
                    parts = parts_of_attempt(directory, attempt)
                if parts is None:
                    raise rows_gone(self._staging, transaction, directory)
                noted[attempt] = parts
            if shard not in noted[attempt]:
                message = f"the attempt has no rows of shard {shard}"
                raise InvalidRequestError(message, stream=self._files.meta.name)
            by_shard.setdefault(shard, []).extend(noted[attempt][shard])
        return {shard: tuple(parts) for shard, parts in by_shard.items()}

    def collect(self, transaction: TransactionId, attempts: Iterable[tuple[int, str]]) -> str:
        """Note what attempts have staged as one attempt; return its name. Durable on return.

        The files stay where they are. So a transaction of any number of attempts can be named by
        a few.

        Raises:
            UnavailableError: As `noted`.
            InvalidRequestError: As `noted`.
        """
        parts = self.noted(transaction, attempts)
        collected = self._begin_attempt(transaction)
        with file_errors(collected, "noting staged rows"):
            note_parts(collected, parts)
        return collected.name

    def is_done(self, transaction: TransactionId, stream: Stream) -> bool:
        """Tell whether the shards that a stream has open know all rows of a transaction."""
        with file_errors(self._staging.directory, "looking for a transaction"):
            return decision_of(self._staging, transaction, stream.rows.shards.opened()).is_done

    def is_decided(self, transaction: TransactionId) -> bool:
        """Tell whether a transaction was published, finished or passed by its series.

        Of one without a number, once it is finished, only the shards know: this is False then,
        and publishing it again changes nothing as long as they remember it.
        """
        with file_errors(self._staging.directory, "looking for a transaction"):
            # Of a damaged one too, its rows can be no others.
            is_published = (self._staging.of(transaction) / MANIFEST_FILE).exists()
            return is_published or decision_of(self._staging, transaction).is_made

    def mark(self, series: str) -> Mark | None:
        """Return how far a series has come, None if nothing of it is finished."""
        return read_mark(self._staging.stream, series)

    def contents(self, transaction: TransactionId) -> Contents | None:
        """Return what a decided transaction held, None where that is not known (any more)."""
        with file_errors(self._staging.directory, "looking for a transaction"):
            return heard(self._staging, transaction).contents

    def publish(
        self,
        transaction: TransactionId,
        parts: Parts,
        contents: Contents | None = None,
        stream: Stream | None = None,
    ) -> frozenset[int]:
        """Decide a transaction: make these parts its rows, unless it was decided before.

        One without a number that is finished is found out by the shards, which take no row of
        it again.

        Args:
            transaction: Its id.
            parts: What was staged for it.
            contents: What that is, to tell a transaction that comes again from another one; it
                is compared for the last `CONTENTS_KEPT_MAX` numbers of a series. Older ones are
                skipped whatever they hold, and counted in `mark`.
            stream: What has the shards of these parts open, if that is so: they know a transaction
                without a number that is done.

        Returns:
            The shards in which it is still to be finished; none where it has no rows, or was
            finished before.

        Raises:
            UnavailableError: Staged files are gone; nothing was decided.
            ForeignDataError: It was decided with other contents, or another stream lies in the
                place of this one; nothing has changed.
        """
        with self._ours("publishing a transaction"):
            shards = NO_SHARDS if stream is None else stream.rows.shards.opened()
            published = publish(self._staging, transaction, parts, shards=shards, contents=contents)
            return frozenset(published.manifest.shards if published.manifest else ())

    @staticmethod
    def sorts_at_once(parts: Parts) -> bool:
        """Tell whether each shard's rows become one order; else some may be late among themselves.

        It takes a gigabyte or more of a shard in one transaction until they do not.
        """
        return all(len(merge_groups(of_shard)) <= 1 for of_shard in parts.values())

    def discard(self, transaction: TransactionId, parts: Iterable[Parts]) -> None:
        """Remove the files of attempts that are not, and will not be, in the transaction."""
        self.discard_attempts(transaction, {name for each in parts for name in attempts_of(each)})

    def discard_attempts(self, transaction: TransactionId, attempts: Iterable[str]) -> None:
        """Remove the files of attempts that are not, and will not be, in the transaction.

        Raises:
            InvalidRequestError: One is no name of an attempt.
        """
        names = {checked_attempt(name) for name in attempts}
        with self._ours("clearing staged rows"):
            remove_attempts(self._staging.of(transaction), names)

    def claim(self, name: str, owner: str, *, takes_over: bool = False) -> str:
        """Give a name to an owner unless it has another.

        Returns:
            The owner, which is the other one if the name was taken.
        """
        with self._ours("claiming a name"):
            return claim(self._staging.stream, name, owner, takes_over=takes_over)

    def open_shards(self, shards: Iterable[int], wait_s: float, purpose: str = "") -> Stream:
        """Open shards for writing once their writer lets go; finishes what is published.

        Opening costs more than a small commit, so a writer may keep its shards open for a while.
        Who needs them takes the lock of the staging directory, and keeps it while it waits; who
        holds the shards sees in `somebody_waits` that it is taken, and closes them. This lock
        guards nothing: the shards' own locks do.

        The purpose is told to those who find the shards locked then.

        Raises:
            ShardLockedError: Another writer kept one of them for too long.
        """
        refuse_writing_in_fork()
        numbers, name, clock = sorted(shards), self._files.meta.name, self._staging.clock
        deadline_s = clock.monotonic_s() + wait_s
        environment = Environment(clock=clock, purpose=purpose)
        with file_errors(self._staging.directory, "making the staging directory"):
            make_directories(self._staging.directory)
        waiting_lock = DirectoryLock.within(self._staging.directory, clock, wait_s)
        if waiting_lock is None:
            message = "another process already waits for the stream's shards"
            raise ShardLockedError(message, path=self._staging.directory)
        with waiting_lock:
            while True:
                try:
                    return Stream.open(self._root, name, numbers, environment=environment)
                except ShardLockedError as error:
                    if clock.monotonic_s() >= deadline_s:
                        message = f"waited {wait_s:g} s: {error.message}"
                        raise ShardLockedError(
                            message, stream=error.stream, shard=error.shard
                        ) from error
                    clock.sleep(_RETRY_S)

    def somebody_waits(self) -> bool:
        """Tell whether another process waits in `open_shards`."""
        try:
            waiting_lock = DirectoryLock.if_free(self._staging.directory)
        except FileNotFoundError:
            # Whoever waits has made the directory.
            return False
        if waiting_lock is not None:
            waiting_lock.release()
        return waiting_lock is None

    @contextmanager
    def _ours(self, doing: str) -> Iterator[None]:
        """Hold the stream's files, which are still those of the stream that was opened."""
        with file_errors(self._staging.stream, doing), self._staging.locked():
            # Nothing of one stream is decided in another of its name.
            self._files.reread()
            yield

    def _begin_attempt(self, transaction: TransactionId) -> Path:
        with self._ours("staging rows"):
            return begin_attempt(self._staging, transaction)

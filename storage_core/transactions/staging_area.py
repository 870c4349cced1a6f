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

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Final, Protocol, Self, TypeVar

from storage_core.catalog.changes import locked
from storage_core.catalog.options import StreamOptions
from storage_core.catalog.origin import StreamOrigin
from storage_core.catalog.root_file import root_id
from storage_core.catalog.stream_file import StreamFiles, read_stream
from storage_core.errors import (
    ForeignDataError,
    InvalidRequestError,
    ShardLockedError,
    UnavailableError,
)
from storage_core.format.contents import Contents
from storage_core.format.window import Unit
from storage_core.ground.clock import Clock, SystemClock
from storage_core.ground.durable_file import file_errors, make_directories
from storage_core.store.environment import Environment
from storage_core.transactions.manifest import (
    MANIFEST_FILE,
    Manifest,
    begin_attempt,
    publish_manifest,
    read_manifest,
    remove_attempt,
    remove_transaction,
    staged_transactions,
    transaction_directory,
)
from storage_core.transactions.series import (
    Mark,
    TransactionId,
    note_skipped,
    read_mark,
    read_owner,
    write_mark,
    write_owner,
)
from storage_core.transactions.sorted_parts import merge_groups
from storage_core.transactions.staged_rows import StagedPart, StagingWriter
from storage_core.transactions.turn import is_turn_taken, take_turn

Parts = Mapping[int, tuple[StagedPart, ...]]
_RETRY_S: Final = 0.05
T = TypeVar("T")
Opened_co = TypeVar("Opened_co", covariant=True)


class Opener(Protocol[Opened_co]):
    """Opens shards of a stream for writing, as `Stream.open` does."""

    def __call__(
        self, root: Path, name: str, shards: Iterable[int], *, environment: Environment
    ) -> Opened_co:
        """Open them, or raise ShardLockedError."""


class StagingArea:
    """A stream as those see it who stage rows for it. Holds nothing open; any thread."""

    def __init__(self, root: Path, files: StreamFiles, root_id_: str, clock: Clock) -> None:
        """Take over what the stream's files say; use `open`."""
        self._root = root
        self._files = files
        self._clock = clock
        self.root_id = root_id_

    @classmethod
    def open(cls, root: str | PathLike[str], name: str, *, clock: Clock = SystemClock()) -> Self:
        """Read a stream's files.

        Raises:
            InvalidRequestError: There is no such root or stream.
        """
        found = root_id(root)
        return cls(Path(root), read_stream(Path(root), name), found, clock)

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
        mask = meta.route_mask
        if mask is None:
            message = "the shards are partitions of an origin; rows come from there only"
            raise InvalidRequestError(message, stream=meta.name)
        begin = partial(self._begin_attempt, transaction.name)
        return StagingWriter(begin, mask, self.options.payload_bytes_max, meta.name)

    def is_decided(self, transaction: TransactionId) -> bool:
        """Tell whether a transaction was published, finished or passed by its series.

        Of one without a number, once it is finished, only the shards know: this is False then,
        and publishing it again changes nothing as long as they remember it.
        """
        with file_errors(self._staging, "looking for a transaction"):
            directory = transaction_directory(self._staging, transaction.name)
            return (directory / MANIFEST_FILE).exists() or self._is_seen(transaction)

    def mark(self, series: str) -> Mark | None:
        """Return how far a series has come, None if nothing of it is finished."""
        return read_mark(self._files.directory, series)

    def contents(self, transaction: TransactionId) -> Contents | None:
        """Return what a decided transaction held, None where that is not known (any more)."""
        directory = transaction_directory(self._staging, transaction.name)
        with file_errors(self._staging, "looking for a transaction"):
            manifest = read_manifest(directory)
            return self._contents(transaction, manifest)

    def publish(
        self, transaction: TransactionId, parts: Parts, contents: Contents | None = None
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

        Returns:
            The shards in which it is still to be finished; none where it has no rows, or was
            finished before.

        Raises:
            UnavailableError: Staged files are gone; nothing was decided.
            ForeignDataError: It was decided with other contents, or another stream lies in the
                place of this one; nothing has changed.
        """
        staging, stream = self._staging, self._files.directory
        directory = transaction_directory(staging, transaction.name)
        with self._ours("publishing a transaction"):
            manifest = read_manifest(directory)
            self._refuse_other(contents, self._contents(transaction, manifest))
            is_seen = manifest is None and self._is_seen(transaction)
            if manifest is None and parts and not is_seen:
                self._check_there(directory, parts)
                manifest = publish_manifest(staging, transaction, parts, contents)
            if manifest is not None:
                return frozenset(manifest.shards)
            if is_seen:
                note_skipped(stream, transaction.series)
            else:
                write_mark(stream, transaction, contents)
            remove_transaction(directory)
            return frozenset()

    @staticmethod
    def sorts_at_once(parts: Parts) -> bool:
        """Tell whether each shard's rows become one order; else some may be late among themselves.

        It takes a gigabyte or more of a shard in one transaction until they do not.
        """
        return all(len(merge_groups(of_shard)) <= 1 for of_shard in parts.values())

    def discard(self, transaction: TransactionId, parts: Iterable[Parts]) -> None:
        """Remove the files of attempts that are not, and will not be, in the transaction."""
        directory = transaction_directory(self._staging, transaction.name)
        with self._ours("clearing staged rows"):
            manifest = read_manifest(directory)
            kept = _attempts([manifest.shards]) if manifest else set()
            for attempt in _attempts(parts) - kept:
                remove_attempt(directory / attempt)

    def claim(self, name: str, owner: str, *, takes_over: bool = False) -> str:
        """Give a name to an owner unless it has another.

        Returns:
            The owner, which is the other one if the name was taken.
        """
        stream = self._files.directory
        with self._ours("claiming a name"):
            found = read_owner(stream, name)
            if found is None or (found != owner and takes_over):
                write_owner(stream, name, owner)
                return owner
            return found

    def open_shards(
        self, opener: Opener[T], shards: Iterable[int], wait_s: float, purpose: str = ""
    ) -> T:
        """Open shards once their writer lets go, by `Stream.open`; it finishes what is published.

        The purpose is told to those who find them locked then.

        Raises:
            ShardLockedError: Another writer kept one of them for too long.
        """
        numbers = sorted(shards)
        deadline_s = self._clock.monotonic_s() + wait_s
        environment = Environment(clock=self._clock, purpose=purpose)
        self._make_staging()
        with take_turn(self._staging, self._clock, wait_s):
            while True:
                try:
                    return opener(
                        self._root, self._files.meta.name, numbers, environment=environment
                    )
                except ShardLockedError as error:
                    if self._clock.monotonic_s() >= deadline_s:
                        message = f"waited {wait_s:g} s: {error.message}"
                        raise ShardLockedError(
                            message, stream=error.stream, shard=error.shard
                        ) from error
                    self._clock.sleep(_RETRY_S)

    def somebody_waits(self) -> bool:
        """Tell whether another process waits in `open_shards`."""
        # Whoever waits has made the directory.
        with suppress(FileNotFoundError):
            return is_turn_taken(self._staging)
        return False

    @contextmanager
    def _ours(self, doing: str) -> Iterator[None]:
        """Hold the stream's files, which are still those of the stream that was opened."""
        stream = self._files.directory
        with file_errors(stream, doing), locked(stream, self._clock):
            # Nothing of one stream is decided in another of its name.
            self._files.reread()
            yield

    @property
    def _staging(self) -> Path:
        return self._files.staging_directory

    def _begin_attempt(self, name: str) -> Path:
        with self._ours("staging rows"):
            return begin_attempt(self._staging, name)

    def _make_staging(self) -> None:
        with file_errors(self._staging, "making the staging directory"):
            make_directories(self._staging)

    def _contents(self, transaction: TransactionId, manifest: Manifest | None) -> Contents | None:
        if manifest is not None:
            return manifest.contents
        if transaction.number is None:
            return None
        mark = read_mark(self._files.directory, transaction.series)
        return None if mark is None else mark.contents.get(transaction.number)

    def _refuse_other(self, contents: Contents | None, known: Contents | None) -> None:
        if contents is None or known is None or contents == known:
            return
        message = (
            f"the transaction is decided with {known.rows} rows, and comes again with "
            f"{contents.rows} other ones; give what follows an id of its own"
        )
        raise ForeignDataError(message, stream=self._files.meta.name)

    def _check_there(self, directory: Path, parts: Parts) -> None:
        """Refuse parts whose files were swept, or are on another machine's disk."""
        ends: dict[str, int] = {}
        for part in (part for of_shard in parts.values() for part in of_shard):
            ends[part.file] = max(ends.get(part.file, 0), part.start + part.size)
        for file, end in ends.items():
            path = directory / file
            if not path.is_file() or path.stat().st_size < end:
                message = "staged rows are gone before they were published; stage them again"
                raise UnavailableError(message, stream=self._files.meta.name, path=path)

    def _is_seen(self, transaction: TransactionId) -> bool:
        if transaction.number is None:
            return False
        mark = read_mark(self._files.directory, transaction.series)
        if mark is not None and transaction.number <= mark.number:
            return True
        return any(
            manifest.id is not None
            and manifest.id.series == transaction.series
            and (manifest.id.number or 0) > transaction.number
            for manifest in staged_transactions(self._staging)
        )


def _attempts(parts: Iterable[Parts]) -> set[str]:
    return {
        part.file.partition("/")[0]
        for by_shard in parts
        for of_shard in by_shard.values()
        for part in of_shard
    }

"""A stream open for writing: its shards, and the calls that reach all of them."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Self

from storage_core.catalog.archived_shard import ArchivedShard
from storage_core.catalog.archived_shards import archive_shards, finish_archiving
from storage_core.catalog.births import add_shards, create_stream
from storage_core.catalog.changes import altered
from storage_core.catalog.lake_uri import refuse_lake_pattern
from storage_core.catalog.opening_by_files import opened_by_files
from storage_core.catalog.options import StreamOptions, checked_options
from storage_core.catalog.origin import StreamOrigin
from storage_core.catalog.stream_file import StreamFiles, read_stream
from storage_core.engine.database_process import refuse_writing_in_fork
from storage_core.engine.environment import Environment
from storage_core.engine.open_files import open_files
from storage_core.errors import InvalidRequestError, ShardlogError
from storage_core.facade import StreamFacade, delegate, facade
from storage_core.ids.index.worker import IndexWorker
from storage_core.open_shards import OpenShards
from storage_core.parts.part_home import refuse_absent
from storage_core.platform.durable_file import file_errors
from storage_core.remote.addresses import refuse_servers
from storage_core.stream_maintenance import StreamMaintenance
from storage_core.stream_writes import StreamWrites
from storage_core.tiering.part_directory import with_correct_names
from storage_core.transactions.finish import finish_all
from storage_core.transactions.manifest import Staging
from storage_core.transactions.opening import shard_numbers, with_shards_open
from storage_core.transactions.transaction import Transaction
from storage_core.write.opening.give_up import GiveUp
from storage_core.write.shard import Shard


@facade
class Stream(StreamFacade[Shard]):
    """The writer of a stream, or of some of its shards. Any thread may call it.

    A context manager: leaving commits; an exception discards what was not sealed. `maintenance` has
    `expire`, `seal`, `trim` and the like, `rows` all reads; each is a method here, too.

    Example:
        >>> with Stream.create(root, "trips", StreamOptions(shards=4)) as stream:
        ...     stream.append(primary=1_700_000_000_000, secondary=7, payload=b"begin")
        >>> with Stream.open(root, "trips") as stream:
        ...     stream.committed()
        {0: 0, 1: 0, 2: 0, 3: 1}
    """

    def __init__(
        self, files: StreamFiles, shards: Mapping[int, Shard], environment: Environment
    ) -> None:
        """Take over opened shards; use `create` or `open`."""
        super().__init__(OpenShards(files, shards, "stream"))
        self._writes = StreamWrites(self._open)
        self.maintenance = StreamMaintenance(self._open, environment)
        self._shards = shards
        self._has_keys = files.meta.has_keys
        self._staging = Staging(files.staging_directory, environment.clock)
        self.index = IndexWorker([shard.index for shard in shards.values()], environment)
        # A stream whose rows are not routed has one place for every secondary, and no shard there.
        self._mask = files.meta.shard_mask or 0
        by_route = [shards.get(number) for number in range(files.meta.shards)] or [None]
        self._by_route = [None] * len(by_route) if self._has_keys else by_route

    @classmethod
    def create(
        cls,
        root: str | PathLike[str],
        name: str,
        options: StreamOptions | None = None,
        *,
        origin: StreamOrigin | None = None,
        environment: Environment | None = None,
    ) -> Self:
        """Make a stream and open it for writing.

        Args:
            root: The directory that holds the streams; made if it is not there.
            name: The stream.
            options: How it is made.
            origin: What its shards are the partitions of. Such a stream begins without shards,
                `options.shards` says nothing, and `add_shards` makes them.
            environment: Time and disks, for tests.

        Raises:
            InvalidRequestError: The name is bad or taken.
            InvalidRequestError: This process may not open as many files as the shards need.
        """
        chosen = checked_options(options)
        whence: object = origin
        if whence is not None and not isinstance(whence, StreamOrigin):
            message = f"origin is a StreamOrigin, not {type(whence).__name__}"
            raise InvalidRequestError(message)
        refuse_servers(root)
        refuse_writing_in_fork()
        if origin is None:
            # Before anything is made that could not be opened.
            open_files().require_for_writer(chosen.shards, name)
        create_stream(Path(root), name, chosen, origin)
        return cls.open(root, name, environment=environment)

    @staticmethod
    def add_shards(root: str | PathLike[str], name: str, starts: Mapping[int, int]) -> None:
        """Make those shards of a stream with an origin that are not there yet; durable on return.

        Any number of processes may call it at once, beside writers and readers. A shard that
        is there keeps its first address, whatever is asked. Streams and readers that are open
        do not have the new ones: open them by number, `StreamReader.refresh` takes them in.

        Args:
            root: The directory that holds the streams.
            name: The stream.
            starts: For each shard the first address it can ever have.

        Raises:
            InvalidRequestError: There is no such stream, it has no origin, or a number does
                not fit.
        """
        add_shards(Path(root), name, starts)

    @staticmethod
    def archive_shards(
        root: str | PathLike[str],
        name: str,
        starts: Mapping[int, int],
        *,
        beside: Mapping[int, int] | None = None,
        environment: Environment | None = None,
    ) -> Sequence[ArchivedShard]:
        """Put new, empty logs in the place of shards' logs, which are archived by lineage.

        Durable on return; of all shards or of none, wherever it is killed. Who has an old log open
        gets ForeignDataError from then on; `StreamReader.open(archived=)` reads it.

        Args:
            root: The directory that holds the streams.
            name: The stream; its shards are the partitions of an origin.
            starts: For each shard the first address of its new log.
            beside: The same for shards that are archived with them if they are there by then.
            environment: Time, for tests.

        Raises:
            InvalidRequestError: There is no such stream or shard, or it has no origin.
            ShardLockedError: A writer holds a shard; nothing was changed.
            CorruptionError: The stream's files, or a shard's marker, are damaged.
        """
        return archive_shards(root, name, starts, beside=beside, environment=environment)

    @classmethod
    def open(  # noqa: PLR0913 - what an opener may say
        cls,
        root: str | PathLike[str],
        name: str,
        shards: Iterable[int] | None = None,
        *,
        give_up_marker: bool = False,
        give_up_transactions: Iterable[str] = (),
        environment: Environment | None = None,
    ) -> Self:
        """Open all shards, or those named, for writing; recover what a crash left.

        Args:
            root: The directory that holds the streams.
            name: The stream.
            shards: Numbers of the shards to open and lock; None for all.
            give_up_marker: Where no slot of a marker is valid, take what the store holds.
            give_up_transactions: Unfinished transactions whose staged rows are gone: remove
                what there is of them. What has landed in other shards stays; one that comes
                again lands where it is missing. Of a damaged manifest, its directory's name.
            environment: Time and disks, for tests.

        Raises:
            InvalidRequestError: There is no such root, stream or shard.
            ShardLockedError: Another writer has a shard; nothing is opened.
            InvalidRequestError: This process may not open as many files as the shards need.
            CorruptionError: A file is damaged beyond what opening can repair.
        """
        refuse_servers(root)
        refuse_writing_in_fork()
        outside = environment or Environment()
        place = Path(root).absolute()
        wanted: object = list(shards) if isinstance(shards, Iterable) else shards
        if isinstance(give_up_transactions, str):
            give_up_transactions = (give_up_transactions,)
        given_up = GiveUp(give_up_marker, frozenset(give_up_transactions))
        return opened_by_files(
            lambda: read_stream(place, name, is_whole=wanted is None),
            lambda files: cls._opened(files, wanted, outside, given_up),
        )

    @classmethod
    def _opened(
        cls, files: StreamFiles, wanted: object, environment: Environment, given_up: GiveUp
    ) -> Self:
        numbers = shard_numbers(files, wanted)
        files = replace(files, shards_open=frozenset(numbers))
        finish_archiving(files)
        return with_shards_open(
            files,
            numbers,
            environment,
            given_up,
            lambda opened: cls(files, with_correct_names(opened), environment),
        )

    # --- writing ---------------------------------------------------------------------------

    def append(self, primary: int, secondary: int, payload: bytes | None, version: int = 0) -> None:
        """Take one record; None is a tombstone. Durable once `commit` returns.

        A full block is written by itself while the caller waits, so memory stays bounded.

        Raises:
            InvalidRequestError: A value is of the wrong type or too large, or the stream has a key
                dictionary, which takes batches only; nothing changed.
            UnavailableError: The shard was held by another call for too long.
        """
        try:
            shard = self._by_route[secondary & self._mask]
        except TypeError as error:
            self._refuse_unkeyed()
            message = f"secondary must be an integer, not {type(secondary).__name__}"
            raise InvalidRequestError(message) from error
        if shard is None:
            self._refuse_unkeyed()
            self._writes.refuse_unrouted()
            shard = self._open.shard(secondary & self._mask)
        shard.add(primary, secondary, payload, version)

    append_batch = delegate("_writes", StreamWrites.append_batch)
    judge = delegate("_writes", StreamWrites.judge)
    skip = delegate("_writes", StreamWrites.skip)
    clear_dead_letters = delegate("_writes", StreamWrites.clear_dead_letters)
    attachments = delegate("_writes", StreamWrites.attachments)
    clear_attachments = delegate("_writes", StreamWrites.clear_attachments)

    def transaction(self, txn_id: str, rows_total: int) -> Transaction:
        """Return a context manager whose rows become visible at its end, once.

        Args:
            txn_id: The caller's id; a replayed one is a no-op or goes on where it stopped.
            rows_total: How many rows it will have; leaving with another number is refused.

        Example:
            >>> for attempt in range(2):
            ...     with stream.transaction("import-1", rows_total=1) as transaction:
            ...         transaction.append(1_700_000_001_000, 7, b"end")
            >>> stream.read(ids=7).num_rows
            2
        """
        self._open.refuse_if_closed()
        self._writes.refuse_unrouted()
        return Transaction(self._staging, txn_id, rows_total, self._shards)

    def finish_transactions(self) -> None:
        """Take over what was staged and published for the open shards, as opening them does.

        Raises:
            CorruptionError: A staged file is missing or damaged.
        """
        with file_errors(self._staging.directory, "finishing transactions"):
            finish_all(self._staging, self._open.opened())

    def commit(self) -> dict[int, int]:
        """Make all that was appended before durable; return each shard's committed.

        Example:
            >>> stream.append(1_700_000_001_000, 7, b"end")
            >>> stream.commit()
            {0: 0, 1: 0, 2: 0, 3: 2}
        """
        shards = self._open.opened()
        self._open.threads.map(Shard.commit, [s for s in shards.values() if s.needs_commit])
        return {number: shard.committed() for number, shard in shards.items()}

    def alter(self, **options: object) -> None:
        """Change options that may change; durable on return.

        Raises:
            InvalidRequestError: One may not change so, as the lake of parts that only it has.
        """
        self._open.refuse_if_closed()
        lake = self.options.lake
        other = options.get("lake", lake)
        if other != lake:
            uri = None if other is None else str(other)
            refuse_lake_pattern(uri)
            if lake is not None:
                refuse_absent(self._open.parts(), self._open.meta.name, uri)
        self._open.files = altered(self._open.files, options)
        for shard in self._shards.values():
            shard.alter(self.options)

    # --- maintenance -----------------------------------------------------------------------

    expire = delegate("maintenance", StreamMaintenance.expire)
    seal = delegate("maintenance", StreamMaintenance.seal)
    compact = delegate("maintenance", StreamMaintenance.compact)
    maintain = delegate("maintenance", StreamMaintenance.maintain)
    first_committed_ms = delegate("maintenance", StreamMaintenance.first_committed_ms)
    trim = delegate("maintenance", StreamMaintenance.trim)
    verify = delegate("maintenance", StreamMaintenance.verify)
    accept_loss = delegate("maintenance", StreamMaintenance.accept_loss)

    # --- the rest --------------------------------------------------------------------------

    def close(self) -> None:
        """Commit and close the shards; closing twice is fine.

        Raises:
            UnavailableError: Another call holds a shard; that shard is still open, close again.
            ShardPoisonedError: The last commit failed; the shards are closed all the same.
        """
        self._open.home.refuse_elsewhere()
        with ExitStack() as stack:
            stack.callback(self.index.stop)
            for shard in self._shards.values():
                stack.callback(shard.close)
        self._open.is_closed = True

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        """Close; after an exception what was not sealed is discarded."""
        if error is None or self._open.is_closed:
            self.close()
            return
        if self._open.home.is_elsewhere:
            # A fork that ends by an exception leaves the stream to its parent.
            return
        try:
            with ExitStack() as closing:
                closing.callback(self.close)
                for shard in self._shards.values():
                    shard.discard_builder()
        except ShardlogError as later:
            # The first error is the one that matters.
            error.add_note(f"while closing: {later}")

    def _refuse_unkeyed(self) -> None:
        """Refuse single records where rows belong to keys."""
        if self._has_keys:
            self._open.refuse_if_closed()
            message = "this stream has a key dictionary: append batches with a column of keys"
            raise InvalidRequestError(message, stream=self._open.meta.name)

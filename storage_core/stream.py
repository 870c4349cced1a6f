"""A stream open for writing: its shards, and the calls that reach all of them."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from storage_core.catalog.archived_shards import archive_shards, finish_archiving
from storage_core.catalog.births import add_shards, create_stream
from storage_core.catalog.changes import altered
from storage_core.catalog.options import StreamOptions, checked_options
from storage_core.catalog.origin import StreamOrigin
from storage_core.catalog.stream_file import StreamFiles, read_stream
from storage_core.catalog.stream_meta import ArchivedShard
from storage_core.engine.database_process import refuse_writing_in_fork
from storage_core.engine.environment import Environment
from storage_core.engine.open_files import open_files
from storage_core.errors import InvalidRequestError, ShardlogError
from storage_core.facade import StreamFacade, delegate, facade
from storage_core.format.keys import ADDRESS_MAX
from storage_core.format.record import rows_from_arrow
from storage_core.format.schema_entry import SchemaEntry
from storage_core.ids.dictionaries.routing import refuse_strange_keys, rows_by_shard
from storage_core.ids.dictionaries.schemas import checked_schemas
from storage_core.ids.index.worker import IndexWorker
from storage_core.open_shards import OpenShards
from storage_core.platform.durable_file import file_errors
from storage_core.remote.addresses import refuse_servers
from storage_core.stream_maintenance import StreamMaintenance
from storage_core.tiering.part_directory import with_correct_names
from storage_core.transactions.finish import finish_all
from storage_core.transactions.manifest import Staging
from storage_core.transactions.opening import shard_numbers, with_shards_open
from storage_core.transactions.transaction import Transaction
from storage_core.write.batch_over_shards import append_over_shards
from storage_core.write.duplicates import checked_addresses
from storage_core.write.entry import (
    AppendReport,
    DeadLetterOutcome,
    Entry,
    check_outcome,
    checked_attachments,
    checked_dead_letter_addresses,
    checked_dead_letters,
    checked_source,
    without_states,
)
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
        environment: Environment | None = None,
    ) -> Sequence[ArchivedShard]:
        """Put new, empty logs in the place of shards' logs, which are archived by lineage.

        Durable on return; of all shards or of none, wherever it is killed. Who has an old log open
        gets ForeignDataError from then on; `StreamReader.open(archived=)` reads it.

        Args:
            root: The directory that holds the streams.
            name: The stream; its shards are the partitions of an origin.
            starts: For each shard the first address of its new log.
            environment: Time, for tests.

        Raises:
            InvalidRequestError: There is no such stream or shard, or it has no origin.
            ShardLockedError: A writer holds a shard; nothing was changed.
            CorruptionError: The stream's files, or a shard's marker, are damaged.
        """
        return archive_shards(root, name, starts, environment=environment)

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
        files = read_stream(Path(root).absolute(), name, is_whole=shards is None)
        numbers = shard_numbers(files, shards)
        files = replace(files, shards_open=frozenset(numbers))
        finish_archiving(files)
        if isinstance(give_up_transactions, str):
            give_up_transactions = (give_up_transactions,)
        given_up = GiveUp(give_up_marker, frozenset(give_up_transactions))
        return with_shards_open(
            files,
            numbers,
            outside,
            given_up,
            lambda opened: cls(files, with_correct_names(opened), outside),
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
            self._refuse_unrouted()
            shard = self._open.shard(secondary & self._mask)
        shard.add(primary, secondary, payload, version)

    def append_batch(  # noqa: PLR0913 - what a batch may bring
        self,
        batch: pa.RecordBatch | pa.Table,
        *,
        shard: int | None = None,
        addresses: object = None,
        source: dict[str, Any] | None = None,
        attachments: Iterable[tuple[str, bytes, bytes]] = (),
        dead_letters: Mapping[int, bytes] | None = None,
        schemas: Sequence[SchemaEntry] = (),
    ) -> AppendReport:
        """Write a batch, all of its rows or none; durable once `commit` returns.

        After a crash before that, each shard has its part whole or not at all.

        Args:
            batch: Columns primary, secondary, payload, and optionally version, key, headers,
                timestamp, timestamp_type, schema (int32, a place in `schemas`). In a stream with a
                key dictionary `key` is needed, null for no key, and there is no secondary. With
                addresses `state` (uint8) says what the rows of a copy were found to be at first;
                without it they are judged anew.
            shard: The shard all rows go to; None routes each by its secondary, or by its key's
                hash, which a stream with an origin refuses. Keys that route elsewhere are refused.
            addresses: The rows' own addresses, strictly increasing; rows already stored are
                skipped and counted. Needs `shard` unless there is one shard only. Rows of an
                origin must bring theirs.
            source: Where the rows' source stands afterwards, kept with them; its `next` moves
                the tail past addresses that carry no rows.
            attachments: (family, key, value) to be written with the rows.
            dead_letters: What cannot be a row, by address, in the caller's own encoding; kept
                as it is, and moves the tail like a row. Addresses below the tail are skipped
                and counted.
            schemas: By which schemas the payloads were written, as the rows' column `schema` counts
                through them; null is none. Each shard keeps those that are new to it.

        Raises:
            InvalidRequestError: Something does not fit; nothing changed.
            LostRangeError: Addresses lie in a lost range; nothing changed.
            UnavailableError: A shard was held by another call for too long; nothing changed.
            ShardPoisonedError: A write failed; where the batch went to several shards, the
                message says which of them have their rows.

        Example:
            >>> times, ids = [1_700_000_002_000, 1_700_000_001_000], [7, 7]
            >>> rows = {"primary": times, "secondary": ids, "payload": [b"end", b"middle"]}
            >>> report = stream.append_batch(pa.table(rows))
            >>> report.appended, report.late
            (2, 1)
        """
        self._open.refuse_if_closed()
        largest = self.options.payload_bytes_max
        checked = checked_schemas(schemas)
        is_placed = shard is not None and addresses is not None
        batch, states = without_states(batch, is_placed=is_placed)
        rows = rows_from_arrow(batch, largest, has_keys=self._has_keys, schemas=checked)
        extra = checked_attachments(attachments)
        if shard is None:
            self._refuse_unrouted()
        if shard is None and self._mask == 0:
            shard = 0
        if shard is not None:
            placed = None if addresses is None else checked_addresses(addresses, len(rows))
            if placed is None and len(rows) and self.origin is not None:
                message = "the rows come from an origin: give the addresses they have there"
                raise InvalidRequestError(message, stream=self._open.meta.name)
            if self._has_keys:
                refuse_strange_keys(rows, self._mask, shard)
            dead = checked_dead_letters(dead_letters, rows, placed)
            entry = Entry(rows, placed, checked_source(source), extra, dead, states=states)
            return self._open.shard(shard).append(entry)
        if addresses is not None or source is not None or extra or dead_letters:
            message = "addresses, source, attachments and dead letters belong to one shard: name it"
            raise InvalidRequestError(message)
        routed = rows_by_shard(rows, self._mask, has_keys=self._has_keys)
        parts = [(self._open.shard(number), some) for number, some in routed]
        if len(parts) == 1:
            return parts[0][0].append(Entry(parts[0][1]))
        return append_over_shards(parts)

    def judge(
        self,
        batch: pa.RecordBatch | pa.Table,
        shard: int,
        *,
        schemas: Sequence[SchemaEntry] = (),
    ) -> pa.UInt8Array:
        """Return the states that rows would get if they were appended to a shard now.

        Nothing is written. For rows that are stored elsewhere and are late as they would be here.

        Args:
            batch: As `append_batch` takes it, without a column of states.
            shard: The shard by whose ids they are judged.
            schemas: As `append_batch` takes them.

        Raises:
            InvalidRequestError: Something does not fit.
        """
        largest, checked = self.options.payload_bytes_max, checked_schemas(schemas)
        rows = rows_from_arrow(batch, largest, has_keys=self._has_keys, schemas=checked)
        states: Any = pa.array(self._open.shard(shard).judge(rows))
        judged: pa.UInt8Array = states
        return judged

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
        self._refuse_unrouted()
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

    def skip(self, shard: int, end: int, *, source: dict[str, Any] | None = None) -> None:
        """Skip what the source no longer has, from the tail to `end`; durable on return.

        Reads find nothing there, and `gaps` returns it. Where the tail is at `end` already only
        the source is written.

        Args:
            shard: The shard.
            end: The address to go on from.
            source: Where the rows' source stands afterwards.

        Raises:
            InvalidRequestError: The tail lies above `end`.
        """
        self._open.refuse_if_closed()
        if type(end) is not int or not 0 <= end <= ADDRESS_MAX:
            message = f"end {end!r} is not an address from 0 to {ADDRESS_MAX}"
            raise InvalidRequestError(message)
        self._open.shard(shard).skip(end, checked_source(source))

    def clear_dead_letters(
        self, shard: int, addresses: Iterable[int], *, outcome: DeadLetterOutcome = "forwarded"
    ) -> int:
        """Delete dead letters that are done with; durable on return.

        Args:
            shard: The shard.
            addresses: Theirs, below committed; where none lies (any more), nothing is done.
            outcome: What became of them, by which they are counted: `forwarded`, `retried` (they
                are rows now), `discarded`, or `dropped` for want of room.

        Returns:
            How many were there.

        Raises:
            InvalidRequestError: One lies at or above committed, or is no address.
        """
        check_outcome(outcome)
        opened = self._open.shard(shard)
        checked = checked_dead_letter_addresses(addresses, opened.committed())
        return opened.clear_dead_letters(checked, outcome)

    def alter(self, **options: object) -> None:
        """Change options that may change; durable on return."""
        self._open.refuse_if_closed()
        self._open.files = altered(self._open.files, options)
        for shard in self._shards.values():
            shard.alter(self.options)

    # --- maintenance -----------------------------------------------------------------------

    expire = delegate("maintenance", StreamMaintenance.expire)
    seal = delegate("maintenance", StreamMaintenance.seal)
    compact = delegate("maintenance", StreamMaintenance.compact)
    maintain = delegate("maintenance", StreamMaintenance.maintain)
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

    def _refuse_unrouted(self) -> None:
        """Refuse rows without a shard where secondaries do not name one."""
        if self.origin is not None:
            self._open.refuse_if_closed()
            message = "the shards are partitions of an origin: append batches that name theirs"
            raise InvalidRequestError(message, stream=self._open.meta.name)

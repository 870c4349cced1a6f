"""A stream open for writing: its shards, and the calls that reach all of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from storage_core.draft import AppendReport, Entry, checked_attachments
from storage_core.environment import Environment
from storage_core.errors import ClosedError, InvalidRequestError, ShardlogError
from storage_core.extents import checked_addresses
from storage_core.keys import ADDRESS_MAX
from storage_core.options import StreamOptions
from storage_core.reads import StreamReads
from storage_core.record import Rows, rows_from_arrow
from storage_core.recovery import GiveUp, open_shard
from storage_core.shard import Shard, ShardContext
from storage_core.shard_state import encode_source
from storage_core.staging import remove_transaction, sweep_abandoned, transaction_directory
from storage_core.stream_file import StreamFiles, create_stream, read_stream
from storage_core.transaction import Transaction, finish_all
from storage_core.verify import VerifyReport, verify_shard


@dataclass(frozen=True, slots=True)
class StreamStats:
    """What the open shards have counted since their birth."""

    records: int = 0
    late_arrivals: int = 0
    jitter_absorbed: int = 0
    expired: int = 0
    ahead: int = 0
    duplicates: int = 0
    index_entries: int = 0
    index_dropped: int = 0
    scale_up: int = 0
    scale_down: int = 0
    spacing: int = 0
    index_queue: int = 0


class Stream(StreamReads):
    """The writer of a stream, or of some of its shards. Any thread may call it.

    A context manager: leaving commits; an exception discards what was not sealed.
    """

    def __init__(
        self, files: StreamFiles, shards: Mapping[int, Shard], environment: Environment
    ) -> None:
        """Take over opened shards; use `create` or `open`."""
        super().__init__(self._open_shards)
        self._files = files
        self._shards = shards
        self._environment = environment
        self._mask = files.meta.shards - 1
        self._by_route = [shards.get(number) for number in range(files.meta.shards)]
        self._is_closed = False

    @classmethod
    def create(
        cls,
        root: str | PathLike[str],
        name: str,
        options: StreamOptions | None = None,
        *,
        environment: Environment | None = None,
    ) -> Self:
        """Make a stream and open it for writing.

        Raises:
            InvalidRequestError: The name is bad or taken.
        """
        chosen: object = StreamOptions() if options is None else options
        if not isinstance(chosen, StreamOptions):
            message = f"options are StreamOptions, not {type(chosen).__name__}"
            raise InvalidRequestError(message)
        create_stream(Path(root), name, chosen)
        return cls.open(root, name, environment=environment)

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
                what there is of them.
            environment: Time and disks, for tests.

        Raises:
            InvalidRequestError: There is no such root, stream or shard.
            ShardLockedError: Another writer has a shard; nothing is opened.
            CorruptionError: A file is damaged beyond what opening can mend.
        """
        outside = environment or Environment()
        files = read_stream(Path(root), name)
        numbers = _shard_numbers(files, shards)
        if isinstance(give_up_transactions, str):
            give_up_transactions = (give_up_transactions,)
        given_up = frozenset(give_up_transactions)
        opened: dict[int, Shard] = {}
        with ExitStack() as undo:
            for number in numbers:
                context = ShardContext(
                    number,
                    files.shard_directory(number),
                    files.meta,
                    files.settings.lineages[number],
                    outside,
                )
                recovered = open_shard(context, GiveUp(give_up_marker, given_up))
                opened[number] = Shard(context, files.settings.options, recovered)
                undo.callback(_abandon_quietly, opened[number])
            staging = files.staging_directory
            for transaction in given_up:
                remove_transaction(transaction_directory(staging, transaction))
            finish_all(staging, opened)
            sweep_abandoned(staging, outside.clock)
            undo.pop_all()
        return cls(files, opened, outside)

    # --- writing ---------------------------------------------------------------------------

    def append(self, primary: int, secondary: int, payload: bytes | None, version: int = 0) -> None:
        """Take one record; None is a tombstone. Durable once `commit` returns.

        A full block is written by itself while the caller waits, so memory stays bounded.

        Raises:
            InvalidRequestError: A value is of the wrong type or too large; nothing changed.
            UnavailableError: The shard was held by another call for too long.
        """
        try:
            shard = self._by_route[secondary & self._mask]
        except TypeError as error:
            message = f"secondary must be an integer, not {type(secondary).__name__}"
            raise InvalidRequestError(message) from error
        if shard is None:
            shard = self._shard(secondary & self._mask)
        shard.add(primary, secondary, payload, version)

    def append_batch(
        self,
        batch: pa.RecordBatch | pa.Table,
        *,
        shard: int | None = None,
        addresses: object = None,
        source: dict[str, Any] | None = None,
        attachments: Iterable[tuple[str, bytes, bytes]] = (),
    ) -> AppendReport:
        """Write a batch, atomically in each shard; durable once `commit` returns.

        Args:
            batch: Columns primary, secondary, payload, and optionally version, key, headers,
                timestamp, timestamp_type.
            shard: The shard all rows go to; None routes each by its secondary.
            addresses: The rows' own addresses, strictly increasing; rows already stored are
                skipped and counted. Needs `shard` unless there is one shard only.
            source: Where the rows' source stands afterwards, kept with them; its `next` moves
                the tail past addresses that carry no rows.
            attachments: (family, key, value) to be written with the rows.

        Raises:
            InvalidRequestError: Something does not fit; nothing changed.
        """
        self._refuse_if_closed()
        rows = rows_from_arrow(batch, self._files.settings.options.payload_bytes_max)
        extra = checked_attachments(attachments)
        if shard is None and self._mask == 0:
            shard = 0
        if shard is not None:
            placed = None if addresses is None else checked_addresses(addresses, len(rows))
            return self._shard(shard).append(Entry(rows, placed, _checked_source(source), extra))
        if addresses is not None or source is not None or extra:
            message = "addresses, source and attachments belong to one shard: name it"
            raise InvalidRequestError(message)
        report = AppendReport()
        for target, part in self._routed(rows):
            report = report.plus(target.append(Entry(part)))
        return report

    def transaction(self, txn_id: str, rows_total: int) -> Transaction:
        """Return a context manager whose rows become visible at its end, once.

        Args:
            txn_id: The caller's id; a replayed one is a no-op or goes on where it stopped.
            rows_total: How many rows it will have; leaving with another number is refused.
        """
        self._refuse_if_closed()
        return Transaction(self._files.staging_directory, txn_id, rows_total, self._shards)

    def commit(self) -> dict[int, int]:
        """Make all that was appended before durable; return each shard's committed."""
        shards = self._open_shards()
        self._beside_each_other(Shard.commit, [s for s in shards.values() if s.needs_commit])
        return {number: shard.committed() for number, shard in shards.items()}

    def accept_loss(self, shard: int, start: int, end: int) -> None:
        """Give up a lost range by name, so that reads pass over it.

        Raises:
            InvalidRequestError: The range is not lost.
        """
        self._refuse_if_closed()
        self._shard(shard).accept_loss(start, end)

    def alter(self, **options: object) -> None:
        """Change options that may change; durable on return."""
        self._refuse_if_closed()
        self._files = self._files.altered(options)
        for shard in self._shards.values():
            shard.alter(self._files.settings.options)

    # --- the rest --------------------------------------------------------------------------

    def committed(self) -> dict[int, int]:
        """Return each open shard's committed."""
        return {number: shard.committed() for number, shard in self._open_shards().items()}

    def source(self, shard: int) -> Mapping[str, object] | None:
        """Return where the source of a shard's rows stands, as `append_batch` was told."""
        return self._shard(shard).source

    def lost_ranges(self) -> dict[int, list[tuple[int, int]]]:
        """Return each open shard's lost ranges as (start, end)."""
        return {
            number: [(lost.start, lost.end) for lost in shard.lost]
            for number, shard in self._open_shards().items()
        }

    def stats(self) -> StreamStats:
        """Return what the open shards have counted."""
        each = [shard.tail.counters for shard in self._open_shards().values()]
        return StreamStats(
            records=sum(counters.records for counters in each),
            late_arrivals=sum(counters.late_arrivals for counters in each),
            jitter_absorbed=sum(counters.jitter_absorbed for counters in each),
            expired=sum(counters.expired for counters in each),
            ahead=sum(counters.ahead for counters in each),
            duplicates=sum(counters.duplicates for counters in each),
        )

    def verify(self) -> VerifyReport:
        """Read every block, zone and late row of the open shards and tell what is wrong."""
        report = VerifyReport()
        for shard in self._open_shards().values():
            report = report.plus(verify_shard(shard))
        return report

    def close(self) -> None:
        """Commit and let go of the shards; closing twice is fine.

        Raises:
            UnavailableError: Another call holds a shard; that shard is still open, close again.
            ShardPoisonedError: The last commit failed; the shards are closed all the same.
        """
        with ExitStack() as each:
            for shard in self._shards.values():
                each.callback(shard.close)
        self._is_closed = True
        self._stop_threads()

    def __enter__(self) -> Self:
        """Return the stream."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close; after an exception what was not sealed is discarded."""
        if error is None or self._is_closed:
            self.close()
            return
        try:
            with ExitStack() as closing:
                closing.callback(self.close)
                for shard in self._shards.values():
                    shard.discard_unsealed()
        except ShardlogError as later:
            # The first error is the one that matters.
            error.add_note(f"while closing: {later}")

    def _open_shards(self) -> Mapping[int, Shard]:
        self._refuse_if_closed()
        return self._shards

    def _shard(self, number: int) -> Shard:
        shard = self._open_shards().get(number)
        if shard is None:
            message = f"shard {number} is not open here; open are {sorted(self._shards)}"
            raise InvalidRequestError(message, stream=self._files.meta.name)
        return shard

    def _routed(self, rows: Rows) -> Iterator[tuple[Shard, Rows]]:
        numbers = rows.secondary & self._mask
        present = np.unique(numbers).tolist()
        targets = [self._shard(number) for number in present]
        for number, target in zip(present, targets, strict=True):
            yield target, rows.take(np.flatnonzero(numbers == number))

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            message = "the stream is closed"
            raise ClosedError(message, stream=self._files.meta.name)


def _shard_numbers(files: StreamFiles, shards: object) -> Sequence[int]:
    there = sorted(files.settings.lineages)
    if shards is None:
        return there
    if not isinstance(shards, Iterable):
        message = f"shards are a list of numbers, not {shards!r}"
        raise InvalidRequestError(message, stream=files.meta.name)
    numbers = sorted(set(shards), key=repr)
    unknown = [number for number in numbers if number not in files.settings.lineages]
    if unknown or not numbers:
        message = f"there are no shards {unknown}; there are {there[0]} to {there[-1]}"
        raise InvalidRequestError(message, stream=files.meta.name)
    return numbers


def _abandon_quietly(shard: Shard) -> None:
    """Let go of a shard because of an error that matters more than one of letting go."""
    with suppress(ShardlogError):
        shard.abandon()


def _checked_source(source: object) -> dict[str, Any] | None:
    if source is None:
        return None
    fields: dict[str, Any] = source if isinstance(source, dict) else {"next": None}
    next_address = fields.get("next", 0)
    if type(next_address) is not int or not 0 <= next_address <= ADDRESS_MAX:
        message = f"source is a dict whose `next`, if given, is an address; not {source!r}"
        raise InvalidRequestError(message)
    try:
        encode_source(fields)
    except (TypeError, ValueError) as error:
        message = f"source does not fit JSON: {error}"
        raise InvalidRequestError(message) from error
    return fields

"""What a stream answers, the same on a writer and on a reader in another process.

It says each fact of the stream's files and shards, and reads rows in every way. Each way to read
builds one `ReadRequest` a shard and passes it to that shard's `ShardReader`;
nothing here knows how a shard answers.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from heapq import merge
from itertools import repeat
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

import pyarrow as pa

from storage_core.catalog.options import StreamOptions
from storage_core.catalog.origin import StreamOrigin
from storage_core.catalog.stream_file import StreamFiles
from storage_core.errors import ClosedError, InvalidRequestError
from storage_core.format.counters import IndexCounts, StreamStats, stats_of
from storage_core.format.keys import saturating_add
from storage_core.format.record import Record
from storage_core.format.schema_entry import SchemaEntry
from storage_core.format.schema_order import in_order_of_all
from storage_core.platform.fork_guard import Home
from storage_core.platform.threads import Threads
from storage_core.read.cold.parts import Part, part_path, parts_directory
from storage_core.read.columns import READ_COLUMNS, read_schema
from storage_core.read.distinct import distinct_in_order
from storage_core.read.keyed import (
    Keys,
    checked_keys,
    own_columns,
    ranked,
    refuse_unfit,
    unnumbered,
)
from storage_core.read.over_shards import columns_over_shards, newest_over_shards
from storage_core.read.read_slots import Read, ReadGate
from storage_core.read.request import LatestBy, ReadRequest, ShardFacts, ShardReader
from storage_core.read.requests import Ids, integer, request_of
from storage_core.read.rows import Gathered, in_order, joined

# What `latest` tells records by: an id, or a key.
Id = int | bytes | None
S = TypeVar("S", bound=ShardReader)

_THREADS_MAX: Final = 8
_IDS_IN_TURN_MAX: Final = 16
_RECORD_FIELDS: Final = tuple(one.name for one in fields(Record))
# So many are made at once: whoever stops at the first waits for no more.
_RECORDS_AT_ONCE: Final = 1024
_READ_ORDER: Final = ("secondary", "primary", "shard", "address")


class StreamReads(Generic[S]):
    """What a stream answers, to its writer and to any reader. Any thread may call it."""

    _IS_CLOSED: ClassVar[str]
    _HAS_NO_SHARD: ClassVar[str]

    def __init__(self, files: StreamFiles, shards: Mapping[int, S]) -> None:
        """Answer through these shards."""
        self._files = files
        self._shards = shards
        self._is_closed = False
        self._home = Home(files.meta.name)
        self._threads = Threads(_THREADS_MAX)
        self._gate = ReadGate(files.meta.name, files.settings.options)

    def __enter__(self) -> Self:
        return self

    @property
    def origin(self) -> StreamOrigin | None:
        """What the stream is a copy of; None if its rows come from callers."""
        return self._files.meta.origin

    @property
    def options(self) -> StreamOptions:
        """The options in force; a reader's as they were at its last `refresh`."""
        return self._files.settings.options

    @property
    def has_ids(self) -> bool:
        """Whether secondaries are ids, the same in all shards; else they mean nothing outside."""
        if self.options.key_mode == "dictionary":
            return False
        return self.origin is None or self.origin.has_ids

    def lineage(self, shard: int) -> str:
        """Return the random id of a shard's log, in hex; the shard need not be open here."""
        return self._files.lineage(shard).hex()

    def committed(self) -> dict[int, int]:
        """Return each open shard's committed; a reader takes one look at each marker."""
        return {number: shard.committed() for number, shard in self._open_shards().items()}

    def lost_ranges(self) -> dict[int, list[tuple[int, int]]]:
        """Return each open shard's lost ranges as (start, end)."""
        return {number: list(facts.lost) for number, facts in self._facts().items()}

    def gaps(self) -> dict[int, list[tuple[int, int]]]:
        """Return each open shard's committed ranges that `pass_over` left out, as (start, end)."""
        return {number: list(facts.passed) for number, facts in self._facts().items()}

    def source(self, shard: int) -> Mapping[str, object] | None:
        """Return where the source of a shard's rows stands, as `append_batch` was told.

        It is that of the last batch written, which may not be committed yet.
        """
        return self._shard(shard).state().source

    def dead_letters(
        self, shard: int, start: int = 0, end: int | None = None
    ) -> Iterator[tuple[int, bytes]]:
        """Return a shard's committed dead letters by address, as `append_batch` was given them.

        Args:
            shard: The shard's number.
            start: The least address.
            end: Their exclusive end; None for all that is committed.
        """
        return self._shard(shard).dead_letters(start, end)

    def schemas(self, registry_id: int | None = None) -> list[SchemaEntry]:
        """Return the schemas of which the open shards have, or had, rows; each once.

        They are there without the registry; a schema of a batch that is not committed yet may be
        among them. What came later to a shard stands behind what came to it before.

        Args:
            registry_id: Only those of this id; the others are not read.
        """
        shards = self._open_shards().values()
        return in_order_of_all(one.schemas(registry_id) for one in shards)

    def parts(self) -> list[Part]:
        """Return the parts of the open shards: the files of Parquet that have their sealed rows."""
        found = []
        for number, shard in self._open_shards().items():
            directory = parts_directory(self._files.shard_directory(number))
            entries = shard.parts().entries
            found += [Part(number, part_path(directory, one), one) for one in entries]
        return found

    def unsealed(self) -> dict[int, int]:
        """Return how many committed addresses of each open shard are in no part yet."""
        return {number: facts.unsealed for number, facts in self._facts().items()}

    def untrimmed(self) -> dict[int, int]:
        """Return how many addresses of each open shard are in parts and in blocks too."""
        return {number: facts.untrimmed for number, facts in self._facts().items()}

    def stats(self, shard: int | None = None) -> StreamStats:
        """Return what one open shard has counted, or all of them.

        They count what is written, so batches that are not committed yet may be among it.
        """
        asked = self._open_shards().values() if shard is None else [self._shard(shard)]
        facts = [one.state() for one in asked]
        least = IndexCounts(spacing=self.options.index.spacing_min)
        return stats_of(
            (one.counters, one.index.plus(least), one.dead_letters_dropped) for one in facts
        )

    def read(  # noqa: PLR0913 - the contract's signature
        self,
        ids: Ids = None,
        start: int | None = None,
        end: int | None = None,
        limit: int = 0,
        *,
        keys: Keys = None,
        versions: Iterable[int] | None = None,
        latest_by: LatestBy | None = None,
        tombstones: bool = False,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Return rows by (secondary, primary, shard, address), late ones in their place.

        Args:
            ids: One secondary, several, or None for all. One without rows is no error.
            start: Least primary, inclusive; None for no bound.
            end: Largest primary, inclusive; None for no bound.
            limit: Most rows an id, 0 for all.
            keys: In the place of `ids` on a stream with a key dictionary: one key, several (None
                is that of rows without one), or None for all. Rows are by key then, show it as
                column `key`, and have no secondary.
            versions: Only these versions.
            latest_by: `primary`: of rows of one id (or key) and primary only the newest, whole;
                `key`: of rows of one id and column `key` only the one with the largest primary, of
                these the newest. Equals are told as by `latest`. The limit, but no other condition,
                is of what is left.
            tombstones: With `latest_by`: also show tombstones that are the newest. Without it they
                are rows like others.
            columns: Columns wanted, in this order.

        Example:
            >>> stream.read(ids=7, columns=["primary", "payload"]).to_pylist()
            [{'primary': 1700000000000, 'payload': b'begin'}]
        """
        request = self._of(
            keys,
            request_of("primary", ids, start, end, limit, versions, columns),
            latest_by=latest_by,
            tombstones=tombstones,
        )
        with self._reading():
            return self._table(request)

    def scan(  # noqa: PLR0913 - a range of ids or keys, and what of it
        self,
        ids: Ids = None,
        start: int | None = None,
        end: int | None = None,
        *,
        keys: Keys = None,
        versions: Iterable[int] | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `read` in order of arrival, shard by shard, in bounded memory."""
        request = self._of(keys, request_of("arrival", ids, start, end, 0, versions, columns))
        return self._while_reading(self._scan_each(self._open_shards(), request))

    def tail(  # noqa: PLR0913 - a range of addresses, and what of it
        self,
        shard: int,
        start_address: int | None = None,
        end_address: int | None = None,
        ids: Ids = None,
        columns: Sequence[str] | None = None,
        *,
        keys: Keys = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield a shard's rows by address with their state: an exact replay.

        Rows at or above committed are not there yet; compare with `committed`.

        Raises:
            LostRangeError: Addresses below the log's start, or lost.
        """
        reader = self._shard(integer("shard", shard))
        request = replace(
            self._of(keys, request_of("replay", ids, None, None, 0, None, columns)),
            shard=shard,
            start_address=start_address,
            end_address=end_address,
        )
        return self._while_reading(reader.scan(request))

    def for_each(
        self,
        ids: Ids = None,
        start: int | None = None,
        end: int | None = None,
        fn: Callable[[Record], object] | None = None,
        *,
        keys: Keys = None,
    ) -> None:
        """Call `fn` on each record, id by id or key by key, each by (primary, shard, address).

        It works through the range in slices of bounded memory, and stops once `fn` returns
        True.
        """
        if fn is None:
            message = "for_each needs a function to call: fn"
            raise InvalidRequestError(message)
        request = self._of(keys, request_of("time", ids, start, end, 0, None, None))
        with self._reading():
            readers = self._open_shards()
            for asked in self._one_by_one(replace(request, columns=self._record_columns)):
                each = (_records(self._scan_each({n: r}, asked)) for n, r in readers.items())
                for record in merge(*each, key=lambda one: (one.primary, one.shard, one.address)):
                    if fn(record) is True:
                        return

    def latest(self, ids: Ids = None, *, keys: Keys = None) -> dict[Id, Record]:
        """Return the record with the largest primary of each id or key, of equals the last stored.

        Ahead records count. An id or key without records is absent from what is returned. Of equals
        in several shards the one wins whose block was written later by the writers' clocks, then
        that of the larger shard.

        Example:
            >>> stream.latest([7, 8])[7].payload
            b'begin'
        """
        columns = (*self._record_columns, "committed_at_ms")
        newest: dict[Id, Record] = {}
        committed_at: dict[Id, int] = {}
        has_keys = self._has_keys
        request = self._of(keys, request_of("newest", ids, None, None, 1, None, columns))
        with self._reading():
            batches = self._gather(request)
        for batch in batches:
            times = batch.column("committed_at_ms").to_numpy().tolist()
            for record, at in zip(_records(iter([batch])), times, strict=True):
                one = record.key if has_keys else record.secondary
                known = newest.get(one)
                if known is not None:
                    rank = (record.primary, at, record.shard)
                    if rank <= (known.primary, committed_at[one], known.shard):
                        continue
                newest[one], committed_at[one] = record, at
        return newest

    def earliest(
        self, ids: Ids = None, from_: int | None = None, *, keys: Keys = None
    ) -> int | None:
        """Return the least primary of these ids or keys that is not below `from_`, or None."""
        request = self._of(keys, request_of("time", ids, from_, None, 0, None, ("primary",)))
        found = []
        with self._reading():
            for number, reader in self._open_shards().items():
                for batch in self._scan_each({number: reader}, request):
                    found.append(int(batch.column(0)[0].as_py()))
                    break
        return min(found, default=None)

    def available(
        self,
        ids: Ids = None,
        from_: int | None = None,
        width: int = 0,
        limit: int = 0,
        *,
        keys: Keys = None,
    ) -> tuple[int | None, pa.Table]:
        """Return first + width and the rows from the first primary to there.

        The first is `earliest(ids, from_)`; without one, None and no rows.
        """
        if type(width) is not int or width < 0:
            message = f"width {width!r} is not an integer from 0 on"
            raise InvalidRequestError(message)
        asked = self._of(keys, request_of("time", ids, from_, None, limit, None, None))
        first = self.earliest(ids, from_, keys=asked.keys)
        if first is None:
            return None, read_schema(own_columns(self._files.meta, asked)).empty_table()
        last = saturating_add(first, width)
        return last, self.read(ids, first, last, limit, keys=asked.keys)

    @property
    def _has_keys(self) -> bool:
        return self._files.meta.has_keys

    @property
    def _key_column(self) -> tuple[str, ...]:
        return ("key",) if self._has_keys else ()

    @property
    def _record_columns(self) -> tuple[str, ...]:
        return (*READ_COLUMNS, *self._key_column)

    def _of(
        self,
        keys: Keys,
        request: ReadRequest,
        *,
        latest_by: LatestBy | None = None,
        tombstones: bool = False,
    ) -> ReadRequest:
        """Return a request for keys too, if it fits the stream, of as much as a read may hold."""
        asked = replace(
            request,
            keys=checked_keys(keys),
            latest_by=latest_by,
            tombstones=tombstones,
            bytes_max=self.options.read_bytes_max,
        )
        refuse_unfit(self._files.meta, asked)
        return asked

    def _reading(self) -> Read:
        """Begin a read, perhaps behind others."""
        self._refuse_if_closed()
        gate = self._gate = self._gate.under(self.options)
        return gate.enter()

    def _while_reading(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches as one read, which begins with the first and ends with the iterator."""
        with self._reading():
            yield from batches

    def _table(self, request: ReadRequest) -> pa.Table:
        """Return the rows of all shards in order."""
        wanted, limit = own_columns(self._files.meta, request), request.limit
        batches = self._gather_winners(request, (*wanted, *self._key_column, *_READ_ORDER))
        if not batches:
            return read_schema(wanted).empty_table()
        if self._has_keys:
            rows = in_order([ranked(joined(batches))], _READ_ORDER, wanted, limit)
            return pa.Table.from_batches([unnumbered(rows)])
        # What one shard answers is in order.
        is_in_order = len(batches) == 1 and request.latest_by is None
        order = () if is_in_order else _READ_ORDER
        return pa.Table.from_batches([in_order(batches, order, wanted, limit)])

    def _one_by_one(self, request: ReadRequest) -> Iterator[ReadRequest]:
        """Yield a request for each id or key that is asked for, in their order."""
        if self._has_keys:
            asked = request.keys
            keys = self._each_of("key") if asked is None else sorted(set(asked), key=_of_null_first)
            for key in keys:
                yield replace(request, keys=(key,))
        else:
            ids = self._each_of("secondary") if request.ids is None else sorted(set(request.ids))
            for secondary in ids:
                yield replace(request, ids=(secondary,))

    def _each_of(self, column: str) -> Iterator[Any]:
        """Yield the ids or keys that rows have, in order."""
        return distinct_in_order(batch.column(0) for batch in self.scan(columns=(column,)))

    def _gather(self, request: ReadRequest) -> list[pa.RecordBatch]:
        """Return every shard's batches in any order, shards read beside each other."""
        readers = self._open_shards()
        asked = [(reader, replace(request, shard=number)) for number, reader in readers.items()]
        held = Gathered(request.bytes_max)
        lock = threading.Lock()

        def answered(one: tuple[ShardReader, ReadRequest]) -> None:
            for batch in one[0].scan(one[1]):
                with lock:
                    held.add(batch)

        named = request.ids if request.keys is None else request.keys
        if named is not None and len(named) <= _IDS_IN_TURN_MAX:
            # An id lies in one shard as a rule; the others answer faster than a thread wakes.
            for one in asked:
                answered(one)
        else:
            self._threads.map(answered, asked)
        return held.batches

    def _gather_winners(self, request: ReadRequest, columns: Sequence[str]) -> list[pa.RecordBatch]:
        """Return every shard's batches, of rows that compete with another shard's the winners."""
        by, has_keys = request.latest_by, self._has_keys
        if by is None or len(self._open_shards()) == 1:
            return self._gather(replace(request, columns=tuple(dict.fromkeys(columns))))
        columns = (*columns, *columns_over_shards(request, by, has_keys=has_keys))
        request = replace(request, columns=tuple(dict.fromkeys(columns)))
        return newest_over_shards(self._gather, request, by, has_keys=has_keys)

    def _facts(self) -> dict[int, ShardFacts]:
        return {number: shard.state() for number, shard in self._open_shards().items()}

    def _open_shards(self) -> Mapping[int, S]:
        self._refuse_if_closed()
        return self._shards

    def _shard(self, number: int) -> S:
        shard = self._open_shards().get(number)
        if shard is None:
            message = self._HAS_NO_SHARD.format(number, sorted(self._shards))
            raise InvalidRequestError(message, stream=self._files.meta.name)
        return shard

    def _refuse_if_closed(self) -> None:
        self._home.refuse_elsewhere()
        if self._is_closed:
            raise ClosedError(self._IS_CLOSED, stream=self._files.meta.name)

    @staticmethod
    def _scan_each(
        readers: Mapping[int, ShardReader], request: ReadRequest
    ) -> Iterator[pa.RecordBatch]:
        for number, reader in readers.items():
            yield from reader.scan(replace(request, shard=number))


def _of_null_first(key: bytes | None) -> tuple[bool, bytes]:
    return key is not None, key or b""


def _records(batches: Iterator[pa.RecordBatch]) -> Iterator[Record]:
    for batch in batches:
        there = batch.schema.names
        for at in range(0, batch.num_rows, _RECORDS_AT_ONCE):
            some = batch.slice(at, _RECORDS_AT_ONCE)
            # By columns: a mapping for each row would take as long as all else.
            yield from map(
                Record,
                *(
                    some.column(name).to_pylist() if name in there else repeat(None, len(some))
                    for name in _RECORD_FIELDS
                ),
            )

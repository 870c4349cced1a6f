"""The rows of a stream, the same to a writer and to a reader in another process.

Each way to read builds one `ReadRequest` a shard and passes it to that shard's `ShardReader`;
nothing here knows how a shard answers.
"""

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from copy import copy
from dataclasses import fields, replace
from heapq import merge
from itertools import repeat
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa

from storage_core.errors import InvalidRequestError
from storage_core.format.keys import INT64_MAX, saturating_add
from storage_core.format.record import Record
from storage_core.format.row_columns import READ_COLUMNS, schema_of
from storage_core.open_shards import OpenShards
from storage_core.read.distinct import distinct_in_order
from storage_core.read.keyed import ranked, unnumbered
from storage_core.read.over_shards import (
    columns_over_shards,
    newest_of_each,
    newest_over_shards,
)
from storage_core.read.read_slots import Read, ReadSlots
from storage_core.read.request import (
    Ids,
    Keys,
    LatestBy,
    ReadRequest,
    checked_keys,
    integer,
    own_columns,
    refuse_unfit,
    request_of,
)
from storage_core.read.rows import Collected, in_order, joined
from storage_core.read.shard_reader import ShardReader

# An id, or a key: `latest` returns one record of each.
Id = int | bytes | None
S = TypeVar("S", bound=ShardReader)

_IDS_IN_TURN_MAX: Final = 16
_RECORD_FIELDS: Final = tuple(field.name for field in fields(Record))
# So many are made at once: whoever stops at the first waits for no more.
_RECORDS_AT_ONCE: Final = 1024
_READ_ORDER: Final = ("secondary", "primary", "shard", "address")


class StreamRows(Generic[S]):
    """The rows of a stream, to its writer and to any reader. Any thread may call it."""

    def __init__(self, shards: OpenShards[S], read_bytes_max: int | None = None) -> None:
        """Read these shards; a read gathers so many bytes at most, if the stream allows more."""
        self._shards = shards
        self._read_bytes_max = INT64_MAX if read_bytes_max is None else read_bytes_max
        self._slots = ReadSlots(shards.meta.name, shards.options)
        self._has_keys = shards.meta.has_keys
        self._key_column = ("key",) if self._has_keys else ()
        self._record_columns = (*READ_COLUMNS, *self._key_column)

    @property
    def shards(self) -> OpenShards[S]:
        """The shards that are read."""
        return self._shards

    def within(self, bytes_max: int) -> "StreamRows[S]":
        """Return the same rows, of which one read gathers no more than so many bytes."""
        rows = copy(self)
        rows._read_bytes_max = min(bytes_max, self._read_bytes_max)  # noqa: SLF001 - its own
        return rows

    def bounded(self, request: ReadRequest) -> ReadRequest:
        """Return a request for no more bytes than a read may gather here."""
        most = min(self._shards.options.read_bytes_max, self._read_bytes_max)
        bytes_max = min(request.bytes_max, most) if request.bytes_max else most
        return replace(request, bytes_max=bytes_max)

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
                these the newest. Equals are decided as by `latest`. The limit, but no other
                condition, is of what is left.
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
        return self._while_reading(self._scan_each(self._shards.opened(), request))

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
        return self._replay(shard, (start_address, end_address), ids, columns, keys)

    def stored(  # noqa: PLR0913 - as `tail` has it
        self,
        shard: int,
        start_address: int,
        end_address: int,
        ids: Ids = None,
        columns: Sequence[str] | None = None,
        *,
        keys: Keys = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `scan` that a shard has of some addresses."""
        reader = self._shards.shard(integer("shard", shard))
        request = replace(
            self._of(keys, request_of("arrival", ids, None, None, 0, None, columns)),
            shard=shard,
            start_address=start_address,
            end_address=end_address,
        )
        return self._while_reading(reader.scan(request))

    def unexpired(  # noqa: PLR0913 - as `tail` has it
        self,
        shard: int,
        start_address: int,
        end_address: int,
        ids: Ids = None,
        columns: Sequence[str] | None = None,
        *,
        keys: Keys = None,
        expired_until: int = INT64_MAX,
    ) -> Iterator[pa.RecordBatch]:
        """Yield what `tail` does, without blocks that expired behind one that has not.

        `expired_until` is a generation of the shard: what expired later is still refused.
        """
        places = (start_address, end_address)
        return self._replay(shard, places, ids, columns, keys, expired_until)

    def _replay(  # noqa: PLR0913 - a range of addresses, and what of it
        self,
        shard: int,
        places: tuple[int | None, int | None],
        ids: Ids,
        columns: Sequence[str] | None,
        keys: Keys,
        expired_until: int = 0,
    ) -> Iterator[pa.RecordBatch]:
        reader = self._shards.shard(integer("shard", shard))
        request = replace(
            self._of(keys, request_of("replay", ids, None, None, 0, None, columns)),
            shard=shard,
            start_address=places[0],
            end_address=places[1],
            expired_until=expired_until,
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
        with closing(self.records(ids, start, end, keys=keys)) as records:
            for record in records:
                if fn(record) is True:
                    return

    def records(
        self,
        ids: Ids = None,
        start: int | None = None,
        end: int | None = None,
        *,
        keys: Keys = None,
    ) -> Generator[Record, None, None]:
        """Yield what `for_each` calls its function on."""
        request = self._of(keys, request_of("time", ids, start, end, 0, None, None))
        return self._records_of(replace(request, columns=self._record_columns))

    def _records_of(self, request: ReadRequest) -> Generator[Record, None, None]:
        with self._reading():
            readers = self._shards.opened()
            for of_id in self._one_by_one(request):
                records = (_records(self._scan_each({n: r}, of_id)) for n, r in readers.items())
                yield from merge(*records, key=_by_time)

    def latest(self, ids: Ids = None, *, keys: Keys = None) -> dict[Id, Record]:
        """Return the record with the largest primary of each id or key, of equals the last stored.

        Future-dated records count. An id or key without records is absent from what is returned.
        Of equals in several shards the newest is that of the block written later by the writers'
        clocks, then that of the larger shard.

        Example:
            >>> stream.latest([7, 8])[7].payload
            b'begin'
        """
        identity = "key" if self._has_keys else "secondary"
        newest = self.newest(ids, keys=keys)
        return {getattr(record, identity): record for record in _records(iter([newest]))}

    def newest(self, ids: Ids = None, *, keys: Keys = None) -> pa.RecordBatch:
        """Return the rows of `latest` as columns, in any order."""
        columns = (*self._record_columns, "committed_at_ms")
        request = self._of(keys, request_of("newest", ids, None, None, 0, None, columns))
        with self._reading():
            batches = self._gather(request)
        rows = newest_of_each(batches, has_keys=self._has_keys)
        return pa.RecordBatch.from_pylist([], schema_of(columns)) if rows is None else rows

    def earliest(
        self, ids: Ids = None, from_: int | None = None, *, keys: Keys = None
    ) -> int | None:
        """Return the least primary of these ids or keys that is not below `from_`, or None."""
        request = self._of(keys, request_of("time", ids, from_, None, 0, None, ("primary",)))
        least = []
        with self._reading():
            for number, reader in self._shards.opened().items():
                for batch in self._scan_each({number: reader}, request):
                    least.append(int(batch.column(0)[0].as_py()))
                    break
        return min(least, default=None)

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
        request = self._of(keys, request_of("primary", ids, from_, None, limit, None, None))
        first = self.earliest(ids, from_, keys=request.keys)
        if first is None:
            return None, schema_of(own_columns(self._shards.meta, request)).empty_table()
        last = saturating_add(first, width)
        return last, self.read(ids, first, last, limit, keys=request.keys)

    def _of(
        self,
        keys: Keys,
        request: ReadRequest,
        *,
        latest_by: LatestBy | None = None,
        tombstones: bool = False,
    ) -> ReadRequest:
        """Return a request for keys too, if it fits the stream, of as much as a read may hold."""
        request = self.bounded(
            replace(request, keys=checked_keys(keys), latest_by=latest_by, tombstones=tombstones)
        )
        refuse_unfit(self._shards.meta, request)
        return request

    def _reading(self) -> Read:
        """Begin a read, perhaps behind others."""
        self._shards.refuse_if_closed()
        slots = self._slots = self._slots.under(self._shards.options)
        return slots.enter()

    def _while_reading(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches as one read, which begins with the first and ends with the iterator."""
        with self._reading():
            yield from batches

    def _table(self, request: ReadRequest) -> pa.Table:
        """Return the rows of all shards in order."""
        columns, limit = own_columns(self._shards.meta, request), request.limit
        batches = self._gather_newest(request, (*columns, *self._key_column, *_READ_ORDER))
        if not batches:
            return schema_of(columns).empty_table()
        if self._has_keys:
            rows = in_order([ranked(joined(batches))], _READ_ORDER, columns, limit)
            return pa.Table.from_batches([unnumbered(rows)])
        # What one shard answers is in order.
        is_in_order = len(batches) == 1 and request.latest_by is None
        order = () if is_in_order else _READ_ORDER
        return pa.Table.from_batches([in_order(batches, order, columns, limit)])

    def _one_by_one(self, request: ReadRequest) -> Iterator[ReadRequest]:
        """Yield a request for each id or key that is asked for, in their order."""
        if self._has_keys:
            wanted = request.keys
            keys = self._each_of("key") if wanted is None else sorted({*wanted}, key=_null_first)
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
        collected, lock = Collected(request.bytes_max), threading.Lock()

        def scan(shard: tuple[int, ShardReader]) -> None:
            for batch in shard[1].scan(replace(request, shard=shard[0])):
                with lock:
                    collected.add(batch)

        readers = list(self._shards.opened().items())
        identities = request.ids if request.keys is None else request.keys
        if identities is not None and len(identities) <= _IDS_IN_TURN_MAX:
            # An id lies in one shard as a rule; the others answer faster than a thread wakes.
            for shard in readers:
                scan(shard)
        else:
            self._shards.threads.map(scan, readers)
        return collected.batches

    def _gather_newest(self, request: ReadRequest, columns: Sequence[str]) -> list[pa.RecordBatch]:
        """Return every shard's batches; with `latest_by`, the newest versions of all shards."""
        by, has_keys = request.latest_by, self._has_keys
        if by is None or len(self._shards.opened()) == 1:
            return self._gather(replace(request, columns=tuple(dict.fromkeys(columns))))
        columns = (*columns, *columns_over_shards(request, by, has_keys=has_keys))
        request = replace(request, columns=tuple(dict.fromkeys(columns)))
        return newest_over_shards(self._gather, request, by, has_keys=has_keys)

    @staticmethod
    def _scan_each(
        readers: Mapping[int, ShardReader], request: ReadRequest
    ) -> Iterator[pa.RecordBatch]:
        for number, reader in readers.items():
            yield from reader.scan(replace(request, shard=number))


def _null_first(key: bytes | None) -> tuple[bool, bytes]:
    return key is not None, key or b""


def _by_time(record: Record) -> tuple[int, int, int]:
    return record.primary, record.shard, record.address


def _records(batches: Iterator[pa.RecordBatch]) -> Iterator[Record]:
    for batch in batches:
        names = batch.schema.names
        for first in range(0, batch.num_rows, _RECORDS_AT_ONCE):
            rows = batch.slice(first, _RECORDS_AT_ONCE)
            # By columns: a mapping for each row would take as long as all else.
            yield from map(
                Record,
                *(
                    rows.column(name).to_pylist() if name in names else repeat(None, len(rows))
                    for name in _RECORD_FIELDS
                ),
            )

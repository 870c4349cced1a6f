"""Every way to read a stream, the same on a writer and on a reader in another process.

Each method builds one `ReadRequest` a shard and passes it to that shard's `ShardReader`;
nothing here knows how a shard answers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import merge
from operator import index
from typing import Final

import pyarrow as pa

from storage_core.errors import InvalidRequestError
from storage_core.format.keys import INT64_MAX, INT64_MIN, saturating_add
from storage_core.format.record import Record
from storage_core.ground.parallel import Threads
from storage_core.read.columns import READ_COLUMNS
from storage_core.read.request import Order, ReadRequest, ShardReader
from storage_core.read.scan import concat_batches, empty_rows, limit_rows, sort_rows

Ids = int | Iterable[int] | None

_THREADS_MAX: Final = 8
_IDS_IN_TURN_MAX: Final = 16
_READ_ORDER: Final = ("secondary", "primary", "shard", "address")


class StreamReads:
    """The read calls of a stream. Any thread may call them."""

    def __init__(self, shard_readers: Callable[[], Mapping[int, ShardReader]]) -> None:
        """Read through what is returned for each shard; it raises once the stream is closed."""
        self._shard_readers = shard_readers
        self._threads = Threads(_THREADS_MAX)

    def read(  # noqa: PLR0913 - the contract's signature
        self,
        ids: Ids = None,
        start: int | None = None,
        end: int | None = None,
        limit: int = 0,
        *,
        keys: Sequence[bytes | None] | None = None,
        versions: Iterable[int] | None = None,
        latest_by: str | None = None,
        tombstones: bool = False,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Return rows by (secondary, primary, shard, address), late ones in their place.

        Args:
            ids: One secondary, several, or None for all. One without rows is no error.
            start: Least primary, inclusive; None for no bound.
            end: Largest primary, inclusive; None for no bound.
            limit: Most rows an id, 0 for all.
            keys: For streams with a key dictionary, which this one is not.
            versions: Only these versions.
            latest_by: Not supported by this version.
            tombstones: Goes with `latest_by`; without it tombstones are rows like others.
            columns: Columns wanted, in this order.
        """
        _refuse_unsupported(keys, latest_by, tombstones=tombstones)
        request = _request("primary", ids, start, end, limit, versions, columns)
        wanted = READ_COLUMNS if request.columns is None else request.columns
        sorting = tuple(dict.fromkeys((*wanted, *_READ_ORDER)))
        batches = self._gather(replace(request, columns=sorting))
        if not batches:
            return empty_rows(wanted)
        rows = concat_batches(batches)
        if len(batches) > 1:
            rows = limit_rows(sort_rows(rows, _READ_ORDER), limit)
        return pa.Table.from_batches([rows.select(list(wanted))])

    def scan(
        self,
        ids: Ids = None,
        start: int | None = None,
        end: int | None = None,
        *,
        versions: Iterable[int] | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `read` in order of arrival, shard by shard, in bounded memory."""
        request = _request("arrival", ids, start, end, 0, versions, columns)
        return self._scan_each(self._shard_readers(), request)

    def tail(
        self,
        shard: int,
        start_address: int | None = None,
        end_address: int | None = None,
        ids: Ids = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield a shard's rows by address with their state: an exact replay.

        Rows at or above committed are not there yet; compare with `committed`.

        Raises:
            LostRangeError: Addresses below the log's start, or lost.
        """
        readers = self._shard_readers()
        shard = _integer("shard", shard)
        if shard not in readers:
            message = f"shard {shard} is not open here; open are {sorted(readers)}"
            raise InvalidRequestError(message)
        request = replace(
            _request("replay", ids, None, None, 0, None, columns),
            shard=shard,
            start_address=start_address,
            end_address=end_address,
        )
        return readers[shard].scan(request)

    def for_each(
        self, ids: Ids, start: int | None, end: int | None, fn: Callable[[Record], object]
    ) -> None:
        """Call `fn` on each record, id by id, each by (primary, shard, address).

        It works through the range in slices of bounded memory, and stops once `fn` returns
        True.
        """
        request = _request("time", ids, start, end, 0, None, READ_COLUMNS)
        readers = self._shard_readers()
        wanted = request.ids if request.ids is not None else self._all_ids()
        for secondary in sorted(wanted):
            asked = replace(request, ids=(secondary,))
            each = (_records(self._scan_each({n: r}, asked)) for n, r in readers.items())
            for record in merge(*each, key=lambda one: (one.primary, one.shard, one.address)):
                if fn(record) is True:
                    return

    def latest(self, ids: Ids = None) -> dict[int, Record]:
        """Return the record with the largest primary of each id, of equals the last stored.

        Ahead records count. An id without records is an absent key.
        """
        columns = (*READ_COLUMNS, "committed_at_ms")
        newest: dict[int, tuple[tuple[int, int, int], Record]] = {}
        for batch in self._gather(_request("newest", ids, None, None, 1, None, columns)):
            committed_at = batch.column("committed_at_ms").to_numpy().tolist()
            for record, at in zip(_records(iter([batch])), committed_at, strict=True):
                rank = (record.primary, at, record.shard)
                known = newest.get(record.secondary)
                if known is None or known[0] < rank:
                    newest[record.secondary] = rank, record
        return {secondary: record for secondary, (_, record) in newest.items()}

    def earliest(self, ids: Ids, from_: int) -> int | None:
        """Return the least primary of these ids that is not below `from_`, or None."""
        request = _request("time", ids, from_, None, 0, None, ("primary",))
        found = []
        for number, reader in self._shard_readers().items():
            for batch in self._scan_each({number: reader}, request):
                found.append(int(batch.column(0)[0].as_py()))
                break
        return min(found, default=None)

    def available(
        self, ids: Ids, from_: int, width: int, limit: int = 0
    ) -> tuple[int | None, pa.Table]:
        """Return first + width and the rows from the first primary to there.

        The first is `earliest(ids, from_)`; without one, None and no rows.
        """
        if type(width) is not int or width < 0:
            message = f"width {width!r} is not an integer from 0 on"
            raise InvalidRequestError(message)
        _request("time", ids, from_, None, limit, None, None)
        first = self.earliest(ids, from_)
        if first is None:
            return None, empty_rows(READ_COLUMNS)
        last = saturating_add(first, width)
        return last, self.read(ids, first, last, limit)

    def _gather(self, request: ReadRequest) -> list[pa.RecordBatch]:
        """Return every shard's batches, shards read beside each other."""
        readers = self._shard_readers()
        asked = [(reader, replace(request, shard=number)) for number, reader in readers.items()]
        if request.ids is not None and len(request.ids) <= _IDS_IN_TURN_MAX:
            # An id lies in one shard as a rule; the others answer faster than a thread wakes.
            return [batch for reader, one in asked for batch in reader.scan(one)]
        parts = self._threads.each(lambda one: list(one[0].scan(one[1])), asked)
        return [batch for part in parts for batch in part]

    def _all_ids(self) -> set[int]:
        ids: set[int] = set()
        for batch in self.scan(columns=("secondary",)):
            ids.update(batch.column(0).unique().to_numpy().tolist())
        return ids

    @staticmethod
    def _scan_each(
        readers: Mapping[int, ShardReader], request: ReadRequest
    ) -> Iterator[pa.RecordBatch]:
        for number, reader in readers.items():
            yield from reader.scan(replace(request, shard=number))


def _records(batches: Iterator[pa.RecordBatch]) -> Iterator[Record]:
    for batch in batches:
        for row in batch.select(list(READ_COLUMNS)).to_pylist():
            yield Record(**row)


def _request(  # noqa: PLR0913 - a request's parts
    order: Order,
    ids: Ids,
    start: int | None,
    end: int | None,
    limit: int,
    versions: Iterable[int] | None,
    columns: Sequence[str] | None,
) -> ReadRequest:
    return ReadRequest(
        0,
        start=INT64_MIN if start is None else _integer("start", start),
        end=INT64_MAX if end is None else _integer("end", end),
        ids=None if ids is None else _integers("ids", ids),
        versions=None if versions is None else _integers("versions", versions),
        columns=None if columns is None else _names(columns),
        order=order,
        limit=_integer("limit", limit),
    )


def _names(columns: Iterable[str]) -> tuple[str, ...]:
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        message = f"columns are a list of names, not {columns!r}"
        raise InvalidRequestError(message)
    return tuple(columns)


def _integers(name: str, values: int | Iterable[int]) -> tuple[int, ...]:
    if isinstance(values, Iterable):
        return tuple(sorted({_integer(name, value) for value in values}))
    return (_integer(name, values),)


def _integer(name: str, value: object) -> int:
    try:
        return index(value)  # type: ignore[arg-type]  # refused below
    except TypeError as error:
        message = f"{name}: {value!r} is not an integer"
        raise InvalidRequestError(message) from error


def _refuse_unsupported(
    keys: Sequence[bytes | None] | None, latest_by: str | None, *, tombstones: bool
) -> None:
    if keys is not None:
        message = "this stream has no key dictionary; read by ids"
        raise InvalidRequestError(message)
    if latest_by is not None or tombstones:
        message = "latest_by and tombstones are not supported by this version"
        raise InvalidRequestError(message)

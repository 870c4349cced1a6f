"""A stream read from a server: a `StreamReader` whose shards are asked over HTTP.

`StreamReader.open("shardlog://a:8085", name)` makes one (owners_reader.py). Its names, results and
errors are those of a reader by path; what is a call of the protocol is one call here, whatever the
number of shards. `refresh` takes in shards and options as there. Rows come as they are read, so
memory is bounded as there. An answer that is cut is never fewer rows: those by address go on behind
the last (remote/resumed_rows.py), others are asked for anew or are an error.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import repeat
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from storage_core.catalog.stream_file import StreamFiles
from storage_core.catalog.stream_meta import StreamMeta, StreamSettings
from storage_core.errors import InvalidRequestError
from storage_core.format.counters import StreamStats
from storage_core.format.keys import INT64_MAX, INT64_MIN
from storage_core.format.record import Record
from storage_core.format.schema_entry import SchemaEntry
from storage_core.open_shards import OpenShards
from storage_core.parts.snapshot import Part
from storage_core.platform.clock import Clock
from storage_core.protocol import StreamFacts
from storage_core.protocol.calls import WAIT_S_MAX
from storage_core.read.request import (
    Ids,
    Keys,
    LatestBy,
    Order,
    ReadRequest,
    checked_keys,
    integer,
    refuse_unfit,
    request_of,
)
from storage_core.reader import StreamReader
from storage_core.remote.resumed_rows import resumed_rows, resumed_scan
from storage_core.remote.shard import RemoteShard
from storage_core.remote.stream_client import StreamClient
from storage_core.rows import Id

_RECORD_FIELDS: Final = tuple(field.name for field in fields(Record))


class RemoteReader(StreamReader):
    """Reads all shards of a stream from a server. Any thread may call it. A context manager."""

    def __init__(
        self,
        client: StreamClient,
        facts: StreamFacts,
        clock: Clock,
        read_bytes_max: int | None = None,
    ) -> None:
        """Take over a client; use `open_by_servers`."""
        self._client = client
        shards = {number: RemoteShard(client, number) for number in sorted(facts.lineages)}
        super().__init__(OpenShards(files_of(facts), shards, "reader"), clock, read_bytes_max)
        self._archived = facts.archived
        client.gather(read_bytes_max or 0)
        client.check_first(self._open.refuse_if_closed)

    def __repr__(self) -> str:
        """Return where the stream is read, without any token."""
        return f"<RemoteReader of {self._open.meta.name!r} at {self._client.addresses}>"

    @property
    def root_id(self) -> str:
        """The id of the root that the server is over."""
        return self._client.root

    # --- rows ----------------------------------------------------------------------------------

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
        """Return rows by (secondary, primary, shard, address), late ones in their place."""
        request = replace(
            self._request("primary", ids, start, end, limit, keys, versions, columns),
            latest_by=latest_by,
            tombstones=tombstones,
        )
        table, _ = self._client.table("read", _values(request))
        return table

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
        request = self._request("arrival", ids, start, end, 0, keys, versions, columns)
        return resumed_scan(self._client, _values(request), lambda: list(self._open.by_number))

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
        """Yield a shard's rows by address with their state: an exact replay."""
        number = integer("shard", shard)
        self._open.shard(number)
        request = replace(
            self._request("replay", ids, None, None, 0, keys, None, columns),
            shard=number,
            start_address=start_address,
            end_address=end_address,
        )
        places = {"start_address": start_address, "end_address": end_address}
        values = {"shard": number, **places, **_values(request)}
        return resumed_rows(self._client, "tail", values)

    def for_each(
        self,
        ids: Ids = None,
        start: int | None = None,
        end: int | None = None,
        fn: Callable[[Record], object] | None = None,
        *,
        keys: Keys = None,
    ) -> None:
        """Call `fn` on each record, id by id or key by key, each by (primary, shard, address)."""
        if fn is None:
            message = "for_each needs a function to call: fn"
            raise InvalidRequestError(message)
        request = self._request("time", ids, start, end, 0, keys, None, None)
        for batch in self._client.batches("records", _values(request)):
            for record in _records(batch):
                if fn(record) is True:
                    return

    def latest(self, ids: Ids = None, *, keys: Keys = None) -> dict[Id, Record]:
        """Return the record with the largest primary of each id or key."""
        request = self._request("newest", ids, None, None, 0, keys, None, None)
        table, _ = self._client.table("latest", _values(request))
        records = [record for batch in table.to_batches() for record in _records(batch)]
        if self._open.meta.has_keys:
            return {record.key: record for record in records}
        return {record.secondary: record for record in records}

    def earliest(
        self, ids: Ids = None, from_: int | None = None, *, keys: Keys = None
    ) -> int | None:
        """Return the least primary of these ids or keys that is not below `from_`, or None."""
        request = self._request("time", ids, from_, None, 0, keys, None, None)
        values = _values(request)
        primary: int | None = self._client.result(
            "earliest",
            ids=values.get("ids"),
            keys=values.get("keys"),
            from_=values.get("start"),
        )
        return primary

    def available(
        self,
        ids: Ids = None,
        from_: int | None = None,
        width: int = 0,
        limit: int = 0,
        *,
        keys: Keys = None,
    ) -> tuple[int | None, pa.Table]:
        """Return first + width and the rows from the first primary to there."""
        if type(width) is not int or width < 0:
            message = f"width {width!r} is not an integer from 0 on"
            raise InvalidRequestError(message)
        values = _values(self._request("primary", ids, from_, None, limit, keys, None, None))
        values["from_"] = values.pop("start", None)
        table, last = self._client.table("available", {**values, "width": min(width, INT64_MAX)})
        return last, table

    # --- what shards report --------------------------------------------------------------------

    def committed(self) -> dict[int, int]:
        """Return each open shard's committed."""
        return self._of_open(self._client.result("committed"))

    def lost_ranges(self) -> dict[int, list[tuple[int, int]]]:
        """Return each open shard's lost ranges as (start, end)."""
        return self._of_open(self._client.result("lost_ranges"))

    def gaps(self) -> dict[int, list[tuple[int, int]]]:
        """Return each open shard's committed ranges that `skip` left out, as (start, end)."""
        return self._of_open(self._client.result("gaps"))

    def schemas(self, registry_id: int | None = None) -> list[SchemaEntry]:
        """Return the schemas of which the open shards have, or had, rows; each once."""
        schemas: list[SchemaEntry] = self._client.result("schemas", registry_id=registry_id)
        return schemas

    def parts(self) -> list[Part]:
        """Return the parts of the open shards; their paths are the server's."""
        parts: list[Part] = self._client.result("parts")
        return parts

    def unsealed(self) -> dict[int, int]:
        """Return how many committed addresses of each open shard are in no part yet."""
        return self._of_open(self._client.result("unsealed"))

    def untrimmed(self) -> dict[int, int]:
        """Return how many addresses of each open shard are in parts and in blocks too."""
        return self._of_open(self._client.result("untrimmed"))

    def stats(self, shard: int | None = None) -> StreamStats:
        """Return what one open shard has counted, or all of them."""
        if shard is not None:
            self._open.shard(shard)
        stats: StreamStats = self._client.result("stats", shard=shard)
        return stats

    def missing(
        self, shard: int, start: int, end: int, *, expired_until: int = 0
    ) -> list[tuple[int, int]]:
        """Return what of a range was there once and cannot be read any more."""
        self._open.shard(shard)
        ranges: list[tuple[int, int]] = self._client.result(
            "missing", shard=shard, start=start, end=end, expired_until=expired_until
        )
        return ranges

    def sizes(self) -> dict[int, int]:
        """Return the bytes that each shard takes on the server's disk."""
        return self._of_open(self._client.result("sizes"))

    # --- following -----------------------------------------------------------------------------

    def refresh(self) -> dict[int, int]:
        """Follow the writers to about now; return each shard's committed."""
        facts: StreamFacts = self._client.result("refresh")
        with self._growing:
            self._client.know(facts)
            self._open.files = files_of(facts)
            self._archived = facts.archived
            shards = self._open.by_number
            self._open.by_number = {
                number: shards.get(number) or RemoteShard(self._client, number)
                for number in sorted(facts.lineages)
            }
        return dict(sorted(facts.committed.items()))

    def wait(self, shard: int, address: int, timeout: float) -> bool:
        """Sleep until a shard's committed is above an address; the server wakes the caller."""
        self._open.shard(shard)
        deadline = self._deadline_of_wait(address, timeout)
        if address < 0:
            # The end of a shard without rows is there.
            return True
        while True:
            left = min(max(0.0, deadline - self._clock.monotonic_s()), WAIT_S_MAX)
            is_there = self._client.result("wait", left, shard=shard, address=address, timeout=left)
            if is_there:
                self._client.know_reached({shard: address + 1})
            if is_there or self._clock.monotonic_s() >= deadline:
                return bool(is_there)

    def archived_lineages(self) -> frozenset[str]:
        """Return the lineages of logs that were replaced, whether their data is there or not."""
        return self._archived

    def close(self) -> None:
        """Close everything; closing twice is fine."""
        super().close()
        self._client.close()

    # --- inside --------------------------------------------------------------------------------

    def _request(  # noqa: PLR0913 - a request's parts
        self,
        order: Order,
        ids: Ids,
        start: int | None,
        end: int | None,
        limit: int,
        keys: Keys,
        versions: Iterable[int] | None,
        columns: Sequence[str] | None,
    ) -> ReadRequest:
        """Return what a caller asks for, if it fits the stream."""
        request = replace(
            request_of(order, ids, start, end, limit, versions, columns), keys=checked_keys(keys)
        )
        refuse_unfit(self._open.meta, request)
        return request

    def _of_open(self, values: dict[int, Any]) -> dict[int, Any]:
        """Return the values of the shards that are open here."""
        return {n: values[n] for n in self._open.opened() if n in values}


def _values(request: ReadRequest) -> dict[str, Any]:
    """Return what a request says beside its order and its shard, as parameters of a call."""
    values = {
        "ids": request.ids,
        "keys": request.keys,
        "start": None if request.start == INT64_MIN else request.start,
        "end": None if request.end == INT64_MAX else request.end,
        "limit": request.limit or None,
        "versions": request.versions,
        "latest_by": request.latest_by,
        "tombstones": request.tombstones or None,
        "columns": request.columns,
    }
    return {name: value for name, value in values.items() if value is not None}


def files_of(facts: StreamFacts) -> StreamFiles:
    """Return what a server says of a stream as its files would."""
    options = facts.options
    meta = StreamMeta(
        facts.name,
        facts.incarnation,
        options.unit,
        # What a stream was made with is not told, and no read asks for it.
        options.scheme.width,
        options.jitter,
        options.shards,
        facts.origin,
        options.key_mode,
    )
    lineages = {n: bytes.fromhex(lineage) for n, lineage in facts.lineages.items()}
    return StreamFiles(Path(), meta, StreamSettings(options, lineages, facts.births))


def _records(batch: pa.RecordBatch) -> Iterator[Record]:
    names = batch.schema.names
    return map(
        Record,
        *(
            batch.column(name).to_pylist() if name in names else repeat(None, batch.num_rows)
            for name in _RECORD_FIELDS
        ),
    )

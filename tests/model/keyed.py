"""Streams with a key dictionary, asked and answered in the words of streams with ids.

The lists know ids; here each stands for a key of its own, in the same order. Rows must never show
a secondary: where the lists' answers have one, it is the id that the row's key stands for.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import xxhash

from storage_core import StreamOptions
from storage_core.facade import StreamFacade
from storage_core.format.record import Record
from tests.strategies import COLUMNS

READ_COLUMNS = tuple(name for name in COLUMNS if name != "state")
LEAST_ID = -(2**31)
_BYTES = 4


def has_keys(options: StreamOptions) -> bool:
    """Tell whether a stream's records belong to keys."""
    return options.key_mode == "dictionary"


def key_of(id_: int) -> bytes | None:
    """Return the key that stands for an id: none, empty, or bytes of which some end in zeros."""
    if id_ == LEAST_ID:
        return None
    if id_ == LEAST_ID + 1:
        return b""
    return (id_ - LEAST_ID).to_bytes(_BYTES, "big") + b"\0key"[: abs(id_) % 5]


def id_of(key: bytes | None) -> int:
    """Return the id that a key stands for."""
    if key is None:
        return LEAST_ID
    return LEAST_ID + (int.from_bytes(key[:_BYTES], "big") if key else 1)


def shard_of(id_: int, shards: int) -> int:
    """Return the shard that a key routes to."""
    key = key_of(id_)
    return 0 if key is None else xxhash.xxh3_64_intdigest(key) % shards


def in_ids(reads: Any, options: StreamOptions) -> Any:
    """Return what answers as a stream with ids does."""
    return KeyedReads(reads) if has_keys(options) else reads


class KeyedReads:
    """Every read, by ids."""

    def __init__(self, reads: StreamFacade[Any]) -> None:
        self._reads = reads

    def read(  # noqa: PLR0913 - as it is
        self,
        ids: Any = None,
        start: int | None = None,
        end: int | None = None,
        limit: int = 0,
        *,
        versions: Any = None,
        latest_by: Any = None,
        tombstones: bool = False,
        columns: Sequence[str] | None = None,
    ) -> list[pa.RecordBatch]:
        wanted = columns or READ_COLUMNS
        table = self._reads.read(
            None,
            start,
            end,
            limit,
            keys=_keys(ids),
            versions=versions,
            latest_by=latest_by,
            tombstones=tombstones,
            columns=_with_key(wanted),
        )
        return [_by_id(one, wanted) for one in table.to_batches()]

    def scan(
        self,
        ids: Any = None,
        start: int | None = None,
        end: int | None = None,
        *,
        versions: Any = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        wanted = columns or READ_COLUMNS
        columns_asked = _with_key(wanted)
        batches = self._reads.scan(
            None, start, end, keys=_keys(ids), versions=versions, columns=columns_asked
        )
        return (_by_id(batch, wanted) for batch in batches)

    def tail(
        self, shard: int, start: int | None = None, end: int | None = None, ids: Any = None
    ) -> Iterator[pa.RecordBatch]:
        batches = self._reads.tail(shard, start, end, None, _with_key(COLUMNS), keys=_keys(ids))
        return (_by_id(batch, COLUMNS) for batch in batches)

    def for_each(self, ids: Any, start: Any, end: Any, fn: Callable[[Record], object]) -> None:
        self._reads.for_each(
            None, start, end, lambda record: fn(_record_by_id(record)), keys=_keys(ids)
        )

    def latest(self, ids: Any = None) -> dict[int, Record]:
        records = self._reads.latest(keys=_keys(ids))
        assert all(key == record.key for key, record in records.items())
        return {id_of(one.key): _record_by_id(one) for one in records.values()}

    def earliest(self, ids: Any, from_: int) -> int | None:
        return self._reads.earliest(None, from_, keys=_keys(ids))

    def available(
        self, ids: Any, from_: int, width: int, limit: int
    ) -> tuple[int | None, list[pa.RecordBatch]]:
        last, rows = self._reads.available(None, from_, width, limit, keys=_keys(ids))
        return last, [_by_id(one, READ_COLUMNS) for one in rows.to_batches()]


def _keys(ids: Any) -> Any:
    if ids is None:
        return None
    return [key_of(one) for one in ([ids] if isinstance(ids, int) else ids)]


def _with_key(columns: Sequence[str]) -> list[str]:
    return [*columns, "key"]


def _by_id(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    ids = pa.array([id_of(key) for key in batch.column("key").to_pylist()], pa.int32())
    if "secondary" in columns:
        assert batch.column("secondary").null_count == len(batch)
    arrays = [ids if name == "secondary" else batch.column(name) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _record_by_id(record: Record) -> Record:
    assert record.secondary is None
    return replace(record, secondary=id_of(record.key))

"""The rows of frames and of what lies above them as an answer, without those that are gone."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_core.parts.visible_rows import Rule, as_condition, visible_rows
from storage_core.platform.arrow import nulls
from storage_core.sql.pool.pooled_stream import PooledSnapshot
from typed_events.query.located import ADDRESS, PLACE, PRIMARY, SHARD
from typed_events.remembered.options import KeepOptions

_UNITS_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
INT64_MIN: Final = -(2**63)
_untyped: Any = pa
Mask = npt.NDArray[np.bool_]


class Rows(Protocol):
    """Rows with their places."""

    def batches(
        self, shard: int | None = None, *, are_places_alone: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield them, or those of one shard, in the order of places."""
        ...


class Visible:
    """Which rows are to be seen: the log shows them still, and they are young enough."""

    def __init__(self, snapshot: PooledSnapshot, keep: KeepOptions, now_ns: int) -> None:
        """Take the rule of a snapshot."""
        self._shards = np.array(sorted(snapshot.rows.shards), np.int32)
        self._rule: Rule = visible_rows(
            {
                n: replace(parts, gaps=(*parts.gaps, *snapshot.epochs[n].gaps))
                for n, parts in snapshot.rows.shards.items()
            }
        )
        floors = [parts.floor for parts in snapshot.rows.shards.values()]
        self._floor = min(floors, default=INT64_MIN)
        self._oldest = _oldest(snapshot, keep.age, now_ns)
        self._first: tuple[int, int, int] | None = None

    def keep_newest(self, sources: Sequence[Rows], most: int | None) -> None:
        """Let only so many rows be seen, the newest."""
        if most is None:
            return
        places = [
            np.stack([_column(batch, name)[mask] for name in (ADDRESS, SHARD, PRIMARY)])
            for rows in sources
            for batch in rows.batches(are_places_alone=True)
            for mask in (self.mask(batch),)
        ]
        if sum(place.shape[1] for place in places) <= most:
            return
        together = np.concatenate(places, axis=1)
        address, shard, primary = together[:, np.lexsort(together)[-most]]
        self._first = (int(primary), int(shard), int(address))

    def mask(self, batch: pa.RecordBatch) -> Mask:
        """Tell which rows are to be seen."""
        shard, primary = _column(batch, SHARD), _column(batch, PRIMARY)
        address = _column(batch, ADDRESS)
        columns = {
            "shard": shard,
            "primary": primary,
            "address": address,
            "state": np.zeros(len(shard), np.int8),
        }
        mask: Mask = np.isin(shard, self._shards) & as_condition(self._rule, columns.__getitem__)
        if self._oldest is not None:
            mask &= primary >= self._oldest
        if self._first is not None:
            first_primary, first_shard, first_address = self._first
            is_behind = (shard > first_shard) | (
                (shard == first_shard) & (address >= first_address)
            )
            mask &= (primary > first_primary) | ((primary == first_primary) & is_behind)
        return mask

    def hides_up_to(self, newest: int) -> bool:
        """Tell whether no row up to a primary is to be seen any more, now and later."""
        bounds = [self._floor]
        if self._oldest is not None:
            bounds.append(self._oldest)
        if self._first is not None:
            bounds.append(self._first[0])
        return newest < max(bounds)

    def filtered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that are to be seen."""
        mask = self.mask(batch)
        return batch if mask.all() else batch.filter(pa.array(mask))


def answered(
    sources: Sequence[Rows], visible: Visible, shards: Sequence[int], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an answer, in the order of places; a field that frames have not is null."""
    for shard in shards:
        for rows in sources:
            for batch in rows.batches(shard):
                seen = visible.filtered(batch)
                if seen.num_rows:
                    yield with_columns(seen, schema)


def with_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the columns of a schema; those that it has not are null."""
    columns = []
    for field in schema:
        number = batch.schema.get_field_index(field.name)
        columns.append(batch.column(number) if number >= 0 else nulls(batch.num_rows, field.type))
    made: pa.RecordBatch = _untyped.RecordBatch.from_arrays(columns, schema=schema)
    return made


def answer_schema(located: pa.Schema) -> pa.Schema:
    """Return the columns of an answer."""
    return pa.schema([*located][len(PLACE) :])


def _oldest(snapshot: PooledSnapshot, age: timedelta | None, now_ns: int) -> int | None:
    per_second = _UNITS_PER_SECOND.get(snapshot.unit)
    if age is None or per_second is None:
        return None
    since_ns = now_ns - int(age.total_seconds() * 10**9)
    return -(-since_ns * per_second // 10**9)


def _column(batch: pa.RecordBatch, name: str) -> Any:  # noqa: ANN401 - numpy's integers
    return batch.column(batch.schema.get_field_index(name)).to_numpy()

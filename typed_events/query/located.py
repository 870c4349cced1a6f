"""QUERY for events with their places, from some addresses on: for whoever has those before.

The columns PLACE, then those of the answer, in the order of places.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

import pyarrow as pa

from storage_core.sql.pool.pooled_stream import PooledSnapshot
from typed_events.language.commands import Query
from typed_events.query.operands import Side
from typed_events.query.rows import returned_columns, rows_from
from typed_events.query.selecting import Column, Selection, selected

# No field is called so: their names have no space.
SHARD: Final = "of shard"
ADDRESS: Final = "of address"
PRIMARY: Final = "of primary"
PLACE: Final = (SHARD, ADDRESS, PRIMARY)
# Returns where each shard begins, by the snapshot, if anything was stored, and its columns.
Begins = Callable[[PooledSnapshot | None, Side], Mapping[int, int]]


class Batches(Protocol):
    """Batches of rows, made while they are taken. Whoever does not take all closes them."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Return itself."""
        ...

    def close(self) -> None:
        """Let go of the others."""
        ...


class LocatedRows(NamedTuple):
    """Rows with their places, and their columns."""

    batches: Batches
    schema: pa.Schema


def select_located(query: Query, side: Side, source: str, starts: Mapping[int, int]) -> Selection:
    """Return the query of events from some addresses on.

    Args:
        query: The query.
        side: Its type.
        source: The SELECT of that.
        starts: Where each shard begins; no other shard has rows.
    """
    columns = [
        Column(SHARD, f"CAST({side.column('shard')} AS INTEGER)", pa.int32()),
        Column(ADDRESS, side.column("address"), pa.int64()),
        Column(PRIMARY, side.column("primary"), pa.int64()),
        *returned_columns(side, query.returned),
    ]
    above = f"SELECT * FROM ({source}) WHERE {_above(starts)}"  # noqa: S608 - of numbers
    return selected(columns, f"{rows_from(query, side, above)} ORDER BY {side.position}")


def _above(starts: Mapping[int, int]) -> str:
    if not starts:
        return "FALSE"
    shards = [f"(shard = {n} AND address >= {start})" for n, start in starts.items()]
    # The first is what zones and row groups are skipped by.
    return f"address >= {min(starts.values())} AND ({' OR '.join(shards)})"

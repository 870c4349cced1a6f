"""The columns of an answer as arrays, made of those of a few new rows, without a query.

DuckDB plans longer than it reads some rows. Where each column of the answer is one of the rows as
it is, as it is of events whose type has not changed what its fields are, arrays say the same: the
core columns are made here as operands have them in SQL. All else is left to DuckDB.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from storage_core.platform.arrow import one_array
from storage_core.sql.pool.pooled_stream import PooledSnapshot
from storage_core.sql.type_unification import TIME_US_MAX, OutputColumn
from typed_events.query.operands import CORE, Operand, Side

_untyped: Any = pa
_compute: Any = pc
# Some arrays; one of the rows' own if it is named.
_Arrays = list[Any]


@dataclass(frozen=True, slots=True)
class _Plan:
    """Of which column of some rows each field is; None for one that they have not."""

    schema: pa.Schema
    sources: Sequence[str | None] | None


class PlainColumns:
    """Makes the columns of one side. Any thread."""

    def __init__(self, side: Side) -> None:
        """Make those that a side has, for as long as its rows have the same."""
        self._side = side
        self._fields: Final = [*side.fields.values()]
        # Where core columns are others than those of events, there is no such way.
        self._is_of_events = [*side.core] == [*CORE] and side.has_keys and side.unit == "us"
        self._plan: _Plan | None = None

    def of(self, snapshot: PooledSnapshot) -> tuple[_Arrays, list[int]] | None:
        """Return the columns and the addresses of rows, by address; None where DuckDB is to."""
        hot = snapshot.rows.hot
        if not self._is_of_events or len(hot) != 1:
            return None
        made, table = hot[0]
        sources = self._sources(made, table)
        if sources is None:
            return None
        rows: Any = table
        if table.num_rows > 1:
            rows = table.take(_compute.sort_indices(table.column("address")))
        addresses = rows.column("address").to_pylist()
        core = self._core(rows, addresses)
        if core is None:
            return None
        fields = [
            _field(rows, source, operand)
            for source, operand in zip(sources, self._fields, strict=True)
        ]
        return [*core, *fields], addresses

    def _sources(
        self, made: tuple[OutputColumn, ...], table: pa.Table
    ) -> Sequence[str | None] | None:
        """Return the column of each field in a table; None where one is not there as it is."""
        plan = self._plan
        if plan is None or not plan.schema.equals(table.schema):
            plan = self._plan = _Plan(table.schema, self._planned(made, table.schema))
        return plan.sources

    def _planned(
        self, made: tuple[OutputColumn, ...], schema: pa.Schema
    ) -> Sequence[str | None] | None:
        columns = {self._side.column(column.name): column for column in made}
        sources: list[str | None] = []
        for operand in self._fields:
            column = columns.get(operand.sql)
            if column is None:
                return None
            if not column.sources:
                sources.append(None)
                continue
            if not column.is_unchanged or not _is_of(schema.field(column.name).type, operand):
                return None
            sources.append(column.name)
        return sources

    def _core(self, rows: Any, addresses: Sequence[int]) -> _Arrays | None:  # noqa: ANN401 - a table
        count = len(addresses)
        primaries = one_array(rows.column("primary"))
        least_most = _compute.min_max(primaries).as_py()
        if count and not -TIME_US_MAX <= least_most["min"] <= least_most["max"] <= TIME_US_MAX:
            return None
        try:
            contexts = one_array(rows.column("key")).cast(pa.string())
        except pa.ArrowInvalid:
            # A key of Kafka's may be no text.
            return None
        shards = rows.column("shard").to_pylist()
        ids = [f"{shard}:{address}" for shard, address in zip(shards, addresses, strict=True)]
        core = self._side.core
        return [
            contexts,
            pa.array([self._side.event_type] * count, pa.string()),
            primaries.cast(core["timestamp"].type),
            pa.array(ids, pa.string()),
            one_array(rows.column("version")).cast(core["version"].type),
        ]


def _is_of(kind: pa.DataType, operand: Operand) -> bool:
    """Tell whether a column's values are those of an operand; enums are texts in answers."""
    is_enum = kind == pa.dictionary(pa.int32(), pa.string()) and operand.type == pa.string()
    return is_enum or kind == operand.type


def _field(rows: Any, source: str | None, operand: Operand) -> Any:  # noqa: ANN401 - a table, an array
    if source is None:
        return _untyped.nulls(rows.num_rows, operand.type)
    column = one_array(rows.column(source))
    return column if column.type == operand.type else column.cast(operand.type)

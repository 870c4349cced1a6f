"""New rows of a stream, evaluated once for all who want some of them.

One query makes the columns of the answer. Where rows are many, it has a column for each condition,
too, which says what rows satisfy it; of a few rows conditions are functions (row_conditions.py),
and mostly no query is asked (plain_columns.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from storage_core import Clock
from storage_core.sql.pool.pooled_stream import PooledSnapshot
from storage_core.sql.pool.stream_ranges import RangeQueries, RowRange
from typed_events.errors import CommandError
from typed_events.query.compile import fields_in
from typed_events.query.fields import TypeFields
from typed_events.query.operands import CORE, Side
from typed_events.query.replays import PAYLOAD, payload_of
from typed_events.query.rows import returned_columns
from typed_events.query.selecting import Column, Selection, selected
from typed_events.query.state_rows import young_rows
from typed_events.subscriptions.plain_columns import PlainColumns
from typed_events.subscriptions.proofs import Proofs
from typed_events.subscriptions.row_conditions import Holds, row_condition, rows_of
from typed_events.subscriptions.wanted import (
    ALIAS,
    DELETED,
    Wanted,
    WantedRows,
    condition_of,
    side_of,
)

# So many rows are evaluated one by one; of more DuckDB is quicker.
FEW_ROWS: Final = 64
_COMPILED_MAX: Final = 10_000
_CONTEXT: Final = "context_id"
_untyped: Any = pa
Results = Mapping[str, WantedRows | CommandError]


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A condition.

    Attributes:
        sql: As SQL; None where all rows are wanted.
        holds: As a function of a row; None where there is none.
        names: The columns that it takes.
    """

    sql: str | None
    holds: Holds | None
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Questions:
    """What is asked of each batch of rows, as long as the same is wanted.

    Attributes:
        wanted: What is wanted, by its mark.
        refused: What does not fit the columns.
        conditions: The mark of each that does, whether it is of all types, and its condition.
        by_query: The conditions that DuckDB evaluates, in SQL.
        by_query_if_few: Those that have no function, either.
        names: The columns that functions take.
        is_of_all: Whether somebody wants fields as JSON.
    """

    wanted: Mapping[str, Wanted]
    refused: Mapping[str, CommandError]
    conditions: Sequence[tuple[str, bool, _Compiled]]
    by_query: Mapping[str, str]
    by_query_if_few: Mapping[str, str]
    names: Sequence[str]
    is_of_all: bool


@dataclass(slots=True)
class _Columns:
    """The columns of a stream as long as they do not change, with the conditions over them."""

    key: tuple[object, ...]
    side: Side
    plain: PlainColumns
    payload: str
    ttl_s: int | None
    compiled: dict[str, _Compiled | CommandError]
    questions: _Questions | None = None

    def questions_of(self, wanted: Mapping[str, Wanted]) -> _Questions:
        """Return what is asked; the same again where the same mapping is given."""
        questions = self.questions
        if questions is None or questions.wanted is not wanted:
            questions = self.questions = _questions(self, wanted)
        return questions


class Evaluator:
    """Evaluates rows of one stream. Any thread."""

    def __init__(self, queries: RangeQueries, clock: Clock) -> None:
        """Evaluate by a DuckDB that others use, too; the clock says what is past its time."""
        self._queries = queries
        self._clock = clock
        self._columns: _Columns | None = None

    def open(self) -> None:
        """Be ready, so that the first rows do not wait for that."""
        self._queries.open()

    def wanted_rows(
        self,
        read: RowRange,
        proofs: Proofs,
        types: Mapping[str, TypeFields],
        wanted: Mapping[str, Wanted],
    ) -> Results:
        """Return what each wants of some rows, or why its condition does not fit them.

        Args:
            read: The rows, of one shard.
            proofs: What proves them.
            types: The event types there are, looked up after the rows were read.
            wanted: What is wanted, by its mark.

        Raises:
            ShardlogError: The query failed.
        """
        snapshot = read.snapshot
        columns = self._columns_of(snapshot, types)
        questions = columns.questions_of(wanted)
        is_few = snapshot.hot_rows <= FEW_ROWS
        by_query = questions.by_query_if_few if is_few else questions.by_query
        rows = None
        if is_few and not by_query and not questions.is_of_all:
            rows = _plain_rows(snapshot, proofs, columns)
        if rows is None:
            rows = self._rows(snapshot, proofs, columns, [*by_query.values()])
        places = {mark: number for number, mark in enumerate(by_query)}
        few = rows_of(rows.typed.batch, columns.side, questions.names) if is_few else []
        results: dict[str, WantedRows | CommandError] = {**questions.refused}
        # Those whose conditions take the same rows have them together, and what is made of them.
        shared: dict[tuple[bool, tuple[int, ...]], WantedRows] = {}
        for mark, is_of_all, condition in questions.conditions:
            whole, holds = rows.of_all if is_of_all else rows.typed, condition.holds
            if condition.sql is None:
                results[mark] = whole
                continue
            if mark in places:
                holding = _holding(rows.masks[places[mark]])
            else:
                assert holds is not None, "it is evaluated by the query else"
                holding = [at for at, row in enumerate(few) if holds(row)]
            key = is_of_all, tuple(holding)
            taken = shared.get(key)
            if taken is None:
                taken = shared[key] = _taken(whole, holding)
            results[mark] = taken
        return results

    def _columns_of(self, snapshot: PooledSnapshot, types: Mapping[str, TypeFields]) -> _Columns:
        name = snapshot.stream
        columns = self._columns
        if columns is None or columns.key[0] is not types or columns.key[1] is not snapshot.fields:
            payload, ttl_s = "'{}'", None
            side = side_of(name, snapshot, types)
            if name in types:
                payload = payload_of(side, types[name].versions, None)
                ttl_s = types[name].ttl_s
            key = types, snapshot.fields
            columns = _Columns(key, side, PlainColumns(side), payload, ttl_s, {})
            self._columns = columns
        return columns

    def _rows(
        self,
        snapshot: PooledSnapshot,
        proofs: Proofs,
        columns: _Columns,
        conditions: Sequence[str],
    ) -> "_Rows":
        """Return all rows, and which of them satisfy each of the conditions."""
        side = columns.side
        typed = returned_columns(side, None)
        selects = [
            *typed,
            Column(PAYLOAD, columns.payload, pa.string()),
            Column("address", side.column("address"), pa.int64()),
            *(Column("holds", text, pa.bool_()) for text in conditions),
        ]
        selections: list[Selection] = []

        def build(_: PooledSnapshot, source: str) -> str:
            if columns.ttl_s is not None:
                source = young_rows(source, columns.ttl_s, self._clock.now_ns() // 1000)
            rest = f'FROM ({source}) AS {ALIAS} ORDER BY {ALIAS}."address"'
            selections.append(selected(selects, rest))
            return selections[-1].text

        batches = self._queries.rows(snapshot, build) if snapshot.hot_rows else []
        arrays: list[Any] = [pa.array([], column.type) for column in selects]
        if batches:
            renamed = [selections[-1].renamed(batch) for batch in batches]
            arrays = [_joined([batch.column(n) for batch in renamed]) for n in range(len(selects))]
        count = len(typed)
        addresses = arrays[count + 1].to_pylist()
        of_all = [*arrays[: len(CORE)], arrays[count]]
        return _Rows(
            _rows_of([column.name for column in typed], arrays[:count], addresses, proofs),
            _rows_of([*CORE, PAYLOAD], of_all, addresses, proofs),
            arrays[count + 2 :],
        )


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows with the columns of their type, and with the fields as JSON."""

    typed: WantedRows
    of_all: WantedRows
    masks: Sequence[Any]


def _plain_rows(snapshot: PooledSnapshot, proofs: Proofs, columns: _Columns) -> _Rows | None:
    """Return a few rows without a query; None where it takes one. Nobody wants fields as JSON."""
    made = columns.plain.of(snapshot) if columns.ttl_s is None else None
    if made is None:
        return None
    names = [column.name for column in returned_columns(columns.side, None)]
    typed = _rows_of(names, *made, proofs)
    return _Rows(typed, typed, ())


def _questions(columns: _Columns, wanted: Mapping[str, Wanted]) -> _Questions:
    compiled = {mark: _compiled(columns, mark, wanted[mark]) for mark in wanted}
    conditions = [
        (mark, wanted[mark].is_of_all, condition)
        for mark, condition in compiled.items()
        if isinstance(condition, _Compiled)
    ]
    return _Questions(
        wanted,
        {mark: error for mark, error in compiled.items() if isinstance(error, CommandError)},
        conditions,
        {mark: one.sql for mark, _, one in conditions if one.sql},
        {mark: one.sql for mark, _, one in conditions if one.sql and one.holds is None},
        sorted({name for _, _, one in conditions for name in one.names}),
        any(is_of_all for _, is_of_all, _ in conditions),
    )


def _compiled(columns: _Columns, mark: str, wanted: Wanted) -> _Compiled | CommandError:
    cached = columns.compiled.get(mark)
    if cached is None:
        if len(columns.compiled) >= _COMPILED_MAX:
            columns.compiled.clear()
        try:
            cached = _compile(columns.side, wanted)
        except CommandError as error:
            cached = error
        columns.compiled[mark] = cached
    return cached


def _compile(side: Side, wanted: Wanted) -> _Compiled:
    sql = condition_of(wanted, side)
    context, where = wanted.context, wanted.where
    of_where = None if where is None else row_condition(where, side)
    if sql is None or (where is not None and of_where is None):
        return _Compiled(sql, None, ())
    names = () if where is None else tuple({field.name for field in fields_in(where)})
    if DELETED in side.core and of_where is not None:
        of_where, names = _or_deleted(of_where), (*{*names, DELETED},)
    if context is None:
        return _Compiled(sql, of_where, names)
    if of_where is None:
        return _Compiled(sql, lambda row: row[_CONTEXT] == context, (_CONTEXT,))
    return _Compiled(
        sql, lambda row: row[_CONTEXT] == context and of_where(row), (*names, _CONTEXT)
    )


def _or_deleted(holds: Holds) -> Holds:
    return lambda row: row[DELETED] or holds(row)


def _joined(arrays: Sequence[Any]) -> Any:  # noqa: ANN401 - an array
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def _rows_of(
    names: Sequence[str], arrays: Sequence[Any], addresses: Sequence[int], proofs: Proofs
) -> WantedRows:
    batch = _untyped.RecordBatch.from_arrays([*arrays], names=[*names])
    return WantedRows(batch, addresses, batch.nbytes + proofs.size, proofs)


def _holding(mask: Any) -> list[int]:  # noqa: ANN401 - an array
    return [at for at, holds in enumerate(mask.to_pylist()) if holds]


def _taken(whole: WantedRows, places: Sequence[int]) -> WantedRows:
    if len(places) == len(whole.addresses):
        return whole
    if not places:
        return WantedRows(whole.batch.slice(0, 0), [], 0, Proofs("", ()))
    untyped: Any = whole.batch
    batch = untyped.take(pa.array(places, pa.int64()))
    addresses = [whole.addresses[at] for at in places]
    size = whole.size * len(places) // len(whole.addresses)
    return WantedRows(batch, addresses, size, whole.proofs.taken(addresses))

"""QUERY, REPLAY and EXPLAIN over the streams of a root.

    with Queries(root) as queries:
        answer = queries.query(Query("order", context="customer-7"))

A query is of one snapshot of each of its streams; of a context only the hot rows of that are read.
DuckDB evaluates it while its rows are taken (storage_core/sql/pool/).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Final, Self

import pyarrow as pa

from storage_core import Clock, InvalidRequestError, SystemClock
from storage_core.platform.closing import Closing
from storage_core.platform.name_suggestions import unknown_names
from storage_core.platform.overriding import override
from storage_core.sql.pool.pooled_stream import Owners, PooledSnapshot
from storage_core.sql.pool.stream_pool import (
    PooledAnswer,
    PoolOptions,
    QueriesBusyError,
    StreamPool,
)
from typed_events.answer import Answer
from typed_events.errors import BusyError, CommandError, NotFoundError
from typed_events.language.commands import Explain, Plot, Query, Replay
from typed_events.query.compile import fields_in, owners_of
from typed_events.query.explaining import explained
from typed_events.query.fields import FieldsOfTypes, TypeFields
from typed_events.query.figures import select_figures
from typed_events.query.located import Begins, LocatedRows, select_located
from typed_events.query.one_moment import end_of_moment, rows_before
from typed_events.query.operands import Side, single
from typed_events.query.other_streams import OtherStreams
from typed_events.query.plotting import axes_of, refuse_undrawn
from typed_events.query.replays import query_of, select_all_types
from typed_events.query.rows import rows_from, select_rows
from typed_events.query.selecting import Selection
from typed_events.query.sequences import Pair, select_pairs
from typed_events.query.state_rows import live_rows, state_columns, young_rows
from typed_events.types.stored_types import TypesOfRoot

# DuckDB takes time by the square of them.
TERMS_MAX: Final = 1000
NO_EVENTS: Final = "No matching events found"
# How often a REPLAY of all types begins again for types that were defined meanwhile.
_TYPES_TRIES_MAX: Final = 10
# The rows of a type that nothing was stored of.
_NO_ROWS: Final = (
    'SELECT 0::INTEGER AS shard, \'\'::BLOB AS "key", 0::BIGINT AS "primary", '
    'NULL::TIMESTAMPTZ AS "time", 0::BIGINT AS address, 0::USMALLINT AS version, '
    'NULL::STRUCT("key" VARCHAR, "value" BLOB)[] AS headers, NULL::INTEGER AS schema_id WHERE FALSE'
)
Snapshots = Mapping[str, PooledSnapshot]
Texts = Mapping[str, str]
Poll = Callable[[], None]
Select = Callable[[Mapping[str, Side], Texts], Selection]


class Queries(Closing):
    """Answers queries over a root. Any thread; close it after its last answer.

    Attributes:
        others: The streams that are no event types.
    """

    def __init__(
        self,
        root: str | PathLike[str],
        options: PoolOptions | None = None,
        types: FieldsOfTypes | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Open nothing yet.

        Args:
            root: The directory that holds the streams.
            options: How many queries run at once, and what they may take.
            types: The types; None for reading them from the root.
            clock: Says which rows of state are past their time.
        """
        self._clock = clock or SystemClock()
        self._root = Path(root).absolute()
        self._streams = StreamPool(self._root, options)
        self._types = types or FieldsOfTypes(TypesOfRoot(self._root).current)
        self.others = OtherStreams(self._root, self._streams)

    @override
    def close(self) -> None:
        """Close what is open."""
        self._streams.close()

    def answer(self, command: Query | Replay | Explain | Plot, poll: Poll | None = None) -> Answer:
        """Answer one of the commands; raises as `query` does."""
        if isinstance(command, Query):
            return self.query(command, poll)
        if isinstance(command, Replay):
            return self.replay(command, poll)
        if isinstance(command, Plot):
            return self.plot(command, poll)
        return self.explain(command, poll)

    def query(self, query: Query, poll: Poll | None = None) -> Answer:
        """Answer a QUERY.

        Args:
            query: The command.
            poll: Called some times a second while its rows are searched for, by the thread that
                takes them; what it raises ends the query. None for nothing.

        Raises:
            CommandError: A name is unknown, or a literal does not fit its field.
            NotFoundError: There is no such type.
            BusyError: Too many queries run.
        """
        with _translated():
            return self._answer(self._request_of(query), poll)

    def replay(self, replay: Replay, poll: Poll | None = None) -> Answer:
        """Answer a REPLAY; raises as `query` does."""
        with _translated():
            if replay.event_type is not None:
                names = [replay.event_type]
                types = self._required(names)
                select = _select_replay(replay)
                request = _Request(replay.context, names, types, select, is_live=False)
                return self._answer(request, poll)
            return self._replay_all(replay, poll)

    def plot(self, plot: Plot, poll: Poll | None = None) -> Answer:
        """Answer a PLOT: the rows of its query, and how they are drawn; raises as `query` does."""
        with _translated():
            refuse_undrawn(plot.query)
            answer = self._answer(self._request_of(plot.query), poll)
            assert answer.schema is not None, "a query has columns"
            answer.plot = axes_of(plot.query, answer.schema.names)
            return answer

    def explain(self, explain: Explain, poll: Poll | None = None) -> Answer:
        """Answer an EXPLAIN: steps of a query and what each reads; raises as `query` does."""
        with _translated():
            request = self._request_of(explain.query)
            seen: dict[str, PooledSnapshot] = {}
            with self._rows(request, poll, prefix="EXPLAIN ANALYZE ", seen=seen)[0] as drawn:
                drawing = "".join(
                    str(text) for batch in drawn for text in batch.column(1).to_pylist()
                )
            ttls = {
                name: request.types[name].ttl_s for name in request.names if name in request.types
            }
            return explained(explain.query, seen, drawing, ttls)

    def located(self, query: Query, begins: Begins, poll: Poll | None = None) -> LocatedRows:
        """Return the events of a query from some addresses on, each with its place.

        Args:
            query: Of one type, without an order, limits and figures.
            begins: Returns where each shard begins, by the snapshot.
            poll: As `query` has it.

        Raises:
            CommandError: It is of state, whose rows change and expire.
            ShardlogError: As by `query`.
        """
        with _translated():
            types = self._required([query.event_type])
            if query.event_type in types and types[query.event_type].ttl_s is not None:
                message = (
                    f"{query.event_type} is a type of state, whose rows change and expire: what "
                    "is remembered are events; QUERY it"
                )
                raise CommandError(message)
            names, seen = [query.event_type], dict[str, PooledSnapshot]()

            def select(sides: Mapping[str, Side], sources: Texts) -> Selection:
                (side,) = sides.values()
                starts = begins(seen.get(side.event_type), side)
                return select_located(query, side, sources[side.event_type], starts)

            request = _Request(query.context, names, types, select)
            rows, selection = self._rows(request, poll, seen=seen)
            return LocatedRows(_Batches(rows, selection), selection.schema)

    def row_digests(
        self, snapshot: PooledSnapshot, addresses: Mapping[int, int]
    ) -> dict[int, str | None]:
        """Return the digest of a row of each shard; None where there is none any more."""
        with _translated():
            return self._streams.row_digests(snapshot, addresses)

    def _replay_all(self, replay: Replay, poll: Poll | None) -> Answer:
        """Answer a REPLAY of all types, those among them that are defined meanwhile."""
        for _ in range(_TYPES_TRIES_MAX):
            types = self._types.current()
            names = self._names_of_events(types)
            if not names:
                return Answer(message=NO_EVENTS)
            select = _select_all_types(replay, types, names)
            rows, selection = self._rows(_Request(replay.context, names, types, select), poll)
            # IMPORTANT: behind the snapshots. An event of a type that is not known by now came
            # behind all that they have; one of a type that came meanwhile may not have.
            if {*names}.issuperset(self._names_of_events(self._types.current())):
                return _answer_of(rows, selection)
            rows.close()
        message = "types are defined faster than they can be read: try again"
        raise BusyError(message)

    def _names_of_events(self, types: Mapping[str, TypeFields]) -> list[str]:
        """Return the types that have a stream; rows of state are no events."""
        stored = {*self._streams.names()}
        return [name for name in sorted(types) if name in stored and types[name].ttl_s is None]

    def _request_of(self, query: Query) -> "_Request":
        if query.where is not None:
            terms = sum(1 for _ in fields_in(query.where))
            if terms > TERMS_MAX:
                message = (
                    f"a condition has at most {TERMS_MAX:,} comparisons, this one has {terms:,}: "
                    "IN takes many values of a field as one"
                )
                raise CommandError(message)
        names = [query.event_type]
        if query.sequence is not None and query.sequence.other not in names:
            names.append(query.sequence.other)
        return _Request(query.context, names, self._required(names), _select(query))

    def _answer(self, request: "_Request", poll: Poll | None) -> Answer:
        return _answer_of(*self._rows(request, poll))

    def _rows(
        self,
        request: "_Request",
        poll: Poll | None,
        *,
        prefix: str = "",
        seen: dict[str, PooledSnapshot] | None = None,
    ) -> tuple[PooledAnswer, Selection]:
        """Return the rows of a query, and what was selected.

        Args:
            request: The query.
            poll: Ends it.
            prefix: What stands before it.
            seen: Gets the snapshots that it is of.
        """
        stored = {*self._streams.names()}
        names = [name for name in request.names if name in stored]
        owners = {
            name: self._owners(name, request.context) for name in self._streams.open_first(names)
        }
        wanted = {name: owners[name] for name in names}
        selections: list[Selection] = []
        now_us = self._clock.now_ns() // 1000

        def build(snapshots: Snapshots, texts: Texts) -> str:
            sides = {
                name: request.side(name, snapshots.get(name), f"e{number}")
                for number, name in enumerate(request.names)
            }
            opened = self._streams.open_first(snapshots)
            events = {name: snapshots[name] for name in opened if name in request.types}
            # Times of other streams do not rise.
            rises = len(events) == len(texts)
            end_us = end_of_moment(events, self._streams.first_behind) if rises else None
            ended = {name: rows_before(text, end_us) for name, text in texts.items()}
            sources = {
                name: request.source(name, ended.get(name, _NO_ROWS), now_us)
                for name in request.names
            }
            if seen is not None:
                seen.update(snapshots)
            selections.append(request.select(sides, sources))
            return prefix + selections[-1].text

        return self._streams.query(wanted, build, poll), selections[-1]

    def _owners(self, name: str, context: str | None) -> Owners | None:
        """Return the keys or ids of a context in a stream."""
        if context is None:
            return None
        return owners_of(context, has_keys=self._streams.has_keys(name))

    def _required(self, names: list[str]) -> Mapping[str, TypeFields]:
        """Return the event types, if there is a type or a stream of each name."""
        types = self._types.current()
        if any(name not in types for name in names):
            all_names = {*types, *self._streams.names()}
            unknown = [name for name in names if name not in all_names]
            if unknown:
                listed = sorted(name for name in all_names if not name.startswith("_"))
                raise NotFoundError(unknown_names("type", unknown, listed))
        return types


@dataclass(frozen=True, slots=True)
class _Request:
    """What is asked of which types.

    Attributes:
        context: Of which context alone.
        names: The types.
        types: The event types there are.
        select: Makes the query.
        is_live: Whether of state only the rows that are there are asked for, not all that was
            stored.
    """

    context: str | None
    names: list[str]
    types: Mapping[str, TypeFields]
    select: Select
    is_live: bool = True

    def side(self, name: str, snapshot: PooledSnapshot | None, alias: str) -> Side:
        """Return the columns of a type, or of another stream."""
        fields = self.types.get(name)
        defined = None if fields is None else fields.of_all_versions
        of_state = state_columns(fields, is_live=self.is_live)
        return Side(snapshot, name, alias, defined, of_state)

    def source(self, name: str, text: str, now_us: int) -> str:
        """Return the SELECT of the rows that are asked for, of all that a stream has."""
        ttl_s = self.types[name].ttl_s if name in self.types else None
        if ttl_s is None:
            return text
        select = live_rows if self.is_live else young_rows
        return select(text, ttl_s, now_us)


def _select(query: Query) -> Select:
    """Return what makes the query of the columns of its types."""

    def select(sides: Mapping[str, Side], sources: Texts) -> Selection:
        side = sides[query.event_type]
        if query.sequence is not None:
            return select_pairs(query, Pair(side, sides[query.sequence.other]), sources)
        source = sources[query.event_type]
        if query.aggregates or query.by or query.per:
            rows = rows_from(query, side, source)
            return select_figures(query, lambda field: single(side, field), rows)
        return select_rows(query, side, source)

    return select


def _select_replay(replay: Replay) -> Select:
    """Return what makes the query of a context's events of one type."""

    def select(sides: Mapping[str, Side], sources: Texts) -> Selection:
        (side,) = sides.values()
        return select_rows(query_of(replay, side.event_type), side, sources[side.event_type])

    return select


def _select_all_types(replay: Replay, types: Mapping[str, TypeFields], names: list[str]) -> Select:
    """Return what makes the query of a context's events of all types."""
    versions = {name: types[name].versions for name in names}
    return lambda sides, sources: select_all_types(replay, [*sides.values()], sources, versions)


class _Batches:
    """The rows of an answer, with its names and types."""

    def __init__(self, rows: PooledAnswer, selection: Selection) -> None:
        self._rows = rows
        self._selection = selection

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        with _translated():
            return self._selection.renamed(next(self._rows))

    def close(self) -> None:
        """Let go of rows that are not wanted."""
        self._rows.close()


def _answer_of(rows: PooledAnswer, selection: Selection) -> Answer:
    message = NO_EVENTS if rows.is_empty else "OK"
    return Answer(message=message, schema=selection.schema, batches=_Batches(rows, selection))


@contextmanager
def _translated() -> Iterator[None]:
    """Translate the log's errors into those of commands."""
    try:
        yield
    except (CommandError, NotFoundError):
        raise
    except QueriesBusyError as error:
        raise BusyError(error.message) from error
    except InvalidRequestError as error:
        # NOTE: DuckDB (2.0) puts the kind of the error before a message of ours.
        raise CommandError(error.message.removeprefix("Invalid Input Error: ")) from error

"""SQL over the streams of a root, by DuckDB: their parts, and the rows that are not sealed yet.

    with connect("./data") as streams:
        streams.sql('SELECT device, avg(temperature) FROM telemetry GROUP BY device').show()

A stream is a table by its name. It is a snapshot: the list of its parts, and beside them the
committed rows behind, as Arrow, of each transaction all or none. Parts of several versions of a
schema are united by the names of their columns. What has expired or was given up is not shown.
DuckDB skips row groups by the statistics and the bloom filters of parts: `EXPLAIN ANALYZE` tells
how many it scanned.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa

from storage_core.catalog.root_file import list_streams
from storage_core.cold.engine import (
    PartUnreadError,
    duckdb_here,
    opened,
    refusal,
    telling,
    told,
)
from storage_core.cold.interruptible import Interruptible
from storage_core.cold.json_of_bytes import refuse_json_of_bytes
from storage_core.cold.missing import refuse_damaged, told_missing
from storage_core.cold.moment import TRIES_MAX, PartGoneError, look
from storage_core.cold.sql_casts import quoted
from storage_core.cold.views import show
from storage_core.errors import InvalidRequestError

_ASKING: Final = ("SELECT", "FROM", "PIVOT", "UNPIVOT", "WITH", "EXPLAIN")
# How views of DuckDB's begin that every query can name.
_ITS_OWN: Final = ("duckdb_", "pg_", "pragma_", "sqlite_")
# What few formats have.
_AS_TEXT: Final = ("INTERVAL", "UNION", "BIT")
_NO_TABLE: Final = "Catalog Error: Table with name"
# So many streams are named to whoever has named none.
_TOLD_MAX: Final = 10
_FIRST_WORD: Final = re.compile(r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*([a-zA-Z]+)", re.DOTALL)


def connect(
    root: str | PathLike[str],
    streams: Iterable[str] | None = None,
    *,
    memory_bytes_max: int | None = None,
) -> "Streams":
    """Return what answers SQL over some streams of a root, or over all.

    Args:
        root: The root.
        streams: The streams' names; all if None.
        memory_bytes_max: What DuckDB may hold in memory, beside the rows that are not sealed; the
            rest lies on disk. If None a quarter of the memory, and no less than a GiB.

    Raises:
        InvalidRequestError: DuckDB is not installed, there is no such root or stream, or names
            of two differ only in case.
    """
    return Streams(root, list_streams(root) if streams is None else streams, memory_bytes_max)


class Streams:
    """Streams of a root as tables of DuckDB. One thread at a time."""

    def __init__(
        self,
        root: str | PathLike[str],
        streams: Iterable[str],
        memory_bytes_max: int | None = None,
    ) -> None:
        """Look at streams as they are now."""
        self._root = Path(root).absolute()
        self._names = list(streams)
        _refuse_alike(self._names)
        self.connection = opened(memory_bytes_max)
        try:
            refuse_json_of_bytes(self.connection)
            self.refresh()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection."""
        self.connection.close()

    def refresh(self) -> None:
        """Look at the streams anew.

        Raises:
            InvalidRequestError: One is not there any more.
            UnavailableError: A part went while it was looked at.
        """
        for name in self._names:
            with telling():
                show(self.connection, name, look(self._root, name))

    def sql(self, query: str) -> Any:  # noqa: ANN401 - a relation of DuckDB's
        """Return the answer to a query, as DuckDB's relation; lazy, and of the last look.

        Raises:
            InvalidRequestError: The query cannot be understood.
            UnavailableError: A part has gone since the last look.
        """
        with telling():
            return self.connection.sql(query)


def batches_of(
    root: str | PathLike[str],
    query: str,
    progress: Callable[[float], None] | None = None,
    *,
    memory_bytes_max: int | None = None,
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the answer to a query over a root, in bounded memory.

    Only the streams that it names are looked at. Where a part has gone before it was opened, as
    one that has expired, all is looked at anew.

    Args:
        root: The root.
        query: The query.
        progress: Told some times a second how far it is, in percent; below 0 where that is not
            known.
        memory_bytes_max: As for `connect`.

    Raises:
        InvalidRequestError: The query cannot be understood, names what is not there, or needs
            more than it may take.
        CorruptionError: A part is damaged, or not there.
        UnavailableError: Parts went on going before they could be opened.
    """
    for _ in range(TRIES_MAX):
        with suppress(PartGoneError), _damage_told(root, query):
            schema, batches = _answer(root, query, progress, memory_bytes_max)
            return schema, _told(batches, root, query)
    raise told_missing(root, _named(root, query))


def _told(
    batches: Iterator[pa.RecordBatch], root: str | PathLike[str], query: str
) -> Iterator[pa.RecordBatch]:
    with _damage_told(root, query):
        yield from batches


@contextmanager
def _damage_told(root: str | PathLike[str], query: str) -> Iterator[None]:
    """Where DuckDB cannot read a file, look whether it is a part that is damaged.

    Where it knows no such table, tell which there are.
    """
    try:
        yield
    except PartUnreadError:
        refuse_damaged(root, _named(root, query))
        raise
    except InvalidRequestError as error:
        if not error.message.startswith(_NO_TABLE):
            raise
        message = f"{error.message}; there are: {_some(list_streams(root))}"
        raise InvalidRequestError(message) from error


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _TOLD_MAX} more" if len(names) > _TOLD_MAX else ""
    return (", ".join(names[:_TOLD_MAX]) or "none") + more


def _answer(
    root: str | PathLike[str],
    query: str,
    progress: Callable[[float], None] | None,
    memory_bytes_max: int | None,
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Look at the streams of a query, and return its answer; its first rows are there."""
    with ExitStack() as undo:
        names = _named(root, query)
        streams = undo.enter_context(connect(root, names, memory_bytes_max=memory_bytes_max))
        waits = Interruptible(streams.connection.interrupt, _teller(streams.connection, progress))
        undo.callback(waits.close)
        with telling():
            reader = waits.call(_told_apart(streams.sql(query)).to_arrow_reader)
        first = _next(waits, reader)
        return reader.schema, _while_open(undo.pop_all(), waits, first, reader)


def _teller(
    connection: Any,  # noqa: ANN401 - DuckDB's
    progress: Callable[[float], None] | None,
) -> Callable[[], None] | None:
    """Return what tells how far a query is; None if nobody wants to know."""
    if progress is None:
        return None
    # NOTE: DuckDB (2.0) counts only where it might draw a bar of its own.
    connection.execute("SET enable_progress_bar = true")
    connection.execute("SET enable_progress_bar_print = false")
    return lambda: progress(connection.query_progress())


def _told_apart(answer: Any) -> Any:  # noqa: ANN401 - a relation
    """Return an answer that every format can have: names once each, spans and the like as texts.

    Of two columns of one name, as a join of two streams has them, the second is `<name>_1`.
    """
    names = _once_each(answer.columns)
    texts = [str(kind).startswith(_AS_TEXT) for kind in answer.types]
    if names == list(answer.columns) and not any(texts):
        return answer
    shown = [
        f"CAST({quoted(name)} AS VARCHAR) AS {quoted(name)}" if is_text else quoted(name)
        for name, is_text in zip(names, texts, strict=True)
    ]
    named = ", ".join(map(quoted, names))
    return answer.query("answer", f"SELECT {', '.join(shown)} FROM answer AS of_query({named})")  # noqa: S608 - quoted


def _once_each(names: Iterable[str]) -> list[str]:
    """Return names of which no two are one to SQL."""
    given, taken, found = list(names), set[str](), []
    whole = {name.lower() for name in given}
    for name in given:
        shown, count = name, 0
        while shown.lower() in taken or (count and shown.lower() in whole):
            count += 1
            shown = f"{name}_{count}"
        taken.add(shown.lower())
        found.append(shown)
    return found


def _while_open(
    undo: ExitStack,
    waits: Interruptible,
    first: pa.RecordBatch | None,
    reader: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    with undo:
        batch = first
        while batch is not None:
            yield batch
            batch = _next(waits, reader)


def _next(waits: Interruptible, reader: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    """Return some more rows of an answer; None if there are no more."""
    try:
        return waits.call(lambda: next(reader, None))
    except (duckdb_here().Error, pa.ArrowException, OSError, UnicodeDecodeError) as error:
        # NOTE: what DuckDB (2.0) finds behind the first rows comes out of Arrow as an OSError.
        raise refusal(error) from error


def _named(root: str | PathLike[str], query: str) -> list[str]:
    """Return the streams that a query names.

    Raises:
        InvalidRequestError: It is no query, or more than one.
    """
    duckdb = duckdb_here()
    there = set(list_streams(root))
    try:
        with duckdb.connect() as connection:
            statements = connection.extract_statements(query)
            if len(statements) != 1 or not _asks(duckdb, statements[0].type, query):
                message = "one query is answered at a time: SELECT, or EXPLAIN of one"
                raise InvalidRequestError(message)
            names = _tables(duckdb, connection, query, there)
    except duckdb.Error as error:
        raise InvalidRequestError(told(str(error))) from error
    exact = there & names
    folded = {name.lower() for name in names - exact}
    return sorted(exact | {name for name in there if name.lower() in folded})


def _refuse_alike(names: Iterable[str]) -> None:
    """Refuse names that are one to SQL, so that no stream answers for another."""
    met: dict[str, str] = {}
    for name in dict.fromkeys(names):
        other = met.setdefault(name.lower(), name)
        if other != name:
            message = (
                f"streams {other!r} and {name!r} differ only in case, which SQL does not tell "
                "apart: ask one of them at a time, by its name as it is written"
            )
            raise InvalidRequestError(message)


def _asks(duckdb: Any, kind: object, query: str) -> bool:  # noqa: ANN401 - a module
    """Tell whether a statement asks; others would write."""
    kinds = duckdb.StatementType
    if kind == kinds.MULTI:
        # A PIVOT looks for its columns first.
        return _first_word(query) in _ASKING
    return kind in (kinds.SELECT, kinds.EXPLAIN)


def _first_word(query: str) -> str:
    found = _FIRST_WORD.match(query)
    return "" if found is None else found[1].upper()


def _tables(duckdb: Any, connection: Any, query: str, there: set[str]) -> set[str]:  # noqa: ANN401 - DuckDB's
    """Return the tables that a query names, and perhaps more of the streams that are there."""
    text = query.lower()
    if _first_word(query) == "SHOW" or "information_schema" in text:
        return there
    written = {name for name in there if name.lower() in text}
    try:
        # NOTE: DuckDB (2.0) leaves out those that are called like views of its own; a stream
        # hides them.
        own = {name for name in written if name.lower().startswith(_ITS_OWN)}
        return own | set(connection.get_table_names(query))
    except duckdb.Error:
        # NOTE: DuckDB (2.0) has none of a query with PIVOT, or with UNPIVOT of columns.
        return written

"""SQL over the streams of a root, by DuckDB: their parts, and the rows that are not sealed yet.

    with connect("./data") as streams:
        streams.sql('SELECT device, avg(temperature) FROM telemetry GROUP BY device').show()

A stream is a table by its name. It is a snapshot: the list of its parts, and beside them the
committed rows behind, as Arrow, of each transaction all or none. Parts of several versions of a
schema are united by the names of their columns. What has expired or was given up is not shown.
DuckDB skips row groups by the statistics and the bloom filters of parts: `EXPLAIN ANALYZE` tells
how many it scanned.

A query reads the streams that it names, proves what it reads of their parts, and reaches nothing
else (engine.py, statements.py, part_files.py).
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa

from storage_core.catalog.root_file import list_streams
from storage_core.catalog.stream_file import read_stream
from storage_core.errors import InvalidRequestError, ShardlogError
from storage_core.format.window import Unit
from storage_core.platform.name_suggestions import likely_name, listed_names
from storage_core.read.cold.parts import part_path, parts_directory
from storage_core.sql.answer import Answer, next_batch
from storage_core.sql.columns_told_apart import told_apart
from storage_core.sql.engine import EngineOptions, duckdb_here, open_engine, open_parser
from storage_core.sql.interruptible import Interruptible
from storage_core.sql.json_of_bytes import JsonOfBytes
from storage_core.sql.missing import refuse_damaged, told_missing
from storage_core.sql.moment import TRIES_MAX, Moment, PartGoneError, look
from storage_core.sql.part_files import ListedPart, PartFiles
from storage_core.sql.sql_casts import quoted
from storage_core.sql.sql_errors import PartUnreadError, refusal, translated
from storage_core.sql.statements import Question, question_of
from storage_core.sql.time_conditions import with_bounds
from storage_core.sql.views import OF_A_STREAM, show

_NO_TABLE: Final = "Catalog Error: Table with name"
# The streams that a name alone stands for: not where a table of the caller's is found first, or has
# replaced a stream's view.
_STREAMS: Final = (
    f"SELECT lower(view_name) FROM duckdb_views() WHERE comment = '{OF_A_STREAM}' "  # noqa: S608 - ours
    "AND database_name = 'memory' AND schema_name = 'main' "
    "AND current_database() = 'memory' AND current_schema() = 'main' "
    "EXCEPT SELECT lower(table_name) FROM duckdb_tables() WHERE temporary "
    "EXCEPT SELECT lower(view_name) FROM duckdb_views() WHERE temporary"
)
# So many streams are named to whoever has named none.
_TOLD_MAX: Final = 10


def connect(
    root: str | PathLike[str],
    streams: Iterable[str] | None = None,
    *,
    memory_bytes_max: int | None = None,
    verify_checksums: bool = True,
    allow_external_access: bool = False,
) -> "Streams":
    """Return what answers SQL over some streams of a root, or over all.

    Args:
        root: The root.
        streams: The streams' names, which are looked at once. If None all, each looked at by the
            first query that names it.
        memory_bytes_max: What DuckDB may hold in memory, beside the rows that are not sealed; the
            rest lies on disk. If None a quarter of the memory, and no less than a GiB.
        verify_checksums: Compare what is read of parts with their digests.
        allow_external_access: Let DuckDB read and write other files, load extensions and take
            settings; without it, it reads streams alone.

    Raises:
        InvalidRequestError: DuckDB is not installed, there is no such root or stream, or names
            of two differ only in case.
    """
    options = EngineOptions(memory_bytes_max, verify_checksums, allow_external_access)
    return Streams(root, streams, options)


class Streams:
    """Streams of a root as tables of DuckDB. One thread at a time."""

    def __init__(
        self,
        root: str | PathLike[str],
        streams: Iterable[str] | None,
        options: EngineOptions,
    ) -> None:
        """Look at the streams that were named, as they are now."""
        self._root = Path(root).absolute()
        self._options = options
        self._is_of_all = streams is None
        self._names = list_streams(root) if streams is None else list(streams)
        # By their names as SQL tells them apart.
        self._looked_at: dict[str, str] = {}
        # Those that a `refresh` which failed has not come to.
        self._behind: dict[str, str] = {}
        # IMPORTANT: DuckDB keeps bytes by names, and only those that are proven are what they were.
        self._look_number = None if options.verify_checksums else 0
        self._units: dict[str, Unit] = {}
        self._files = PartFiles(verify_checksums=options.verify_checksums)
        self.connection = open_engine(options, self._files)
        self._parser: Any = None
        try:
            self._json = JsonOfBytes(self.connection)
            if not self._is_of_all:
                self._look(self._names)
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
        if self._parser is not None:
            self._parser.close()

    def refresh(self) -> None:
        """Look anew at the streams that were looked at.

        Raises:
            InvalidRequestError: One that was named is not there any more.
            UnavailableError: A part went while it was looked at.
        """
        self._behind |= self._looked_at
        if self._look_number is not None:
            self._look_number += 1
        self._looked_at.clear()
        if self._is_of_all:
            self._names = list_streams(self._root)
            for name in {*self._behind.values()}.difference(self._names):
                self._forget(name)
        self._look(self._behind.values())

    def sql(self, query: str) -> Answer:
        """Return the answer to a query: DuckDB's relation, lazy, and of the last look.

        Raises, as its methods do:
            InvalidRequestError: The query cannot be understood, or does not only ask.
            CorruptionError: What it begins with is damaged.
            UnavailableError: A part has gone since the last look.
        """
        return Answer(self.relation(query), self)

    def relation(self, query: str) -> Any:  # noqa: ANN401 - DuckDB's
        """Return the answer as DuckDB's own relation, whose methods raise its own errors."""
        with self.translated():
            question = self._question(query)
            bounded = with_bounds(self._parser, question.text, self._units)
            if bounded != question.text and self._are_streams(question.streams):
                try:
                    return self.connection.sql(question.before + bounded)
                except duckdb_here().InterruptException:
                    # `EXPLAIN ANALYZE` ran: whoever ended it does not want it once more.
                    raise
                except duckdb_here().Error:
                    # What is wrong is told of the query as it was written.
                    pass
            return self.connection.sql(question.before + question.text)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Give an error of DuckDB's its kind, and what is known of it here."""
        self._files.take_failure()
        try:
            with translated():
                yield
        except ShardlogError as error:
            failure = self._files.take_failure()
            if failure is not None and failure is not error:
                raise failure from error
            if isinstance(error, PartUnreadError) and not self._options.verify_checksums:
                refuse_damaged(self._root, self._looked_at.values())
            if error.message.startswith(_NO_TABLE):
                raise InvalidRequestError(_not_there(error.message, self._names)) from error
            raise

    def failure_of(self, error: Exception) -> BaseException:
        """Return what an error behind the first rows is to a caller."""
        failure = self._files.take_failure() or refusal(error)
        if isinstance(failure, PartUnreadError) and not self._options.verify_checksums:
            refuse_damaged(self._root, self._looked_at.values())
        return failure

    def _question(self, query: str) -> Question:
        """Return what DuckDB is asked; the streams that a query names are looked at."""
        if self._parser is None:
            allowed = self._options.allow_external_access
            self._parser = open_parser(allow_external_access=allowed)
        question = question_of(self._parser, query, self._names)
        self._look(name for name in question.streams if not self._has_looked_at(name))
        self._json.refuse_in(question.text)
        return question

    def _are_streams(self, names: Iterable[str]) -> bool:
        """Tell whether names stand for streams; no while rows of another query are fetched."""
        try:
            # IMPORTANT: not by `execute`, which ends what was executed before and not fetched.
            streams = self.connection.sql(_STREAMS).fetchall()
        except duckdb_here().InterruptException:
            raise
        except duckdb_here().Error:
            return False
        return all((name.lower(),) in streams for name in names)

    def _has_looked_at(self, name: str) -> bool:
        return self._looked_at.get(name.lower()) == name

    def _look(self, names: Iterable[str]) -> None:
        wanted = list(dict.fromkeys(names))
        _refuse_alike([*self._looked_at.values(), *wanted])
        for name in wanted:
            moment = look(self._root, name)
            parts = _parts_of(self._root, name, moment, self._look_number)
            with translated(), self._files.listing(name, parts.values()):
                show(self.connection, name, moment, {path: one.url for path, one in parts.items()})
            self._looked_at[name.lower()] = name
            self._behind.pop(name.lower(), None)
            self._units[name.lower()] = moment.unit

    def _forget(self, name: str) -> None:
        self.connection.execute(f"DROP VIEW IF EXISTS {quoted(name)}")
        self._files.forget(name)
        del self._behind[name.lower()]
        del self._units[name.lower()]


def _parts_of(
    root: Path, name: str, moment: Moment, look_number: int | None
) -> dict[str, ListedPart]:
    """Return the parts of a stream by their paths."""
    place = read_stream(root, name)
    found: dict[str, ListedPart] = {}
    for shard, parts in moment.looks.items():
        directory = parts_directory(place.shard_directory(shard))
        for entry in parts.entries:
            path = part_path(directory, entry)
            found[str(path)] = ListedPart(name, shard, path, entry, look_number)
    return found


def batches_of(  # noqa: PLR0913 - one parameter an option
    root: str | PathLike[str],
    query: str,
    progress: Callable[[float], None] | None = None,
    *,
    memory_bytes_max: int | None = None,
    verify_checksums: bool = True,
    allow_external_access: bool = False,
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
        verify_checksums: As for `connect`.
        allow_external_access: As for `connect`.

    Raises:
        InvalidRequestError: The query cannot be understood, names what is not there, or needs
            more than it may take.
        CorruptionError: A part is damaged, or not there.
        UnavailableError: Parts went on going before they could be opened.
    """
    options = EngineOptions(
        memory_bytes_max,
        verify_checksums,
        allow_external_access,
        keeps_bytes=False,
        tells_progress=progress is not None,
    )
    for _ in range(TRIES_MAX):
        with suppress(PartGoneError):
            return _answer(root, query, progress, options)
    raise told_missing(root, _named(root, query, options))


def _named(root: str | PathLike[str], query: str, options: EngineOptions) -> Collection[str]:
    """Return the streams that a query names."""
    with open_parser(allow_external_access=options.allow_external_access) as parser:
        return question_of(parser, query, list_streams(root)).streams


def _not_there(message: str, names: Collection[str]) -> str:
    """Return the text for a table that is not there: which is like it, and which there are."""
    name = message.removeprefix(_NO_TABLE).split()[0].strip('"')
    first = message.partition(";")[0].rstrip("!")
    like = likely_name(name, names)
    meant = "" if like is None else f'; did you mean "{like}"?'
    return f"{first}{meant}; streams: {listed_names(sorted(names), _TOLD_MAX)}"


def _answer(
    root: str | PathLike[str],
    query: str,
    progress: Callable[[float], None] | None,
    options: EngineOptions,
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Look at the streams of a query, and return its answer; its first rows are there."""
    with ExitStack() as undo:
        streams = undo.enter_context(Streams(root, None, options))
        waits = Interruptible(streams.connection.interrupt, _teller(streams.connection, progress))
        undo.callback(waits.close)
        relation = streams.relation(query)
        with streams.translated():
            reader = waits.call(told_apart(relation).to_arrow_reader)
        first = _next(streams, waits, reader)
        return reader.schema, _while_open(undo.pop_all(), streams, waits, first, reader)


def _teller(
    connection: Any,  # noqa: ANN401 - DuckDB's
    progress: Callable[[float], None] | None,
) -> Callable[[], None] | None:
    """Return what tells how far a query is; None if nobody wants to know."""
    return None if progress is None else lambda: progress(connection.query_progress())


def _while_open(
    undo: ExitStack,
    streams: Streams,
    waits: Interruptible,
    first: pa.RecordBatch | None,
    reader: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    with undo:
        batch = first
        while batch is not None:
            yield batch
            batch = _next(streams, waits, reader)


def _next(
    streams: Streams, waits: Interruptible, reader: Iterator[pa.RecordBatch]
) -> pa.RecordBatch | None:
    """Return some more rows of an answer; None if there are no more."""
    return waits.call(lambda: next_batch(reader, streams))


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

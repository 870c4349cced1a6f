"""SQL over the streams of a root, by DuckDB: parts and hot rows.

    with connect("./data") as streams:      or from servers over a root: "shardlog://a:8085,b:8085"
        streams.sql('SELECT device, avg(temperature) FROM telemetry GROUP BY device').show()

A stream is a table. The table is a snapshot: the list of its parts, and the committed rows that no
part has yet as Arrow; each transaction is whole or absent. Parts of several schema versions are
united by column name. Rows that expired or whose loss was accepted are filtered. DuckDB skips row
groups by the statistics and bloom filters of parts; `EXPLAIN ANALYZE` counts those it scanned.

A query reads the streams that it names, verifies what it reads of their parts, and can reach
nothing else (engine.py, statements.py, part_files.py).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from os import PathLike
from typing import Any, Final

import pyarrow as pa

from storage_core.errors import InvalidRequestError, ShardlogError
from storage_core.format.window import Unit
from storage_core.platform.closing import Closing
from storage_core.platform.name_suggestions import likely_name, listed_names
from storage_core.platform.overriding import override
from storage_core.remote.addresses import names_servers
from storage_core.remote.options import ServerOptions
from storage_core.sql.access.path_streams import PathStreams, ReadablePart, RootStreams
from storage_core.sql.access.served_streams import ServedStreams
from storage_core.sql.answer import Answer, for_output, next_batch
from storage_core.sql.engine import EngineOptions, import_duckdb, open_engine, open_parser
from storage_core.sql.interruptible import Interruptible
from storage_core.sql.json_macros import JsonMacros
from storage_core.sql.part_files import ListedPart, PartFiles
from storage_core.sql.part_groups import SNAPSHOT_TRIES_MAX, PartGoneError
from storage_core.sql.query_errors import (
    PartUnreadError,
    as_shardlog_error,
    missing_part_error,
    translated,
    verify_part_digests,
)
from storage_core.sql.statements import ParsedQuery, parse_query
from storage_core.sql.stream_view import VIEW_COMMENT, create_view, quoted
from storage_core.sql.time_conditions import with_bounds

_NO_TABLE: Final = "Catalog Error: Table with name"
# The streams that a bare name resolves to: not if a table of the caller's comes first, or has
# replaced the stream's view.
_STREAMS: Final = (
    f"SELECT lower(view_name) FROM duckdb_views() WHERE comment = '{VIEW_COMMENT}' "  # noqa: S608 - ours
    "AND database_name = 'memory' AND schema_name = 'main' "
    "AND current_database() = 'memory' AND current_schema() = 'main' "
    "EXCEPT SELECT lower(table_name) FROM duckdb_tables() WHERE temporary "
    "EXCEPT SELECT lower(view_name) FROM duckdb_views() WHERE temporary"
)
# How many streams a message lists.
_LISTED_MAX: Final = 10


def connect(  # noqa: PLR0913 - one parameter an option
    root: str | PathLike[str],
    streams: Iterable[str] | None = None,
    *,
    memory_bytes_max: int | None = None,
    verify_checksums: bool = True,
    allow_external_access: bool = False,
    server: ServerOptions | None = None,
) -> "Streams":
    """Open some streams of a root, or all, for SQL.

    Args:
        root: The root; or servers over one, as `shardlog://a:8085,b:8085`.
        streams: The names of the streams, whose snapshots are taken now. If None all streams; the
            first query that names one takes its snapshot.
        memory_bytes_max: DuckDB's memory limit, beside the hot rows; the rest spills to disk. If
            None a quarter of the memory, and at least one GiB.
        verify_checksums: Compare what is read of parts with their digests.
        allow_external_access: Let DuckDB read and write other files, load extensions and change
            settings; without it, it reads streams only.
        server: How servers are asked; what is not said is in the environment.

    Raises:
        InvalidRequestError: DuckDB is not installed, there is no such root or stream, or names
            of two differ only in case.
        UnavailableError: No server answers.
    """
    options = EngineOptions(memory_bytes_max, verify_checksums, allow_external_access)
    return Streams(root, streams, options, server)


class Streams(Closing):
    """Streams of a root as tables of DuckDB. One thread at a time."""

    def __init__(
        self,
        root: str | PathLike[str],
        streams: Iterable[str] | None,
        options: EngineOptions,
        server: ServerOptions | None = None,
    ) -> None:
        """Take a snapshot of the named streams."""
        self._root = _root_streams(root, server)
        self._options = options
        self._has_all_streams = streams is None
        # Streams with a view, by lowercase name.
        self._loaded: dict[str, str] = {}
        # Streams that a failed `refresh` has not reached.
        self._stale: dict[str, str] = {}
        # IMPORTANT: DuckDB caches bytes by file name. Unverified ones may have been damaged when
        # they were read, so each snapshot has names of its own.
        self._snapshot_number = None if options.verify_checksums else 0
        self._units: dict[str, Unit] = {}
        self._files = PartFiles(verify_checksums=options.verify_checksums)
        self._parser: Any = None
        with ExitStack() as undo:
            undo.callback(self._root.close)
            self._names = self._root.names() if streams is None else list(streams)
            with translated():
                self.connection = open_engine(options, self._files)
                undo.callback(self.connection.close)
                self._json = JsonMacros(self.connection)
            if not self._has_all_streams:
                self._load(self._names)
            undo.pop_all()

    @override
    def close(self) -> None:
        """Close the connection."""
        self.connection.close()
        if self._parser is not None:
            self._parser.close()
        self._root.close()

    def interrupt(self) -> None:
        """End the query that runs; from any thread, again and again until it has ended."""
        self._root.interrupt()
        self.connection.interrupt()

    def refresh(self) -> None:
        """Take new snapshots of the streams that have one.

        Raises:
            InvalidRequestError: A named stream no longer exists.
            UnavailableError: A part was deleted meanwhile.
        """
        self._stale |= self._loaded
        if self._snapshot_number is not None:
            self._snapshot_number += 1
        self._loaded.clear()
        if self._has_all_streams:
            self._names = self._root.names()
            for name in {*self._stale.values()}.difference(self._names):
                self._forget(name)
        self._load(self._stale.values())

    def sql(self, query: str) -> Answer:
        """Return the answer to a query: a lazy relation over the last snapshots.

        Raises, as its methods do:
            InvalidRequestError: The query is invalid, or is not a read-only query.
            CorruptionError: A part is damaged.
            UnavailableError: A part was deleted since the snapshot.
        """
        return Answer(self.relation(query), self)

    def relation(self, query: str) -> Any:  # noqa: ANN401 - DuckDB's
        """Return the answer as DuckDB's own relation, whose methods raise its own errors."""
        with self.translated():
            parsed = self._parsed(query)
            bounded = with_bounds(self._parser, parsed.text, self._units)
            if bounded != parsed.text and self._are_streams(parsed.streams):
                try:
                    return self.connection.sql(parsed.prefix + bounded)
                except import_duckdb().InterruptException:
                    # `EXPLAIN ANALYZE` ran: do not run it again.
                    raise
                except import_duckdb().Error:
                    # The message shall quote the query as it was written.
                    pass
            return self.connection.sql(parsed.prefix + parsed.text)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Translate errors of DuckDB's, with the error of a part where there was one."""
        self._files.take_failure()
        try:
            with translated():
                yield
        except ShardlogError as error:
            failure = self._files.take_failure()
            if failure is not None and failure is not error:
                raise failure from error
            if isinstance(error, PartUnreadError) and not self._options.verify_checksums:
                verify_part_digests(self._root, self._loaded.values())
            if error.message.startswith(_NO_TABLE):
                raise InvalidRequestError(_no_table_message(error.message, self._names)) from error
            raise

    def failure_of(self, error: Exception) -> BaseException:
        """Return the translation of an error after the first rows."""
        failure = self._files.take_failure() or as_shardlog_error(error)
        if isinstance(failure, PartUnreadError) and not self._options.verify_checksums:
            verify_part_digests(self._root, self._loaded.values())
        return failure

    def _parsed(self, query: str) -> ParsedQuery:
        """Parse a query; take snapshots of the streams that it names."""
        if self._parser is None:
            allowed = self._options.allow_external_access
            self._parser = open_parser(allow_external_access=allowed)
        parsed = parse_query(self._parser, query, self._names)
        self._load(name for name in parsed.streams if not self._is_loaded(name))
        self._json.refuse_bytes_in(parsed.text)
        return parsed

    def _are_streams(self, names: Iterable[str]) -> bool:
        """Tell whether names resolve to streams; False while rows of another query are fetched."""
        try:
            # IMPORTANT: not by `execute`, which ends an earlier result that is not fetched yet.
            streams = self.connection.sql(_STREAMS).fetchall()
        except import_duckdb().InterruptException:
            raise
        except import_duckdb().Error:
            return False
        return all((name.lower(),) in streams for name in names)

    def _is_loaded(self, name: str) -> bool:
        return self._loaded.get(name.lower()) == name

    def _load(self, names: Iterable[str]) -> None:
        requested = list(dict.fromkeys(names))
        _refuse_same_names([*self._loaded.values(), *requested])
        for name in requested:
            snapshot, parts = self._root.snapshot(name)
            listed = _listed_parts(name, parts, self._snapshot_number)
            with translated(), self._files.listing(name, listed.values()):
                urls = {path: part.url for path, part in listed.items()}
                create_view(self.connection, name, snapshot, urls)
            self._loaded[name.lower()] = name
            self._stale.pop(name.lower(), None)
            self._units[name.lower()] = snapshot.unit

    def _forget(self, name: str) -> None:
        with translated():
            self.connection.execute(f"DROP VIEW IF EXISTS {quoted(name)}")
        self._files.forget(name)
        del self._stale[name.lower()]
        del self._units[name.lower()]


def _root_streams(root: str | PathLike[str], server: ServerOptions | None) -> RootStreams:
    """Return what reads the streams of a root, by its path or from servers."""
    if not names_servers(root):
        return PathStreams(root)
    return ServedStreams(str(root), server)


def _listed_parts(
    name: str, parts: Mapping[str, ReadablePart], snapshot_number: int | None
) -> dict[str, ListedPart]:
    """Return the parts of a stream by their paths."""
    return {
        path: ListedPart(
            name,
            readable.part.shard,
            readable.part.path,
            readable.part.entry,
            readable.opener,
            snapshot_number,
        )
        for path, readable in parts.items()
    }


def query_batches(  # noqa: PLR0913 - one parameter an option
    root: str | PathLike[str],
    query: str,
    progress: Callable[[float], None] | None = None,
    *,
    memory_bytes_max: int | None = None,
    verify_checksums: bool = True,
    allow_external_access: bool = False,
    server: ServerOptions | None = None,
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the answer to a query over a root as batches, in bounded memory.

    Only the streams that it names are read. If a part was deleted before it was opened, the query
    starts again with new snapshots.

    Args:
        root: The root, or servers over one.
        query: The query.
        progress: Called some times a second with the progress in percent; below 0 if unknown.
        memory_bytes_max: As for `connect`.
        verify_checksums: As for `connect`.
        allow_external_access: As for `connect`.
        server: As for `connect`.

    Raises:
        InvalidRequestError: The query is invalid, names a table that does not exist, or needs
            more memory or disk than its limits.
        CorruptionError: A part is damaged or missing.
        UnavailableError: Parts were deleted before they could be opened, several times.
    """
    options = EngineOptions(
        memory_bytes_max,
        verify_checksums,
        allow_external_access,
        cache_bytes=False,
        report_progress=progress is not None,
    )
    for _ in range(SNAPSHOT_TRIES_MAX):
        with suppress(PartGoneError):
            return _answer(Streams(root, None, options, server), query, progress)
    with closing(_root_streams(root, server)) as streams:
        raise missing_part_error(streams, _streams_in(streams, query, options))


def _streams_in(root: RootStreams, query: str, options: EngineOptions) -> Collection[str]:
    """Return the streams that a query names."""
    with translated(), open_parser(allow_external_access=options.allow_external_access) as parser:
        return parse_query(parser, query, root.names()).streams


def _no_table_message(message: str, names: Collection[str]) -> str:
    """Return the message for a table that does not exist: similar names, and the streams."""
    name = message.removeprefix(_NO_TABLE).split()[0].strip('"')
    first = message.partition(";")[0].rstrip("!")
    likely = likely_name(name, names)
    hint = "" if likely is None else f'; did you mean "{likely}"?'
    return f"{first}{hint}; streams: {listed_names(sorted(names), _LISTED_MAX)}"


def _answer(
    opened: Streams, query: str, progress: Callable[[float], None] | None
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the answer to a query once its first rows have come."""
    with ExitStack() as stack:
        streams = stack.enter_context(opened)
        connection = streams.connection
        poll = None if progress is None else lambda: progress(connection.query_progress())
        calls = Interruptible(streams.interrupt)
        stack.callback(calls.close)
        relation = streams.relation(query)
        with streams.translated():
            reader = calls.call(for_output(relation).to_arrow_reader, poll)

        def next_rows() -> pa.RecordBatch | None:
            return calls.call(lambda: next_batch(reader, streams), poll)

        first = next_rows()
        return reader.schema, _batches(stack.pop_all(), first, next_rows)


def _batches(
    stack: ExitStack,
    first: pa.RecordBatch | None,
    next_rows: Callable[[], pa.RecordBatch | None],
) -> Iterator[pa.RecordBatch]:
    with stack:
        batch = first
        while batch is not None:
            yield batch
            batch = next_rows()


def _refuse_same_names(names: Iterable[str]) -> None:
    """Refuse names that are equal to SQL, so that no stream answers for another."""
    names_by_lowercase: dict[str, str] = {}
    for name in dict.fromkeys(names):
        other = names_by_lowercase.setdefault(name.lower(), name)
        if other != name:
            message = (
                f"streams {other!r} and {name!r} differ only in case, and SQL names ignore case: "
                "query one of them at a time, by its exact name"
            )
            raise InvalidRequestError(message)

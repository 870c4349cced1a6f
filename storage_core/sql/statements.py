"""Statements, by DuckDB's parser: whether one is a read-only query, and which streams it names.

Allowed is one statement: SELECT and what DuckDB makes one (FROM, WITH, VALUES, PIVOT, SHOW,
DESCRIBE, SUMMARIZE), or EXPLAIN of one. Others write, change a setting, or reach outside. EXPLAIN
ANALYZE runs its query, so the query is parsed alone, and EXPLAIN is put before the parsed text.
"""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from storage_core.errors import InvalidRequestError
from storage_core.sql.engine import import_duckdb
from storage_core.sql.query_errors import translated

_ONE_QUERY: Final = (
    "one read-only query at a time: SELECT, EXPLAIN of one, SHOW, DESCRIBE or SUMMARIZE"
)
# The first words of queries that DuckDB splits into several, as a PIVOT that looks for columns.
_QUERY_WORDS: Final = ("SELECT", "FROM", "PIVOT", "UNPIVOT", "WITH")
# A comment inside of a comment does not match: DuckDB decides where it ends.
_SPACE: Final = r"(?:\s|--[^\n]*\n|/\*(?:(?!/\*|\*/).)*\*/)*"
_FIRST_WORD: Final = re.compile(rf"(?:{_SPACE}\()*{_SPACE}([a-zA-Z]+)", re.DOTALL)
_END: Final = re.compile(r"(?:\s|;|--[^\n]*(?:\n|\Z)|/\*(?:(?!/\*|\*/).)*\*/)+\Z", re.DOTALL)
_EXPLAIN: Final = re.compile(
    rf"{_SPACE}EXPLAIN\b((?:{_SPACE}(?:ANALYZE|ANALYSE|VERBOSE)\b)*)(.*)",
    re.DOTALL | re.IGNORECASE,
)
_OPTION: Final = r"[a-z_]+(?:\s+[a-z_]+)?"
_OPTIONS: Final = re.compile(
    rf"\s*(\(\s*{_OPTION}(?:\s*,\s*{_OPTION})*\s*\))(.*)", re.DOTALL | re.IGNORECASE
)
_NEAR: Final = re.compile(r'Parser Error: syntax error at or near "(.+?)"')
_SHOW_TABLES: Final = re.compile(r"\s*SHOW\s+TABLES\s*;?\s*", re.IGNORECASE)
# NOTE: SHOW TABLES of DuckDB (2.0) reads system views, which a stream of such a name hides.
_IN_SEARCH_PATH: Final = "in_search_path(database_name, schema_name)"
_OTHER_TABLES: Final = (
    f"SELECT table_name FROM duckdb_tables() WHERE {_IN_SEARCH_PATH} "  # noqa: S608 - its own words
    f"UNION SELECT view_name FROM duckdb_views() WHERE NOT internal AND {_IN_SEARCH_PATH}"
)
# Shows the columns of all tables.
_SHOWS_ALL: Final = re.compile(
    r"information_schema|\bduckdb_(?:tables|views|columns)\s*\("
    rf"|\bSHOW\b{_SPACE}(?:ALL\b{_SPACE})?TABLES\b",
    re.DOTALL | re.IGNORECASE,
)
_SHOWS_ALL_ALONE: Final = re.compile(rf"{_SPACE}(?:SHOW|DESC|DESCRIBE)", re.DOTALL | re.IGNORECASE)
_SHOW_ALL_TABLES: Final = re.compile(
    rf"{_SPACE}SHOW\b{_SPACE}ALL\b{_SPACE}TABLES", re.DOTALL | re.IGNORECASE
)
_CATALOG_FUNCTIONS: Final = ("duckdb_tables", "duckdb_views", "duckdb_columns")
# Functions with a table name as a string.
_NAMES_IN_STRINGS: Final = re.compile(r"\bquery(?:_table)?\s*\(", re.IGNORECASE)
# The first letters of DuckDB's system views.
_SYSTEM_PREFIXES: Final = ("duckdb_", "pg_", "pragma_", "sqlite_")


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A read-only query.

    Attributes:
        text: The query.
        streams: The streams that it names, and perhaps others whose names are in its text.
        prefix: EXPLAIN with its options, or nothing.
    """

    text: str
    streams: tuple[str, ...]
    prefix: str = ""


def parse_query(parser: Any, query: str, stream_names: Collection[str]) -> ParsedQuery:  # noqa: ANN401 - DuckDB's
    """Parse a query.

    Args:
        parser: A connection without tables.
        query: The query.
        stream_names: The streams that it may name.

    Raises:
        InvalidRequestError: It is not a read-only query, or more than one.
    """
    with _told_of_quotes(parser, query, stream_names), translated():
        return _parse(parser, query, stream_names)


def _parse(parser: Any, query: str, stream_names: Collection[str]) -> ParsedQuery:  # noqa: ANN401 - DuckDB's
    statement_type = _statement_type(parser, query)
    if statement_type == "EXPLAIN" or _first_word(query) == "EXPLAIN":
        return _parse_explain(parser, query, stream_names)
    if statement_type == "MULTI":
        query = _one_query(parser, query)
    elif statement_type != "SELECT":
        raise InvalidRequestError(_ONE_QUERY)
    if _SHOW_TABLES.fullmatch(query):
        return ParsedQuery(_show_tables(stream_names), ())
    _refuse_hidden_catalog(query, stream_names)
    return ParsedQuery(query, tuple(sorted(_streams(parser, query, stream_names))))


@contextmanager
def _told_of_quotes(parser: Any, query: str, stream_names: Collection[str]) -> Iterator[None]:  # noqa: ANN401 - DuckDB's
    """Let the message of a query that does not parse say which stream must be quoted in it."""
    try:
        yield
    except InvalidRequestError as error:
        near = _NEAR.match(error.message)
        named = [name for name in stream_names if near and near[1].lower() in name.lower()]
        name = next((name for name in named if _lacks_quotes(parser, query, name)), None)
        if name is None:
            raise
        message = f'{error.message}; write the stream as "{name}", in quotes'
        raise InvalidRequestError(message) from error


def _lacks_quotes(parser: Any, query: str, name: str) -> bool:  # noqa: ANN401 - DuckDB's
    """Tell whether a query has a name without quotes that only parses in quotes."""
    unquoted = rf"(?<![\w.\"'-]){re.escape(name)}(?![\w.\"'-])"
    is_named = re.search(unquoted, query, re.IGNORECASE) is not None
    return is_named and not _parses(parser, f"FROM {name}")


def _statement_type(parser: Any, query: str) -> str:  # noqa: ANN401 - DuckDB's
    """Return DuckDB's type of the one statement."""
    statements = parser.extract_statements(query)
    if len(statements) != 1:
        raise InvalidRequestError(_ONE_QUERY)
    name: str = statements[0].type.name
    return name


def _one_query(parser: Any, query: str) -> str:  # noqa: ANN401 - DuckDB's
    """Return a query that DuckDB splits into several statements."""
    text = _END.sub("", query)
    # IMPORTANT: a WITH that writes does not parse as a subquery.
    if _first_word(text) not in _QUERY_WORDS or not _parses(parser, f"FROM (\n{text}\n)"):
        raise InvalidRequestError(_ONE_QUERY)
    return text


def _parse_explain(parser: Any, query: str, stream_names: Collection[str]) -> ParsedQuery:  # noqa: ANN401 - DuckDB's
    """Parse an EXPLAIN."""
    match = _EXPLAIN.match(query)
    if match is None:
        raise InvalidRequestError(_ONE_QUERY)
    words, rest = match.groups()
    is_analyze = re.search(r"\bANALY[ZS]E\b", words, re.IGNORECASE) is not None
    prefix = "EXPLAIN ANALYZE" if is_analyze else "EXPLAIN"
    options = _OPTIONS.fullmatch(rest)
    if options is not None and not _parses(parser, rest):
        prefix, rest = f"{prefix} {options[1]}", options[2]
    explained = _parse(parser, rest, stream_names)
    if _first_word(rest) == "EXPLAIN":
        raise InvalidRequestError(_ONE_QUERY)
    return ParsedQuery(explained.text, explained.streams, f"{prefix} ")


def _parses(parser: Any, query: str) -> bool:  # noqa: ANN401 - DuckDB's
    try:
        return len(parser.extract_statements(query)) == 1
    except import_duckdb().Error:
        return False


def _first_word(query: str) -> str:
    match = _FIRST_WORD.match(query)
    return "" if match is None else match[1].upper()


def _show_tables(names: Collection[str]) -> str:
    """Return a query for the rows of SHOW TABLES: streams and other tables."""
    listed = ", ".join(_literal(name) for name in sorted(names))
    return f"SELECT unnest([{listed}]::VARCHAR[]) AS name UNION {_OTHER_TABLES} ORDER BY name"


def _refuse_hidden_catalog(query: str, stream_names: Collection[str]) -> None:
    """Refuse to list all columns if a stream hides the catalog function of that."""
    hiding = next((name for name in stream_names if name.lower() in _CATALOG_FUNCTIONS), None)
    if hiding is not None and _shows_all(query):
        message = (
            f"stream {hiding!r} hides the catalog function of that name; use SHOW TABLES to list "
            "streams, and DESCRIBE for the columns of one"
        )
        raise InvalidRequestError(message)


def _shows_all(query: str) -> bool:
    text = _END.sub("", query)
    return any(pattern.fullmatch(text) for pattern in (_SHOWS_ALL_ALONE, _SHOW_ALL_TABLES))


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _streams(parser: Any, query: str, stream_names: Collection[str]) -> set[str]:  # noqa: ANN401 - DuckDB's
    """Return the streams that a query names, by exact name or else ignoring case."""
    names = _tables(parser, query, stream_names)
    exact = names & set(stream_names)
    folded = {name.lower() for name in names - exact}
    return exact | {name for name in stream_names if name.lower() in folded}


def _tables(parser: Any, query: str, stream_names: Collection[str]) -> set[str]:  # noqa: ANN401 - DuckDB's
    """Return the tables that a query names, and perhaps more streams."""
    if _SHOWS_ALL.search(query) or _SHOWS_ALL_ALONE.fullmatch(_END.sub("", query)):
        return set(stream_names)
    text = query.lower()
    mentioned = {name for name in stream_names if name.lower() in text}
    if _NAMES_IN_STRINGS.search(query):
        return mentioned
    try:
        # NOTE: DuckDB (2.0) leaves out tables named like system views, which a stream hides.
        system_like = {name for name in mentioned if name.lower().startswith(_SYSTEM_PREFIXES)}
        return system_like | set(parser.get_table_names(query))
    except import_duckdb().Error:
        # NOTE: DuckDB (2.0) returns no names for PIVOT, or for UNPIVOT of columns.
        return mentioned

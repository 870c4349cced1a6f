"""What a statement is, as DuckDB's own parser sees it: a question, and to which streams.

One statement is answered that asks: SELECT and what DuckDB makes one (FROM, WITH, VALUES, PIVOT,
SHOW, DESCRIBE, SUMMARIZE), or EXPLAIN of such a one. Others write, change a setting, or reach
outside. EXPLAIN ANALYZE runs what it explains, so that is parsed by itself, and what is run is put
together of EXPLAIN and the text that was parsed.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from storage_core.errors import InvalidRequestError
from storage_core.sql.engine import duckdb_here
from storage_core.sql.sql_errors import translated

_ONE_QUESTION: Final = (
    "one query is answered at a time: SELECT, or EXPLAIN of one, SHOW, DESCRIBE, SUMMARIZE"
)
# How a statement begins that DuckDB makes several of, such as a PIVOT that looks for its columns.
_ASKING: Final = ("SELECT", "FROM", "PIVOT", "UNPIVOT", "WITH")
# A comment inside of another is left to DuckDB, which ends it where it does.
_BEFORE: Final = r"(?:\s|--[^\n]*\n|/\*(?:(?!/\*|\*/).)*\*/)*"
_FIRST_WORD: Final = re.compile(rf"(?:{_BEFORE}\()*{_BEFORE}([a-zA-Z]+)", re.DOTALL)
_END: Final = re.compile(r"(?:\s|;|--[^\n]*(?:\n|\Z)|/\*(?:(?!/\*|\*/).)*\*/)+\Z", re.DOTALL)
_EXPLAIN: Final = re.compile(
    rf"{_BEFORE}EXPLAIN\b((?:{_BEFORE}(?:ANALYZE|ANALYSE|VERBOSE)\b)*)(.*)",
    re.DOTALL | re.IGNORECASE,
)
_OPTION: Final = r"[a-z_]+(?:\s+[a-z_]+)?"
_OPTIONS: Final = re.compile(
    rf"\s*(\(\s*{_OPTION}(?:\s*,\s*{_OPTION})*\s*\))(.*)", re.DOTALL | re.IGNORECASE
)
_SHOW_TABLES: Final = re.compile(r"\s*SHOW\s+TABLES\s*;?\s*", re.IGNORECASE)
# NOTE: SHOW TABLES of DuckDB (2.0) reads views of its own, which a stream hides that is called so.
_HERE: Final = "in_search_path(database_name, schema_name)"
_OTHERS: Final = (
    f"SELECT table_name FROM duckdb_tables() WHERE {_HERE} "  # noqa: S608 - its own words
    f"UNION SELECT view_name FROM duckdb_views() WHERE NOT internal AND {_HERE}"
)
# What shows the columns of all tables.
_SHOWS_ALL: Final = re.compile(
    r"information_schema|\bduckdb_(?:tables|views|columns)\s*\("
    rf"|\bSHOW\b{_BEFORE}(?:ALL\b{_BEFORE})?TABLES\b",
    re.DOTALL | re.IGNORECASE,
)
_SHOWS_ALL_ALONE: Final = re.compile(rf"{_BEFORE}(?:SHOW|DESC|DESCRIBE)", re.DOTALL | re.IGNORECASE)
_SHOW_ALL_TABLES: Final = re.compile(
    rf"{_BEFORE}SHOW\b{_BEFORE}ALL\b{_BEFORE}TABLES", re.DOTALL | re.IGNORECASE
)
_SHOWN_BY: Final = ("duckdb_tables", "duckdb_views", "duckdb_columns")
# What takes the name of a table as a text.
_BY_TEXT: Final = re.compile(r"\bquery(?:_table)?\s*\(", re.IGNORECASE)
# How views of DuckDB's begin that every query can name.
_ITS_OWN: Final = ("duckdb_", "pg_", "pragma_", "sqlite_")


@dataclass(frozen=True, slots=True)
class Question:
    """A statement that asks.

    Attributes:
        text: What DuckDB is asked.
        streams: Those that it names, and perhaps others whose names are in its text.
        before: What stands before the text, such as EXPLAIN.
    """

    text: str
    streams: tuple[str, ...]
    before: str = ""


def question_of(parser: Any, query: str, there: Collection[str]) -> Question:  # noqa: ANN401 - DuckDB's
    """Return what a query asks.

    Args:
        parser: A connection without tables.
        query: The query.
        there: The names of the streams that it may name.

    Raises:
        InvalidRequestError: It is no query, or more than one.
    """
    with translated():
        kind = _kind(parser, query)
        if kind == "EXPLAIN" or _first_word(query) == "EXPLAIN":
            return _explained(parser, query, there)
        if kind == "MULTI":
            query = _of_several(parser, query)
        elif kind != "SELECT":
            raise InvalidRequestError(_ONE_QUESTION)
        if _SHOW_TABLES.fullmatch(query):
            return Question(_list_of(there), ())
        _refuse_hidden(query, there)
        return Question(query, tuple(sorted(_streams(parser, query, there))))


def _kind(parser: Any, query: str) -> str:  # noqa: ANN401 - DuckDB's
    """Return what DuckDB calls a statement."""
    statements = parser.extract_statements(query)
    if len(statements) != 1:
        raise InvalidRequestError(_ONE_QUESTION)
    name: str = statements[0].type.name
    return name


def _of_several(parser: Any, query: str) -> str:  # noqa: ANN401 - DuckDB's
    """Return a query that DuckDB makes several statements of."""
    text = _END.sub("", query)
    # IMPORTANT: what writes behind a WITH is no query inside of another.
    if _first_word(text) not in _ASKING or not _parses(parser, f"FROM (\n{text}\n)"):
        raise InvalidRequestError(_ONE_QUESTION)
    return text


def _explained(parser: Any, query: str, there: Collection[str]) -> Question:  # noqa: ANN401 - DuckDB's
    """Return the question to explain another."""
    match = _EXPLAIN.match(query)
    if match is None:
        raise InvalidRequestError(_ONE_QUESTION)
    words, rest = match.groups()
    is_run = re.search(r"\bANALY[ZS]E\b", words, re.IGNORECASE) is not None
    begin = "EXPLAIN ANALYZE" if is_run else "EXPLAIN"
    options = _OPTIONS.fullmatch(rest)
    if options is not None and not _parses(parser, rest):
        begin, rest = f"{begin} {options[1]}", options[2]
    asked = question_of(parser, rest, there)
    if _first_word(rest) == "EXPLAIN":
        raise InvalidRequestError(_ONE_QUESTION)
    return Question(asked.text, asked.streams, f"{begin} ")


def _parses(parser: Any, query: str) -> bool:  # noqa: ANN401 - DuckDB's
    try:
        return len(parser.extract_statements(query)) == 1
    except duckdb_here().Error:
        return False


def _first_word(query: str) -> str:
    match = _FIRST_WORD.match(query)
    return "" if match is None else match[1].upper()


def _list_of(names: Collection[str]) -> str:
    """Return a query for names as SHOW TABLES has them: those of streams, and of other tables."""
    listed = ", ".join(_literal(name) for name in sorted(names))
    return f"SELECT unnest([{listed}]::VARCHAR[]) AS name UNION {_OTHERS} ORDER BY name"


def _refuse_hidden(query: str, there: Collection[str]) -> None:
    """Refuse to show all columns where a stream hides what DuckDB shows them by."""
    hides = next((name for name in there if name.lower() in _SHOWN_BY), None)
    if hides is not None and _shows_all(query):
        message = (
            f"stream {hides!r} is called as what DuckDB shows the columns of all by; SHOW TABLES "
            "names the streams, and DESCRIBE the columns of one"
        )
        raise InvalidRequestError(message)


def _shows_all(query: str) -> bool:
    alone = _END.sub("", query)
    return any(one.fullmatch(alone) for one in (_SHOWS_ALL_ALONE, _SHOW_ALL_TABLES))


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _streams(parser: Any, query: str, there: Collection[str]) -> set[str]:  # noqa: ANN401 - DuckDB's
    """Return the streams that a query names.

    Where none is called exactly so, one is that differs only in case.
    """
    names = _tables(parser, query, there)
    exact = names & set(there)
    folded = {name.lower() for name in names - exact}
    return exact | {name for name in there if name.lower() in folded}


def _tables(parser: Any, query: str, there: Collection[str]) -> set[str]:  # noqa: ANN401 - DuckDB's
    """Return the tables that a query names, and perhaps more of the streams that are there."""
    if _SHOWS_ALL.search(query) or _SHOWS_ALL_ALONE.fullmatch(_END.sub("", query)):
        return set(there)
    text = query.lower()
    written = {name for name in there if name.lower() in text}
    if _BY_TEXT.search(query):
        return written
    try:
        # NOTE: DuckDB (2.0) leaves out those that are called like views of its own; a stream
        # hides them.
        own = {name for name in written if name.lower().startswith(_ITS_OWN)}
        return own | set(parser.get_table_names(query))
    except duckdb_here().Error:
        # NOTE: DuckDB (2.0) has none of a query with PIVOT, or with UNPIVOT of columns.
        return written

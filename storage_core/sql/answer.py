"""The answer of a query: DuckDB's relation, which raises the log's errors.

A relation runs when its rows are fetched. An error then, as of a damaged part, comes out of DuckDB
as text with a traceback inside. So callers get the relation inside of an `Answer`, which has all
methods of the relation and translates errors; so do relations, rows and readers that come of it.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, Final, Protocol

import pyarrow as pa

from storage_core.sql.engine import import_duckdb
from storage_core.sql.stream_view import quoted

_RELATIONS: Final = ("DuckDBPyRelation", "GroupedRelation")
_END: Final = object()
# Types that few formats have, or that Arrow has with loss.
_CAST_TO_STRING: Final = ("INTERVAL", "UNION", "BIT", "BIGNUM", "VARIANT", "TIME WITH TIME ZONE")


class ErrorTranslator(Protocol):
    """Translates DuckDB's errors into the log's."""

    def translated(self) -> AbstractContextManager[None]:
        """Translate errors inside of the context."""
        ...

    def failure_of(self, error: Exception) -> BaseException:
        """Return the translation of an error after the first rows."""
        ...


class Answer:
    """A relation of DuckDB's: `fetchall`, `df`, `to_arrow_table`, `show`, `filter` and the rest."""

    __slots__ = ("_errors", "_relation")

    def __init__(self, relation: Any, errors: ErrorTranslator) -> None:  # noqa: ANN401 - DuckDB's
        """Wrap a relation."""
        self._relation = relation
        self._errors = errors

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the relation's
        # Copies and pickles ask for these before there is a relation.
        if name in Answer.__slots__ or name.startswith("__"):
            raise AttributeError(name)
        with self._errors.translated():
            return _wrapped(getattr(self._relation, name), self._errors)

    def __getitem__(self, name: str) -> "Answer":
        with self._errors.translated():
            return Answer(self._relation[name], self._errors)

    def __len__(self) -> int:
        with self._errors.translated():
            return len(self._relation)

    def __contains__(self, name: object) -> bool:
        return name in self._relation

    def __repr__(self) -> str:  # type: ignore[explicit-override]  # needs Python 3.12
        with self._errors.translated():
            return repr(self._relation)

    def __dir__(self) -> list[str]:  # type: ignore[explicit-override]  # needs Python 3.12
        return dir(self._relation)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the rows to another library; an error is text there."""
        reader: Any = self.to_arrow_reader()
        return reader.__arrow_c_stream__(requested_schema)


def _wrapped(value: Any, errors: ErrorTranslator) -> Any:  # noqa: ANN401 - whatever a relation has
    """Return an attribute or result of a relation so that it translates errors."""
    if type(value).__name__ in _RELATIONS:
        return Answer(value, errors)
    if isinstance(value, pa.RecordBatchReader):
        reader: Any = pa.RecordBatchReader
        return reader.from_batches(value.schema, _batches(value, errors))
    if isinstance(value, Iterator):
        return _rows(value, errors)
    return _wrapped_method(value, errors) if callable(value) else value


def _wrapped_method(method: Callable[..., Any], errors: ErrorTranslator) -> Callable[..., Any]:
    @wraps(method)
    def called(*arguments: object, **options: object) -> Any:  # noqa: ANN401 - the method's
        inner = map(_relation_of, arguments)
        named = {name: _relation_of(option) for name, option in options.items()}
        with errors.translated():
            return _wrapped(method(*inner, **named), errors)

    return called


def _relation_of(argument: object) -> object:
    return argument._relation if isinstance(argument, Answer) else argument  # noqa: SLF001 - its own


def _rows(rows: Iterator[Any], errors: ErrorTranslator) -> Iterator[Any]:
    while True:
        with errors.translated():
            row = next(rows, _END)
        if row is _END:
            return
        yield row


def _batches(reader: pa.RecordBatchReader, errors: ErrorTranslator) -> Iterator[pa.RecordBatch]:
    while (batch := next_batch(reader, errors)) is not None:
        yield batch


def next_batch(reader: Iterator[pa.RecordBatch], errors: ErrorTranslator) -> pa.RecordBatch | None:
    """Return the next rows of an answer; None at the end."""
    try:
        return next(reader, None)
    except (import_duckdb().Error, pa.ArrowException, OSError, UnicodeDecodeError) as error:
        # NOTE: an error of DuckDB (2.0) after the first rows comes out of Arrow as an OSError.
        raise errors.failure_of(error) from error


def for_output(relation: Any) -> Any:  # noqa: ANN401 - DuckDB's
    """Return a relation that every output format can have: unique names, intervals as strings.

    Of two columns of one name, as a join of two streams has them, the second is `<name>_1`.
    """
    names = _unique_names(relation.columns)
    are_cast = [str(sql_type).startswith(_CAST_TO_STRING) for sql_type in relation.types]
    if names == list(relation.columns) and not any(are_cast):
        return relation
    columns = [
        f"CAST({quoted(name)} AS VARCHAR) AS {quoted(name)}" if is_cast else quoted(name)
        for name, is_cast in zip(names, are_cast, strict=True)
    ]
    aliases = ", ".join(map(quoted, names))
    return relation.query(
        "answer",
        f"SELECT {', '.join(columns)} FROM answer AS of_query({aliases})",  # noqa: S608 - quoted
    )


def _unique_names(names: Iterable[str]) -> list[str]:
    """Return names of which no two are equal to SQL."""
    originals, taken, unique = list(names), set[str](), list[str]()
    lowercase = {name.lower() for name in originals}
    for original in originals:
        name, count = original, 0
        while name.lower() in taken or (count and name.lower() in lowercase):
            count += 1
            name = f"{original}_{count}"
        taken.add(name.lower())
        unique.append(name)
    return unique

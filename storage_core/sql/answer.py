"""An answer of SQL: DuckDB's relation, whose errors are those of the log.

A relation runs when its rows are fetched. What goes wrong by then, such as a part that is damaged
or has gone, comes out of DuckDB as a text with a traceback inside. So whoever asks gets the
relation behind an `Answer`: it has each method of the relation, and raises our errors. Relations,
rows and readers that come of it do the same.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, Final, Protocol

import pyarrow as pa

from storage_core.sql.engine import duckdb_here

_RELATIONS: Final = ("DuckDBPyRelation", "GroupedRelation")
_NO_MORE: Final = object()


class Errors(Protocol):
    """What is known of errors where an answer comes from."""

    def translated(self) -> AbstractContextManager[None]:
        """Give an error of DuckDB's its kind."""
        ...

    def failure_of(self, error: Exception) -> BaseException:
        """Return what an error behind the first rows is to a caller."""
        ...


class Answer:
    """A relation of DuckDB's: `fetchall`, `df`, `to_arrow_table`, `show`, `filter`, all it has."""

    __slots__ = ("_errors", "_relation")

    def __init__(self, relation: Any, errors: Errors) -> None:  # noqa: ANN401 - DuckDB's
        """Stand before a relation."""
        self._relation = relation
        self._errors = errors

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the relation's
        # Copies and pickles ask for these before there is a relation.
        if name in Answer.__slots__ or name.startswith("__"):
            raise AttributeError(name)
        with self._errors.translated():
            return _ours(getattr(self._relation, name), self._errors)

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
        """Hand the rows to another library; an error is a text there."""
        reader: Any = self.to_arrow_reader()
        return reader.__arrow_c_stream__(requested_schema)


def _ours(value: Any, errors: Errors) -> Any:  # noqa: ANN401 - whatever a relation has
    """Return what a relation has, or what its methods return, with our errors."""
    if type(value).__name__ in _RELATIONS:
        return Answer(value, errors)
    if isinstance(value, pa.RecordBatchReader):
        reader: Any = pa.RecordBatchReader
        return reader.from_batches(value.schema, _batches(value, errors))
    if isinstance(value, Iterator):
        return _rows(value, errors)
    return _called(value, errors) if callable(value) else value


def _called(method: Callable[..., Any], errors: Errors) -> Callable[..., Any]:
    @wraps(method)
    def called(*arguments: object, **options: object) -> Any:  # noqa: ANN401 - the method's
        inner = [_relation_of(one) for one in arguments]
        named = {name: _relation_of(one) for name, one in options.items()}
        with errors.translated():
            return _ours(method(*inner, **named), errors)

    return called


def _relation_of(argument: object) -> object:
    return argument._relation if isinstance(argument, Answer) else argument  # noqa: SLF001 - its own


def _rows(rows: Iterator[Any], errors: Errors) -> Iterator[Any]:
    while True:
        with errors.translated():
            row = next(rows, _NO_MORE)
        if row is _NO_MORE:
            return
        yield row


def _batches(reader: pa.RecordBatchReader, errors: Errors) -> Iterator[pa.RecordBatch]:
    while True:
        batch = next_batch(reader, errors)
        if batch is None:
            return
        yield batch


def next_batch(reader: Iterator[pa.RecordBatch], errors: Errors) -> pa.RecordBatch | None:
    """Return some more rows of an answer; None if there are no more."""
    try:
        return next(reader, None)
    except (duckdb_here().Error, pa.ArrowException, OSError, UnicodeDecodeError) as error:
        # NOTE: what DuckDB (2.0) finds behind the first rows comes out of Arrow as an OSError.
        raise errors.failure_of(error) from error

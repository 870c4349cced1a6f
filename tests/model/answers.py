"""Every read, asked of the log and of the lists."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from storage_core import InvalidRequestError, LostRangeError
from storage_core.facade import StreamFacade
from storage_core.format.record import Record
from tests.lab import replayed, rows_of
from tests.model.plain_shard import GoneError, PlainRow, RefusedError
from tests.model.plain_stream import PlainStream, question_about
from tests.model.schemas import NOTHING
from tests.strategies import COLUMNS, Question

READ_COLUMNS = tuple(name for name in COLUMNS if name != "state")
_OF_SCHEMAS = ("shard", "address", "schema_id", "schema_fingerprint")
_RECORD_FIELDS = ("shard", "secondary", "primary", "version", "address", "late", "payload")


def check_rows(reads: StreamFacade[Any], plain: PlainStream) -> None:
    """Compare all rows in the order of `read`, and each shard's in order of arrival."""
    expected = plain.read(question_about())
    assert rows_of(reads.read(columns=COLUMNS)) == expected
    for shard in plain.shards:
        rows, gone = replayed(reads, shard.number)
        assert gone == shard.gone
        assert rows == shard.replayed()


def check_everything(reads: StreamFacade[Any], plain: PlainStream, question: Question) -> None:
    """Compare all rows, and put a question in every way there is."""
    check_rows(reads, plain)
    check_question(reads, plain, question)


def check_question(reads: StreamFacade[Any], plain: PlainStream, question: Question) -> None:
    """Put a question in every way there is."""
    for check in (_read, _scan, _for_each, _latest, _earliest, _available, _tail):
        check(reads, plain, question)


def _read(reads: StreamFacade[Any], plain: PlainStream, question: Question) -> None:
    columns = READ_COLUMNS if question.columns is None else question.columns
    _alike(
        lambda: rows_of(
            reads.read(
                question.ids,
                question.start,
                question.end,
                question.limit,
                versions=question.versions,
                latest_by=question.latest_by,
                tombstones=question.tombstones,
                columns=question.columns,
            )
        ),
        lambda: columns_of(plain.read(question), columns),
    )


def _scan(reads: StreamFacade[Any], plain: PlainStream, question: Question) -> None:
    columns = READ_COLUMNS if question.columns is None else question.columns
    _alike(
        lambda: rows_of(
            reads.scan(
                question.ids,
                question.start,
                question.end,
                versions=question.versions,
                columns=question.columns,
            )
        ),
        lambda: columns_of(plain.scan(question), columns),
    )


def _for_each(reads: StreamFacade[Any], plain: PlainStream, question: Question) -> None:
    most = question.limit + 1

    def real() -> list[tuple[object, ...]]:
        seen: list[Record] = []

        def look(record: Record) -> bool:
            seen.append(record)
            return len(seen) == most

        reads.for_each(question.ids, question.start, question.end, look)
        return [_fields_of(record) for record in seen]

    about = question_about(question.ids, question.start, question.end)
    _alike(real, lambda: columns_of(plain.read(about), _RECORD_FIELDS)[:most])


def _latest(reads: StreamFacade[Any], plain: PlainStream, question: Question) -> None:
    for ids in (None, question.ids):
        records = reads.latest(ids)
        expected = plain.latest(ids)
        assert records.keys() == expected.keys()
        for secondary, row in expected.items():
            assert [_fields_of(records[secondary])] == columns_of([row], _RECORD_FIELDS)


def _earliest(reads: StreamFacade[Any], plain: PlainStream, question: Question) -> None:
    assert reads.earliest(question.ids, question.from_) == plain.earliest(
        question.ids, question.from_
    )


def _available(reads: StreamFacade[Any], plain: PlainStream, question: Question) -> None:
    last, rows = reads.available(question.ids, question.from_, question.width, question.limit)
    expected_last, expected = plain.available(question)
    assert last == expected_last
    assert rows_of(rows) == columns_of(expected, READ_COLUMNS)


def _tail(reads: StreamFacade[Any], plain: PlainStream, question: Question) -> None:
    """Ask for addresses, the question's numbers taken as such where they may be."""
    beyond = max(shard.next for shard in plain.shards) + 5
    start = None if question.start is None else question.start % beyond
    end = None if question.end is None else question.end % beyond
    wanted = [question.ids] if isinstance(question.ids, int) else question.ids
    if wanted is not None and any(shard.gone for shard in plain.shards):
        # A shard that none of the ids can be in does not look.
        return
    for shard in plain.shards:
        _alike(
            lambda n=shard.number: rows_of(reads.tail(n, start, end, question.ids)),  # type: ignore[misc]
            lambda n=shard.number: [  # type: ignore[misc]
                row
                for row in plain.tail(n, start, end)
                if wanted is None or row.secondary in wanted
            ],
        )


def _alike(real: Callable[[], object], plain: Callable[[], object]) -> None:
    """Compare two answers; where the lists refuse, the log must."""
    try:
        expected = plain()
    except RefusedError:
        with pytest.raises(InvalidRequestError):
            real()
    except GoneError:
        with pytest.raises(LostRangeError):
            real()
    else:
        assert real() == expected


def columns_of(rows: list[PlainRow], columns: list[str] | tuple[str, ...]) -> list[tuple]:
    """Return of rows what these columns show."""
    return [tuple(getattr(row, name) for name in columns) for row in rows]


def _fields_of(record: Record) -> tuple[object, ...]:
    return tuple(getattr(record, name) for name in _RECORD_FIELDS)


class Begun:
    """A scan that has begun, with its first rows taken."""

    def __init__(self, batches: Iterator[Any], expected: list[Any]) -> None:
        """Take the first batch."""
        self._batches = batches
        self._expected = [tuple(row) for row in expected]
        first = next(batches, None)
        self._rows = [] if first is None else rows_of([first])

    def expect_the_rest(self, left: list[Any] | None = None) -> None:
        """Find all that was there when it began.

        Where rows have expired meanwhile it may be told that they are gone, and of shards that it
        had not come to it may show what is left.
        """
        try:
            for batch in self._batches:
                self._rows += rows_of([batch])
        except LostRangeError:
            assert left is not None
            assert self._rows == self._expected[: len(self._rows)]
            return
        for shard in {row[0] for row in self._expected}:
            shard_rows, expected, now = (
                [row for row in rows if row[0] == shard]
                for rows in (self._rows, self._expected, left or [])
            )
            assert shard_rows == expected or (left is not None and shard_rows == now)


def check_schemas(reads: StreamFacade[Any], plain: PlainStream) -> None:
    """Compare what rows show of their schemas, in order of arrival and by id."""
    rows = [row for shard in plain.shards for row in shard.visible()]
    schemas = {shard.number: shard.schemas for shard in plain.shards}
    expected = [(row.shard, row.address, schemas[row.shard][row.address]) for row in rows]
    expected.sort(key=_place)
    for batches in (reads.scan(columns=_OF_SCHEMAS), reads.read(columns=_OF_SCHEMAS)):
        numbered = [(shard, at, (*shown,)) for shard, at, *shown in rows_of(batches)]
        assert sorted(numbered, key=_place) == expected
    every = reads.schemas()
    identities = {entry.identity for entry in every}
    for registry_id in {entry.registry_id for entry in every}:
        of_id = {entry for entry in every if entry.registry_id == registry_id}
        assert set(reads.schemas(registry_id)) == of_id
    assert identities >= {shown for *_, shown in expected if shown != NOTHING}


def _place(row: tuple[Any, ...]) -> tuple[int, int]:
    shard, address = row[:2]
    return shard, address

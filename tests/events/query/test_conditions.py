"""Goal: a row satisfies a condition or it does not; null satisfies no comparison."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.events.query.test_queries_at_random import rows_in
from tests.events.stored import FIRST_US, Event, StoredEvents, time_of
from typed_events.language.commands import Query
from typed_events.language.expressions import (
    And,
    Comparison,
    Expression,
    Field,
    InList,
    IsNull,
    Like,
    Not,
    Or,
)
from typed_events.query.queries import Queries

# Numbers that no event has.
MANY = range(1000, 1200)
NUMBERS = ("amount", "version", "timestamp")
STATUS, AMOUNT, NUMBER = Field("status"), Field("amount"), Field("number")
IS_PAID = Comparison(STATUS, "=", "paid")
# Event 0 is paid, 1 is new, 2 has neither a status nor an amount.
CONDITIONS: dict[str, tuple[Expression, list[int]]] = {
    "equal": (IS_PAID, [0]),
    "not equal": (Comparison(STATUS, "!=", "paid"), [1, 2]),
    "not": (Not(IS_PAID), [1, 2]),
    "not not": (Not(Not(IS_PAID)), [0]),
    "null": (IsNull(STATUS), [2]),
    "not null": (Not(IsNull(STATUS)), [0, 1]),
    "less": (Comparison(AMOUNT, "<", 6), [0]),
    "not less": (Not(Comparison(AMOUNT, "<", 6)), [1, 2]),
    "in": (InList(STATUS, ("paid", "sent")), [0]),
    "not in": (Not(InList(STATUS, ("paid", "sent"))), [1, 2]),
    "like": (Like(STATUS, "p%"), [0]),
    "not like": (Not(Like(STATUS, "p%")), [1, 2]),
    "not and": (Not(And((IS_PAID, Comparison(AMOUNT, "=", 5)))), [1, 2]),
    "not or": (Not(Or((IS_PAID, Comparison(AMOUNT, "=", 7)))), [2]),
    "fraction": (Comparison(NUMBER, "<=", 1.5), [0, 1]),
    "above a fraction": (Comparison(NUMBER, ">", 0.5), [1, 2]),
    "no int": (Comparison(NUMBER, "=", 1.5), []),
    "beyond all ints": (Comparison(NUMBER, "<", 2**70), [0, 1, 2]),
    "not beyond all ints": (Not(Comparison(AMOUNT, "<", 2**70)), [2]),
    "below all ints": (Comparison(NUMBER, ">=", -1e300), [0, 1, 2]),
    "position": (Comparison(Field("id"), ">", "0:0"), [1, 2]),
    "context": (Comparison(Field("context_id"), "!=", "a"), [1]),
    "type": (Comparison(Field("event_type"), "=", "order"), [0, 1, 2]),
    "another type": (Comparison(Field("event_type"), "!=", "order"), []),
    "version": (InList(Field("version"), (1, 3)), [0, 1, 2]),
}


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queries]:
    """Three events."""
    root: Path = tmp_path_factory.mktemp("events")
    with StoredEvents(root) as stored:
        fields = {"status": "string | null", "amount": "int | null", "number": "int"}
        stored.define("order", fields)
        rows: list[Event] = [
            {"status": "paid", "amount": 5, "number": 0},
            {"status": "new", "amount": 7, "number": 1},
            {"number": 2},
        ]
        stored.store("order", ["a", "b", "a"], rows)
        with Queries(root) as opened:
            yield opened


@pytest.mark.parametrize("name", CONDITIONS)
def test_condition_takes_the_rows_that_satisfy_it(queries, name):
    where, expected = CONDITIONS[name]
    rows = rows_in(queries.query(Query("order", where=where)))
    assert [row["number"] for row in rows] == expected


@pytest.mark.parametrize(
    ("field", "values", "expected"),
    [
        ("status", ["paid", "it's", 'a "b"', "\0"], [0]),
        ("amount", [5, 7.5, 2**63 - 1, -(2**63), 2**70, 1e300], [0]),
        ("id", ["0:0", "0:02"], [0, 2]),
        ("context_id", ["a", "0x61"], [0, 2]),
        ("timestamp", [f"{time_of(FIRST_US + 2)}".replace("+00:00", "Z"), 0], [1]),
        ("version", [1, 5], [0, 1, 2]),
        ("event_type", ["order"], [0, 1, 2]),
    ],
)
def test_one_of_many_values_is_as_one_of_few(queries, field, values, expected):
    others = [f"{n}:{n}" if field == "id" else n if field in NUMBERS else f"{n + 1}" for n in MANY]
    for many in (values, [*values, *others]):
        for is_not in (False, True):
            term: Expression = InList(Field(field), tuple(many))
            rows = rows_in(queries.query(Query("order", where=Not(term) if is_not else term)))
            numbers = [row["number"] for row in rows]
            assert numbers == ([n for n in range(3) if n not in expected] if is_not else expected)
